"""The command line: one file per command, with its parser and exit status."""
