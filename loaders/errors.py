"""The one error for unreadable input, a sentence with the file, the reason and what to do, and ``Cancelled``."""

from __future__ import annotations


class Unreadable(Exception):
    """The input cannot be opened as a trace. ``path`` is as the user typed it, ``reason`` a clause without full stop,
    ``advice`` a sentence on what to do."""

    def __init__(self, path: object, reason: str, advice: str = "") -> None:
        self.path, self.reason, self.advice = str(path), reason, advice
        super().__init__(f"{self.path}: {reason}." + (f" {advice}" if advice else ""))

    def __reduce__(self) -> tuple[type[Unreadable], tuple[str, str, str]]:
        return Unreadable, (self.path, self.reason, self.advice)


class Cancelled(Exception):
    """The user cancelled the load."""
