"""From a view and runs to a table, computed or read from the stored answer; and the summary report."""
