"""Rows with times on their way to a Trace, and the databases they come from: what readers of several families share."""
