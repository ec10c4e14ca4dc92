"""A view's answer as a table: columns, rows, filter, order, notes; and its exports."""
