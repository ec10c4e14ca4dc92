"""The command line."""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    return 0
