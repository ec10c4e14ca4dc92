"""Rules about time in which devices did not compute."""
