"""Views of what profilers report of their own: metrics by section with rules, types of operators."""
