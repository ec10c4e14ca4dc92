"""Formats → one columnar Trace: one file a format, a registry, a cache. Knows no question and no screen."""
