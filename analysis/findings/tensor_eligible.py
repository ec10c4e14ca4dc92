"""Operators that could use tensor cores, where no kernel does."""

from __future__ import annotations

from msgspec import Struct

from .rule import Evidence, Rule
from .spread import share_text


class Eligible(Struct, frozen=True):
    """Share of the device time in operators that can use tensor cores, 0-1."""

    share: float


def _find(evidence: Evidence) -> Eligible | None:
    return Eligible(evidence.eligible_share) if evidence.eligible_share else None


def _sentence(found: Eligible) -> str:
    could = f"{share_text(found.share)} of the device time is in operators that could be"
    return f"No kernel is named after tensor cores, though {could}."


RULE = Rule("tensor eligible", "hint", _find, _sentence, view="ops")
