"""The list that shows every table, rendered line by line."""
