"""Panels over the screen: help, palette, picker, details."""
