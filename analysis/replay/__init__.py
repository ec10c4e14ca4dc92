"""Replay of a run from its dependencies: what a change would save, and how far the replay can be trusted."""
