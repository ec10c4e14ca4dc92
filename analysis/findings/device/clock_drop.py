"""The clock of a device drops while it works."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.text import display
from ..evidence.samples import Clock
from ..rule import Evidence, Rule, Unchecked

LEAST = 0.05
"""Share of the samples that must be low."""
ENOUGH = 10
"""Fewer samples show nothing."""


class Dropped(Struct, frozen=True):
    """The clock that dropped."""

    clock: Clock


def _find(evidence: Evidence) -> Dropped | Unchecked | None:
    samples = evidence.measured.samples
    clock = samples.clock if samples is not None else None
    if clock is None or clock.samples < ENOUGH:
        return Unchecked("clocks were not sampled while kernels ran")
    return Dropped(clock) if clock.low > LEAST * clock.samples else None


def _sentence(found: Dropped) -> str:
    clock = found.clock
    low, high = (f"{units.number(value)} {clock.unit}".rstrip() for value in (clock.lowest, clock.high))
    device = display(clock.device or "the device", 24)
    part = f"low in {units.percent(100 * clock.low / clock.samples, places=0)} of the samples"
    if clock.peers:
        return (f"The clock of {device} is low while it works: {low} at the lowest, where devices of this recording "
                f"reach {high}; {part}.")
    return f"The clock of {device} drops while it works: {low} at the lowest, usually {high}; {part}."


RULE = Rule(
    "clock drop", "problem", _find, _sentence,
    rows=lambda found: ({"device": found.clock.device, "metric": found.clock.metric, "low": found.clock.low,
                         "samples": found.clock.samples},), view="metrics",
)
