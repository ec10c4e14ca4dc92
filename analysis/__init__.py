"""Trace → answers: one file per question, pure and lazy. Knows no trace format and no screen.

Importing this package, ``views``, ``column``, ``units`` or ``text`` loads neither polars nor numpy, so that the first
frame and ``--help`` do not wait for them.
"""
