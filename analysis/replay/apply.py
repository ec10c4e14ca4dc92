"""Applies what-if changes to a model's ``Knobs``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..contract.changes import FAMILY, Change
from ..core.call_tree import Ints, Mask
from ..idle.causes import cause_of_call
from ..kernels.family import family
from .host_time import CODE, HostTime
from .loop import NEVER
from .model import Knobs, Model
from .recording import EDGE

_ACTIVITIES = {"kernel": ("kernel",), "collective": ("collective",), "copy": ("memcpy", "memset")}
_SLICED = ("input", "python", "op", "runtime", "copy", "allocation", "sync", "profiler", "untraced")
CAUSES = (*_SLICED, "launch", "dispatch", "graph", "unknown")
"""Causes of idle time that a replay can change: all but ``queued``, which has no recorded reason."""
NO_LEAST = np.iinfo(np.int64).max
"""Stands for the least time of an activity whose work or peak is unknown."""


def apply(
    model: Model, host: HostTime, changes: Sequence[Change], least: Callable[[], Ints]
) -> tuple[Knobs, tuple[str, ...]]:
    """The knobs with every change applied, and those changes (as typed) that match nothing.

    ``least`` gives the least time of each activity, ns or ``NO_LEAST``. A slice that two changes match is scaled
    once, by the smaller factor; a factor on all host code applies to what the other changes leave.
    """
    turning, unmatched = _KnobEditor(model, host, copy(model.recorded)), []
    for change in sorted(changes, key=lambda one: (one.kind == "host" and not one.pattern, one.factor or 0.0)):
        pattern = re.compile(change.pattern)
        if change.factor is None:
            matches = turning.to_peak(change.kind, pattern, least())
        elif change.kind in _ACTIVITIES:
            matches = turning.activities(activities(model, change.kind, pattern), change.factor)
        else:
            matches = getattr(turning, change.kind)(pattern, change.factor)
        if not matches:
            unmatched.append(change.text)
    return turning.knobs, tuple(unmatched)


def _scaled(values: Ints, some: Mask, factor: float) -> Ints:
    return np.where(some, np.round(values * factor).astype(np.int64) if factor else 0, values)


def activities(model: Model, kind: str, pattern: re.Pattern[str]) -> Mask:
    """The activities of that kind whose name or family matches."""
    a = model.recording.activities
    of_kind = a.kind.where(_ACTIVITIES[kind].__contains__) & model.changeable
    if pattern.pattern.startswith(FAMILY):
        return of_kind & a.name.where(lambda name: family(name, kind) == pattern.pattern.removeprefix(FAMILY))
    return of_kind & a.name.where(lambda name: name is not None and pattern.search(name))


def launched_under(model: Model, host: HostTime, pattern: re.Pattern[str]) -> tuple[Ints, Mask]:
    """The rows in ``slices`` of the operators that match, and the activities launched inside them."""
    if pattern not in host.launched:
        slices, a, c = model.recording.slices, model.recording.activities, model.recording.calls
        some = slices.rows_named(pattern.search, "op")
        calls = host.calls_inside(some, c.thread, c.start)
        host.launched[pattern] = some, (a.call >= 0) & calls[np.maximum(a.call, 0)] & model.changeable
    return host.launched[pattern]


@lru_cache(maxsize=2)
def causes_of_calls(names: tuple[str, ...]) -> npt.NDArray[np.str_]:
    """The cause of idle time that calls of each name count as; '' for a cycle edge."""
    return np.array(["" if name == EDGE else cause_of_call(name) for name in names])


class _KnobEditor:
    """The knobs while changes are applied; ``_taken``: rows of the slices whose time is already scaled."""

    def __init__(self, model: Model, host: HostTime, knobs: Knobs) -> None:
        self.model, self._host, self.knobs = model, host, knobs
        self._taken = np.zeros(0, dtype=np.int64)

    def _take(self, spans: Ints, factor: float) -> None:
        """Scale ``spans``, a part of the host time before each call (ns)."""
        less = np.round(spans * (1 - factor)).astype(np.int64)
        self.knobs.gap = self.knobs.gap - np.minimum(less, np.maximum(self.knobs.gap - self._host.fixed, 0))

    def _take_slices(self, some: Ints, factor: float) -> bool:
        """Scale the time in slices, without what lies inside slices scaled before."""
        if len(some):
            before = self._host.inside(self._taken) if len(self._taken) else 0
            self._taken = np.union1d(self._taken, some) if len(self._taken) else some
            self._take(self._host.inside(self._taken) - before, factor)
        return bool(len(some))

    def to_peak(self, kind: str, pattern: re.Pattern[str], least: Ints) -> bool:
        """Reduce activities to the least time that their work allows."""
        model, dur = self.model, self.knobs.dur
        some = launched_under(model, self._host, pattern)[1] if kind == "op" else activities(model, kind, pattern)
        some = some & (least != NO_LEAST)
        self.knobs.dur = np.where(some, np.minimum(least, dur), dur)
        return bool(some.any())

    def activities(self, some: Mask, factor: float) -> bool:
        """Scale device activities; of collectives across ranks only the transfer: other ranks cause the wait."""
        knobs = self.knobs
        knobs.dur = _scaled(knobs.dur, some, factor)
        linked = np.unique(knobs.group[some & (knobs.group >= 0)])
        if len(linked):
            knobs.transfer = _scaled(knobs.transfer, np.isin(np.arange(len(knobs.transfer)), linked), factor)
        return bool(some.any())

    def op(self, pattern: re.Pattern[str], factor: float) -> bool:
        """Scale operators: their host time and the activities they launch."""
        some, own = launched_under(self.model, self._host, pattern)
        self.knobs.dur = _scaled(self.knobs.dur, own, factor)
        return self._take_slices(some, factor)

    def host(self, pattern: re.Pattern[str], factor: float) -> bool:
        """Scale host code: all of it, or the code in slices whose name matches."""
        if not pattern.pattern:
            self._take(np.maximum(self.knobs.gap - self._host.fixed, 0), factor)
            return True
        return self._take_slices(self.model.recording.slices.rows_named(pattern.search, *CODE), factor)

    def idle(self, pattern: re.Pattern[str], factor: float) -> bool:
        """Scale causes of idle time."""
        matches, model, knobs = False, self.model, self.knobs
        a, c = model.recording.activities, model.recording.calls
        causes = causes_of_calls(c.names)[c.name]
        for cause in CAUSES:
            if not pattern.search(cause):
                continue
            matches = True
            if cause in _SLICED and cause in self._host.by_cause:
                self._take(self._host.by_cause[cause], factor)
            if cause == "launch":
                self._shorter(model.launches, factor)
            elif cause in ("copy", "allocation", "runtime", "sync"):
                some = ~model.launches & (causes == cause) & model.callable
                knobs.wait_share = np.where(some, knobs.wait_share * factor, knobs.wait_share)
                self._shorter(some & (cause != "sync"), factor)
            elif cause == "dispatch":
                some = (knobs.launch_lag != NEVER) & (a.call >= 0)
                rest = np.maximum(knobs.launch_lag - (c.end - c.start)[np.maximum(a.call, 0)], 0)
                less = np.round(rest * (1 - factor)).astype(np.int64)
                knobs.launch_lag = np.where(some, knobs.launch_lag - less, knobs.launch_lag)
            elif cause in ("graph", "unknown"):
                of_cause = (a.call >= 0) & ~a.first if cause == "graph" else a.call < 0
                knobs.before_lag = _scaled(knobs.before_lag, of_cause & (a.before >= 0), factor)
        return matches

    def _shorter(self, calls: Mask, factor: float) -> None:
        """Scale the duration of calls; what they launch starts earlier by the time saved."""
        a, c, knobs = self.model.recording.activities, self.model.recording.calls, self.knobs
        waits = np.diff(self.model.order.waits.to) > 0
        time = np.where(waits, knobs.floor, c.end - c.start)
        saved = np.where(calls & self.model.callable, np.round(time * (1 - factor)).astype(np.int64), 0)
        knobs.length = knobs.length - saved
        knobs.floor = knobs.floor - saved
        some = (a.call >= 0) & (knobs.launch_lag != NEVER)
        sooner = np.maximum(knobs.launch_lag - saved[np.maximum(a.call, 0)], 0)
        knobs.launch_lag = np.where(some, sooner, knobs.launch_lag)

    def sync(self, pattern: re.Pattern[str], factor: float) -> bool:
        """Scale how long calls wait for the device; at 0 they no longer wait."""
        waits = self.model.order.waits.to
        some = self.model.recording.calls.named(pattern) & (waits[1:] > waits[:-1]) & self.model.callable
        self.knobs.wait_share = np.where(some, self.knobs.wait_share * factor, self.knobs.wait_share)
        return bool(some.any())

    def graph(self, pattern: re.Pattern[str], factor: float) -> bool:
        """Merge runs of launches, up to a host wait or the end of a cycle: all but the first take no time, and neither
        does the host time before them except input loading; what they launch directly follows its predecessor."""
        model, knobs = self.model, self.knobs
        a, c = model.recording.activities, model.recording.calls
        launches = model.launches & (np.diff(model.order.waits.to) == 0) & model.callable
        joins = np.zeros(len(c.start), dtype=bool)
        for chain in np.unique(c.chain):
            matching = np.flatnonzero(c.chain == chain)
            joins[matching[1:]] = launches[matching[1:]] & launches[matching[:-1]]
        loading = self._host.by_cause.get("input", np.zeros(len(c.start), dtype=np.int64))
        knobs.gap = np.where(joins, np.minimum(knobs.gap, np.maximum(loading, self._host.fixed)), knobs.gap)
        knobs.length = np.where(joins, 0, knobs.length)
        launched = (a.call >= 0) & joins[np.maximum(a.call, 0)]
        knobs.before_lag = np.where(launched, np.minimum(knobs.before_lag, 1_000), knobs.before_lag)
        return bool(joins.any())
