"""How the cycles of a run are detected, once for all views: sources, patterns, assignment, completeness."""
