"""Shared by the rules about work: how a pattern becomes a finding, and the wording of its figures."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ...core import units
from ..evidence.below_peak import Below
from ..rule import Evidence, Rule


class Found(Struct, frozen=True):
    """A pattern, and the word for a cycle of the run."""

    below: Below
    word: str


def rule(id: str, pattern: str, sentence: Callable[[Below, str], str], filter: str) -> Rule[Found]:
    """The rule of a pattern of ``evidence.below_peak``."""

    def find(evidence: Evidence) -> Found | None:
        below = (evidence.measured.below_peak or {}).get(pattern)
        worth = below is not None and below.worth_saying(evidence.step_ns * evidence.steps)
        return Found(below, evidence.step_word) if below is not None and worth else None

    return Rule(
        id, "hint", find, lambda found: sentence(found.below, found.word),
        rows=lambda found: ({"op": found.below.op, "device_ns": found.below.device_ns, "share": found.below.share,
                             "of_peak": found.below.of_peak, "lost_ns": found.below.lost_ns},),
        cost_ns=lambda found: found.below.cost_ns, win_ns=lambda found: found.below.win_ns, view="roofline",
        filter=filter,
    )


def at_peak(one: Below) -> str:
    """' runs at 12% of fp16 peak'; empty if the share of peak is unknown."""
    return "" if one.of_peak is None else f" runs at {units.percent(100 * one.of_peak)} of {one.peak}"


def time_of(one: Below) -> str:
    """'12% of the device time'."""
    return f"{units.percent(100 * one.share, places=0)} of the device time"


def win(one: Below, word: str) -> str:
    """The saving the replay predicts, as a clause."""
    if one.win_ns is None or one.cycle_ns is None:
        return "would save part of that; the replay cannot predict how much"
    of = f"per {word}" if one.replayed_cycles else "in the whole recording"
    return f"would win at most {units.duration(one.win_ns)} of {units.duration(one.cycle_ns)} {of}"
