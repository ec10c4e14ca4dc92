"""Views of what profilers themselves report: metrics by section with rules, operator types, CPU call stacks."""
