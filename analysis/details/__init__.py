"""Everything known about one row of a view."""
