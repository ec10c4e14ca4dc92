"""Trace → answers: one file a question, pure and lazy. Knows no format and no screen.

Importing this package, ``views``, ``column``, ``units`` or ``text`` loads neither polars nor numpy, so that the first
frame and ``--help`` do not wait for them.
"""
