"""Shared code of the readers of several formats: collecting timed rows for a Trace, and reading SQLite databases."""
