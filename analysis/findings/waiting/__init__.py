"""Rules about time in which devices did not compute, and about when that was."""
