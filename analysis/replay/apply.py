"""Changes become turned knobs of the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from ..contract.changes import GRAPH, Change
from ..core.call_tree import Ints, Mask
from ..idle.causes import cause_of_call
from .host_time import HostTime
from .loop import NEVER
from .model import Floats, Knobs, Model
from .recording import EDGE

_ACTIVITIES = {"kernel": ("kernel",), "collective": ("collective",), "copy": ("memcpy", "memset")}
_SLICED = ("input", "python", "op", "runtime", "copy", "allocation", "sync", "profiler", "untraced")
CAUSES = (*_SLICED, "launch", "dispatch", "graph", "unknown")
"""Causes of idle time that a replay can change; ``queued`` is what it has no cause for."""


def apply(
    model: Model, host: HostTime, changes: Iterable[Change], least: Callable[[], Floats]
) -> tuple[Knobs, tuple[str, ...]]:
    """The knobs with every change applied, and those changes (as typed) that match nothing.

    ``least`` gives the least time of each activity (ns, NaN where its work or the peak is not known).
    """
    knobs, unmatched = model.knobs(), []
    for change in changes:
        pattern = re.compile(change.pattern)
        if change.factor is None:
            some = launched_under(model, host, pattern)[1] if change.kind == "op" else activities(
                model, change.kind, pattern)
            some &= ~np.isnan(least())
            knobs.dur[some] = np.minimum(knobs.dur[some], least()[some].astype(np.int64))
            matches = bool(some.any())
        else:
            matches = _TURN[change.kind](model, host, knobs, pattern, change.factor)
        if not matches:
            unmatched.append(change.text)
    return knobs, tuple(unmatched)


def _scaled(values: Ints, some: Mask, factor: float) -> None:
    values[some] = np.round(values[some] * factor).astype(np.int64)


def _take(knobs: Knobs, spans: Ints, factor: float) -> None:
    """Host time before calls becomes that part of itself."""
    knobs.gap -= np.round(spans * (1 - factor)).astype(np.int64)


def activities(model: Model, kind: str, pattern: re.Pattern[str]) -> Mask:
    """The activities of a kind of change with such a name."""
    a = model.recording.activities
    of_kind = a.kind.where(_ACTIVITIES[kind].__contains__)
    return of_kind & a.name.where(lambda name: name is not None and pattern.search(name))


def _activities(kind: str) -> Callable[..., bool]:
    def turn(model: Model, host: HostTime, knobs: Knobs, pattern: re.Pattern[str], factor: float) -> bool:
        some = activities(model, kind, pattern)
        _scaled(knobs.dur, some, factor)
        return bool(some.any())

    return turn


def launched_under(model: Model, host: HostTime, pattern: re.Pattern[str]) -> tuple[Mask, Mask]:
    """The operators of that name among the slices, and the activities that were launched in them."""
    slices, a, c = model.recording.slices, model.recording.activities, model.recording.calls
    some = slices.named(pattern.search, slices.of_kind("op"))
    calls = host.calls_inside(some, c.thread, c.start)
    return some, (a.call >= 0) & calls[np.maximum(a.call, 0)]


def _op(model: Model, host: HostTime, knobs: Knobs, pattern: re.Pattern[str], factor: float) -> bool:
    some, mine = launched_under(model, host, pattern)
    _scaled(knobs.dur, mine, factor)
    if some.any():
        _take(knobs, host.inside(some), factor)
    return bool(some.any())


def _host(model: Model, host: HostTime, knobs: Knobs, pattern: re.Pattern[str], factor: float) -> bool:
    if not pattern.pattern:
        _take(knobs, np.maximum(model.gap, 0), factor)
        return True
    slices = model.recording.slices
    some = slices.named(pattern.search, host.code)
    if some.any():
        _take(knobs, host.inside(some), factor)
    return bool(some.any())


def _idle(model: Model, host: HostTime, knobs: Knobs, pattern: re.Pattern[str], factor: float) -> bool:
    matches = False
    a, c = model.recording.activities, model.recording.calls
    launches = np.zeros(len(c.start), dtype=bool)
    launches[a.call[a.call >= 0]] = True
    recorded = c.end - c.start
    causes = np.array(["" if name == EDGE else cause_of_call(name) for name in c.names])[c.name]
    for cause in CAUSES:
        if not pattern.search(cause):
            continue
        matches = True
        if cause in _SLICED and cause in host.by_cause:
            _take(knobs, host.by_cause[cause], factor)
        if cause == "launch":
            _shorter(model, knobs, launches, recorded, factor)
        elif cause in ("copy", "allocation", "runtime", "sync"):
            some = ~launches & (causes == cause)
            knobs.wait_share[some] *= factor
            _shorter(model, knobs, some & (cause != "sync"), recorded, factor)
        elif cause == "dispatch":
            some = (knobs.launch_lag != NEVER) & (a.call >= 0)
            rest = np.maximum(knobs.launch_lag - recorded[np.maximum(a.call, 0)], 0)
            knobs.launch_lag[some] -= np.round(rest[some] * (1 - factor)).astype(np.int64)
        elif cause in ("graph", "unknown"):
            of_cause = (a.call >= 0) & ~a.first if cause == "graph" else a.call < 0
            _scaled(knobs.before_lag, of_cause & (a.before >= 0), factor)
    return matches


def _shorter(model: Model, knobs: Knobs, calls: Mask, recorded: Ints, factor: float) -> None:
    """Calls take that part of their time, and what they launch starts sooner by as much."""
    a = model.recording.activities
    waits = np.diff(model.order.waits.to) > 0
    saved = np.where(calls, np.round(np.where(waits, knobs.floor, recorded) * (1 - factor)).astype(np.int64), 0)
    knobs.length -= saved
    knobs.floor -= saved
    some = (a.call >= 0) & (knobs.launch_lag != NEVER)
    knobs.launch_lag[some] = np.maximum(knobs.launch_lag[some] - saved[a.call[some]], 0)


def _sync(model: Model, host: HostTime, knobs: Knobs, pattern: re.Pattern[str], factor: float) -> bool:
    c = model.recording.calls
    some = c.named(pattern) & (model.order.waits.to[1:] > model.order.waits.to[:-1])
    knobs.wait_share[some] *= factor
    return bool(some.any())


def _graph(model: Model, host: HostTime, knobs: Knobs, pattern: re.Pattern[str], factor: float) -> bool:
    """Launches after the first, up to where the host waits or a cycle ends, take no time, nor does the host before
    them, loading of input apart; what they launch follows what is before it at once."""
    a, c = model.recording.activities, model.recording.calls
    launches = np.zeros(len(c.start), dtype=bool)
    launches[a.call[a.call >= 0]] = True
    launches &= np.diff(model.order.waits.to) == 0
    joins = np.zeros(len(c.start), dtype=bool)
    for chain in np.unique(c.chain):
        mine = np.flatnonzero(c.chain == chain)
        joins[mine[1:]] = launches[mine[1:]] & launches[mine[:-1]]
    loading = host.by_cause.get("input", np.zeros(len(c.start), dtype=np.int64))
    knobs.gap[joins] = np.minimum(knobs.gap[joins], loading[joins])
    knobs.length[joins] = 0
    launched = (a.call >= 0) & joins[np.maximum(a.call, 0)]
    knobs.before_lag[launched] = np.minimum(knobs.before_lag[launched], 1_000)
    return bool(joins.any())


_TURN = {
    "kernel": _activities("kernel"), "collective": _activities("collective"), "copy": _activities("copy"), "op": _op,
    "host": _host, "idle": _idle, "sync": _sync, GRAPH: _graph,
}
