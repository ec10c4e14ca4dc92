"""Panels over the screen: help, palette, picker, details, columns, choices."""
