"""Asking: a view and its runs become a table, from the stored answer where there is one; and the summary report."""
