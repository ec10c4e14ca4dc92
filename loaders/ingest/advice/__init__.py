"""What to tell somebody whose file does not open, or who asks what was made of it."""
