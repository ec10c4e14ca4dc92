"""A view answered: columns, rows, filter, order, notes; and its exports."""
