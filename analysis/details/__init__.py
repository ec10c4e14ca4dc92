"""The details of one row of a view."""
