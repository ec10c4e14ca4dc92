"""Memory is allocated and freed, or code loaded, while devices wait."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.text import display
from ..evidence.waits import Waits
from ..rule import NO_CAUSES, Evidence, Rule, Unchecked

LEAST = 0.02
"""Share of a device's window below which this is not mentioned."""


class Churn(Struct, frozen=True):
    """The waits of a device for allocation, with the calls that most of them end with."""

    waits: Waits
    idle_ns: int
    calls: tuple[tuple[str, int], ...]


def _find(evidence: Evidence) -> Churn | Unchecked | None:
    waits = evidence.measured.waits
    if waits is None or evidence.doubt is not None:
        return Unchecked(evidence.doubt or NO_CAUSES)
    idle = waits.causes.get("allocation", 0)
    return Churn(waits, idle, waits.allocations) if waits.share(idle) > LEAST else None


def _sentence(found: Churn) -> str:
    calls = ", ".join(f"{units.counted(count, 'call', 'calls')} of {display(name, 40)}" for name, count in found.calls)
    times = f"{units.duration(found.idle_ns)} of {units.duration(found.waits.window_ns)}{found.waits.where}"
    return (f"Allocation holds up launches: {display(found.waits.device or 'the device', 24)} is idle {times} while "
            f"memory or code is allocated, freed or loaded{f': {calls}' if calls else ''}.")


RULE = Rule(
    "allocation", "problem", _find, _sentence,
    rows=lambda found: tuple({"call": name, "count": count} for name, count in found.calls),
    time_to_win_ns=lambda found: found.idle_ns, view="idle", filter="cause=allocation",
)
