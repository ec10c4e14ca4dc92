"""Operators as one tree per thread, with their host and device time."""
