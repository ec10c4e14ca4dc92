"""The clock of a device drops under load."""

from __future__ import annotations

from ...core import units
from ...core.text import display
from ..evidence.samples import Clock
from ..rule import Evidence, Rule, Unchecked

LEAST = 0.05  # Share of the samples that must be low.
ENOUGH = 10  # With fewer samples the rule is not checked.


def _find(evidence: Evidence) -> Clock | Unchecked | None:
    samples = evidence.measured.samples
    clock = samples.clock if samples is not None else None
    if clock is None or clock.samples < ENOUGH:
        return Unchecked("clocks were not sampled while kernels ran")
    return clock if clock.low > LEAST * clock.samples else None


def _sentence(clock: Clock) -> str:
    low, high = (f"{units.number(value)} {clock.unit}".rstrip() for value in (clock.lowest, clock.high))
    part = f"low in {units.percent(100 * clock.low / clock.samples, places=0)} of the samples"
    what, usual = ("is low", f"devices of this recording reach {high}") if clock.peers else ("drops", f"usually {high}")
    device = display(clock.device or "the device", 24)
    return f"The clock of {device} {what} while it works: {low} at the lowest, {usual}; {part}."


RULE = Rule(
    "clock drop", "problem", _find, _sentence,
    rows=lambda clock: (
        {"device": clock.device, "metric": clock.metric, "low": clock.low, "samples": clock.samples},), view="metrics",
)
