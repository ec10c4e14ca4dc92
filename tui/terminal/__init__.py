"""Output to and input from the terminal: writer, screen diff, clipboard, sanitiser, and hooks into Textual."""
