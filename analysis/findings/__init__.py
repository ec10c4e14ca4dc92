"""What a run's overview amounts to: rules, and the findings they make of the evidence."""
