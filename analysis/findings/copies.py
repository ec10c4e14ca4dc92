"""Copies that no kernel hides."""

from __future__ import annotations

from msgspec import Struct

from .rule import WAITING, Evidence, PartOfStep, Rule


class BareCopies(Struct, frozen=True):
    """Time of a step in which a copy ran and no kernel, ns."""

    copying_ns: float
    part: PartOfStep


def _find(evidence: Evidence) -> BareCopies | None:
    copying = evidence.times.get("Memcpy", 0.0)
    worth_it = evidence.step_ns and copying > WAITING * evidence.step_ns
    return BareCopies(copying, evidence.part) if worth_it else None


def _sentence(found: BareCopies) -> str:
    return f"Copies that no kernel hides take {found.part.of(found.copying_ns)}."


RULE = Rule("copies", "problem", _find, _sentence, time_to_win_ns=lambda found: found.copying_ns, view="kernels")
