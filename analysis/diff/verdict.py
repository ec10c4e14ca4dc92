"""The verdict of a comparison as data, for exports and for the gate, and what explains the difference.

A changed resource is not the cause of a slower cycle it does not explain. It explains one only if the part of the
machine it belongs to got slower with it and the cycle waits for that part; if the cycle kept its length it explains the
GPU work at most. Decided here as data; ``present.sentences`` words it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, convert, to_builtins

from ...loaders.trace import Trace
from ..contract.changes import Change, exactly
from ..contract.options import Options
from ..replay.replayed import replay_of
from .change import CycleChange
from .cycle_time import CycleTime
from .device_work import CHANGED, DeviceWork
from .function_change import FunctionChange, IdleChange
from .lead import lead_of
from .prepare.collectives import CollectiveTiming
from .resources import ChangedResource, foremost_cause
from .same_work import SameWork

Reach = Literal[
    "slower cycle", "slower cycle, not the work", "host, nothing slower", "maybe outliers", "no slower cycle",
    "nothing slower", "hidden work", "work, cycle unknown", "work, not outliers", "work", "maybe faster cycle",
]
"""What a changed resource explains; ``work`` is the work of its device."""
Where = Literal["idle", "gpu work", "host", "nothing needed", "unknown"]  # Where the cycle's time was lost or won.


_KINDS = {"kernel": "kernel", "collective": "collective", "memcpy": "copy", "memset": "copy"}
_SAME = 0.02
"""Functions that changed by at most this share count as unchanged."""


class PredictedEffect(Struct, frozen=True):
    """A cycle of A, ns: as replayed, and predicted with B's time per launch for ``functions`` of its functions;
    ``error`` is that of the replay."""

    cycle_ns: int
    predicted_ns: int
    functions: int
    error: float


class Cause(Struct, frozen=True):
    """Why two runs differ: the ``resource`` with its ``reach``, if one changed, and ``where`` the cycle changed.
    ``idle`` is the idle cause that makes up the cycle's change, ``alone`` the predicted effect of only the resource."""

    where: Where = "unknown"
    idle: IdleChange | None = None
    resource: ChangedResource | None = None
    reach: Reach | None = None
    alone: PredictedEffect | None = None


def cause_of(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork],
    idle: Sequence[IdleChange],
) -> Cause:
    """The foremost changed capacity with what it explains, and where the cycle lost or won its time."""
    waited = next((one for one in idle if one.explains_cycle), None)
    where = "idle" if waited else _where(cycles, work)
    if (grown := _grown(resources, cycles, work)) is not None:
        faster = cycles is not None and cycles.verdict == "faster"
        reach: Reach = "maybe faster cycle" if grown.device == "Host" else "work, cycle unknown" if faster else "work"
        return Cause(where, waited, grown, reach)
    top = foremost_cause(resources)
    return Cause(where, waited, top, None if top is None else _reach(top, cycles, work))


def _grown(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork]
) -> ChangedResource | None:
    """The capacity that grew on a device that got faster (the host if the cycle did), if nothing got slower; whatever
    shrank elsewhere then cost nothing."""
    verdict = cycles.verdict if cycles is not None else ""
    if verdict == "slower" or any(row.slower for row in work):
        return None
    faster = {row.device for row in work if row.faster} | ({"Host"} if verdict == "faster" else set())
    more = [row for row in resources if row.role == "capacity" and row.loss < 0 and row.device in faster]
    return min(more, key=lambda row: (round(row.loss, 3), -len(row.metric), row.device), default=None)


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
    """The part of the machine that lost the time, for cycles that no idle cause explains."""
    if cycles is None or cycles.verdict != "slower":
        return "nothing needed" if cycles is not None and cycles.verdict == "unchanged" else "unknown"
    if any(row.path == "exposed" for row in work):
        return "gpu work"
    idle = [(row.idle_a, row.idle_b) for row in work if row.idle_a is not None and row.idle_b is not None]
    same = all(row.ratio is not None and abs(row.ratio - 1) <= CHANGED for row in work)
    return "host" if work and same and idle and all(b > a + 0.01 for a, b in idle) else "unknown"


