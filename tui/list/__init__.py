"""The list every table is shown in, rendered line by line."""
