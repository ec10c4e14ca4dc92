"""The command line: one file a command, its parser and its exit status."""
