"""Operators as one tree per thread, with their time on host and device."""
