"""The compiled scanner of trace events."""
