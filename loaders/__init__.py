"""Readers from every trace format to one columnar Trace, with a registry and a cache. Knows no view and no screen."""
