"""Devices wait while memory is allocated or freed, or code is loaded."""

from __future__ import annotations

from ...core import units
from ...core.text import display
from ..evidence.waits import Waits
from ..rule import Evidence, Rule, Unchecked

LEAST = 0.02  # Share of a device's window below which this is not mentioned.


def _find(evidence: Evidence) -> Waits | Unchecked | None:
    waits = evidence.attributed
    return waits if isinstance(waits, Unchecked) or waits.share(waits.allocation.idle_ns) > LEAST else None


def _sentence(waits: Waits) -> str:
    calls = ", ".join(f"{units.count(count)} × {display(name, 40)}" for name, count in waits.allocations)
    return (f"Allocation delays launches: {waits.who} waits {waits.of(waits.allocation.idle_ns)} while memory is "
            f"allocated or freed or code is loaded{f': {calls}' if calls else ''}.")


RULE = Rule(
    "allocation", "problem", _find, _sentence,
    rows=lambda waits: tuple({"call": name, "count": count} for name, count in waits.allocations),
    cost_ns=lambda waits: waits.allocation.idle_ns, view="idle", filter="cause=allocation",
    change=lambda _: "idle:allocation=0",
)
