"""What explains the difference: a changed resource, a cause of idle time, more GPU work, or nothing that was recorded.

A changed resource is no cause of a slow cycle it does not explain. It explains a slower cycle only where the part of
the machine it belongs to got slower with it and somebody waited for that part; where the cycle kept its length it can
explain the GPU's work at most. Decided here as data; ``present.causes`` says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .cycle_time import CycleTime
from .device_work import CHANGED, DeviceWork
from .idle_changes import IdleChange
from .resources import ChangedResource, foremost_cause

Reach = Literal[
    "slower cycle", "slower cycle, not the work", "host, nothing slower", "maybe outliers", "no slower cycle",
    "nothing slower", "hidden work", "work, cycle unknown", "work, not outliers", "work", "maybe faster cycle",
]
"""What a changed resource explains; ``work`` is that of its device."""
Where = Literal["idle", "gpu work", "host", "nothing needed", "unknown"]
"""Where the cycle's time was lost or won."""


class Cause(Struct, frozen=True):
    """Why two runs differ: the ``resource`` and its ``reach``, where one changed, and ``where`` the cycle changed.

    ``idle`` is the cause of idle time that makes up the cycle's change.
    """

    where: Where = "unknown"
    idle: IdleChange | None = None
    resource: ChangedResource | None = None
    reach: Reach | None = None


def cause_of(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork],
    idle: Sequence[IdleChange],
) -> Cause:
    """The foremost changed capacity with what it explains, and where the time of the cycle went."""
    resource, reach = _resource(resources, cycles, work)
    waited = next((one for one in idle if one.explains_cycle), None)
    return Cause("idle" if waited else _where(cycles, work), waited, resource, reach)


def _resource(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork]
) -> tuple[ChangedResource | None, Reach | None]:
    if (grown := _grown(resources, cycles, work)) is not None:
        return grown, _reach_of_grown(grown, cycles)
    top = foremost_cause(resources)
    return top, None if top is None else _reach(top, cycles, work)


def _grown(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork]
) -> ChangedResource | None:
    """The capacity there is more of where a device, or the cycle, got faster and nothing slower.

    What shrank elsewhere meanwhile cost nothing.
    """
    verdict = cycles.verdict if cycles is not None else ""
    if verdict == "slower" or any(row.slower for row in work):
        return None
    faster = {row.device for row in work if row.faster} | ({"Host"} if verdict == "faster" else set())
    more = [row for row in resources if row.role == "capacity" and row.loss < 0 and row.device in faster]
    return min(more, key=lambda row: (round(row.loss, 3), -len(row.metric), row.device), default=None)


def _reach_of_grown(grown: ChangedResource, cycles: CycleTime | None) -> Reach:
    if grown.device == "Host":
        return "maybe faster cycle"
    return "work, cycle unknown" if cycles is not None and cycles.verdict == "faster" else "work"


def _reach(top: ChangedResource, cycles: CycleTime | None, work: Sequence[DeviceWork]) -> Reach:
    slower = cycles is not None and cycles.verdict == "slower"
    odd = cycles is not None and bool(cycles.slow_in_b) and not slower
    on_host = top.device == "Host"
    work_slower = any(row.slower and (on_host or row.device == top.device) for row in work)
    if on_host:
        if slower and top.functions:
            return "slower cycle" if work_slower else "slower cycle, not the work"
        if slower:
            return "host, nothing slower"
        return "maybe outliers" if odd and top.functions else "no slower cycle"
    if not work_slower and not top.functions:
        return "nothing slower"
    paths = {row.path for row in work if row.device == top.device}
    if slower and "exposed" in paths:
        return "slower cycle"
    if slower:
        return "hidden work" if paths == {"hidden"} else "work, cycle unknown"
    return "work, not outliers" if odd else "work"


def _where(cycles: CycleTime | None, work: Sequence[DeviceWork]) -> Where:
    """Where no cause of idle time says it: at least which part of the machine the time was lost on."""
    if cycles is None or cycles.verdict != "slower":
        return "nothing needed" if cycles is not None and cycles.verdict == "unchanged" else "unknown"
    if any(row.path == "exposed" for row in work):
        return "gpu work"
    idle = [(row.idle_a, row.idle_b) for row in work if row.idle_a is not None and row.idle_b is not None]
    same = all(row.ratio is not None and abs(row.ratio - 1) <= CHANGED for row in work)
    return "host" if work and same and idle and all(b > a + 0.01 for a, b in idle) else "unknown"
