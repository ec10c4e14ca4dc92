"""What stands out in one run."""
