"""The one account of a run's cycles: sources, patterns, assignment, completeness."""
