"""Detection of a run's cycles, once for all views: sources, patterns, assignment, completeness."""
