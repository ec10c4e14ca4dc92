"""The one error a user's file can cause: a sentence that names the file, the reason and what to do."""

from __future__ import annotations


class Unreadable(Exception):
    """The input cannot be opened as a trace. ``path`` as the user named it, ``reason`` a clause without full stop,
    ``advice`` what to do about it."""

    def __init__(self, path: object, reason: str, advice: str = "") -> None:
        self.path, self.reason, self.advice = str(path), reason, advice
        super().__init__(f"{self.path}: {reason}." + (f" {advice}" if advice else ""))

    def __reduce__(self) -> tuple[type[Unreadable], tuple[str, str, str]]:
        return Unreadable, (self.path, self.reason, self.advice)


class Cancelled(Exception):
    """The user stopped the load."""
