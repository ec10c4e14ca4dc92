"""A run replayed from what orders it: what a change would buy, and how far the replay itself can be trusted."""
