"""What travels between the app and the terminal: writer, screen diff, input, sanitiser."""
