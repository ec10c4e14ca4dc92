"""The findings of a run: rules, and the evidence they are applied to."""