Samples = Literal["cycles", "launches", "runs", "aggregates", "a finished comparison"]


class Calibration(Struct, frozen=True):
    """How the rows' noise was measured, and its maximum in ms per cycle: ``row_ms`` over device rows (host rows if
    there are none), ``categories`` per category."""

    method: str = "none"
    row_ms: float | None = None
    categories: dict[str, float] = {}


class CategoryTime(Struct, frozen=True):
    """One category of the step breakdown in both runs, mean ms per step."""

    category: str
    a_ms: float
    b_ms: float

    @property
    def delta_ms(self) -> float:
        """B minus A."""
        return self.b_ms - self.a_ms


class Comparability(Struct, frozen=True):
    """Whether the runs are shown to do the same work, FLOPs of B over those of A where known, and what may weaken a
    comparison: other devices, cycles from another source, graphs on one side only."""

    comparable: bool = True
    flops_ratio: float | None = None
    reasons: tuple[str, ...] = ()


class UniformChange(Struct, frozen=True):
    """All kernels that both runs have got slower or faster by one ``factor`` (time-weighted mean, B over A), with its
    ``spread`` as a share: what a clock or power limit does. A lead, never a proved cause."""

    kernels: int
    of: int
    factor: float
    spread: float


class Verdict(Struct, frozen=True):
    """The differences of two runs. ``cycle_time`` is None if no common cycles were found, ``change`` where the cycle
    cannot be divided among its causes."""

    comparability: Comparability
    same_work: SameWork
    explanation: str
    samples: Samples
    cycle_time: CycleTime | None = None
    work: tuple[DeviceWork, ...] = ()
    resources: tuple[ChangedResource, ...] = ()
    idle: tuple[IdleChange, ...] = ()
    cause: Cause = Cause()
    calibration: Calibration = Calibration()
    collectives: tuple[CollectiveTiming, ...] = ()
    breakdown: tuple[CategoryTime, ...] = ()
    change: CycleChange | None = None
    uniform: UniformChange | None = None
    runs_a: int = 1
    runs_b: int = 1

    def facts(self) -> dict[str, Any]:
        """The verdict as plain values for exports, with its lead."""
        made: dict[str, Any] = to_builtins(self)
        lead_from = self.cycle_time, self.work, self.cause.resource is not None, self.cause.idle is not None
        return made | {"lead": to_builtins(lead_of(*lead_from))}


def verdict_of(facts: dict[str, Any]) -> Verdict:
    """The verdict that ``facts`` was made from."""
    return convert(facts, Verdict)


def predicted_effect(
    run: Trace, resource: ChangedResource | None, rows: Sequence[FunctionChange], options: Options
) -> PredictedEffect | None:
    """The cycle of ``run`` (A) replayed with B's time per launch for the functions that ran under the changed resource;
    None if the replay is not reliable or the same functions ran on other devices too."""
    if resource is None or resource.device == "Host":
        return None
    changed = [
        row for row in rows
        if row.device == resource.device and row.metric == resource.metric and row.kind in _KINDS and row.ratio
        and abs(row.ratio - 1) > _SAME and row.part_of is None
    ]
    names = {row.function for row in changed}
    elsewhere = any(row.function in names and row.device != resource.device for row in rows)
    if not changed or elsewhere or not run.has("host"):
        return None
    replayed = replay_of(run, options)
    if replayed.model is None or not replayed.predicts or replayed.accuracy.error is None:
        return None
    changes = [Change(_KINDS[str(row.kind)], exactly(row.function), row.ratio) for row in changed]
    outcome, _ = replayed.with_changes(changes)
    return PredictedEffect(
        round(replayed.cycle_ns), round(replayed.model.cycle_ns(outcome)), len(changed), replayed.accuracy.error)
