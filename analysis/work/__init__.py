"""What operators compute and move at least, and how far that is from what their device can do."""
