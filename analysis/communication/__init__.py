"""What devices spend on talking to each other."""
