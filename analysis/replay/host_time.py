"""What the host did before each call of a replay: how much of it was in slices of some name, or of some cause."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from ...loaders.trace import Trace
from ..core.call_tree import Ints, Mask, pack
from ..core.intervals import EMPTY, union_per_owner
from ..core.quantiles import order_by
from ..idle.causes import BY_SLICE
from ..idle.host import host_causes, timeline_of
from ..idle.thread_time import ThreadWindows, time_by_cause
from .recording import Recording

CODE = ("op", "python", "annotation", "dataloader", "io")
"""Kinds of slices that are host code."""
_WINDOWS = 1 << 17
"""Windows that are looked at together, with all slices between the first and the last."""


class HostTime:
    """The host time before each call: on its own thread, and before that thread did anything on the one that handed
    over to it."""

    def __init__(self, run: Trace, recording: Recording, gap: Ints, anchor: Ints) -> None:
        self._run, self._slices = run, recording.slices
        self.launched = dict[re.Pattern[str], tuple[Ints, Mask]]()  # what ``apply`` found of operators
        c = recording.calls
        self.count = len(c.start)
        rows = np.flatnonzero(gap > 0)
        begin, end, thread = c.start[rows] - gap[rows], c.start[rows], c.thread[rows]
        previous = np.where(anchor[rows] >= 0, c.thread[np.maximum(anchor[rows], 0)], thread)
        handed = np.flatnonzero(previous != thread)
        woke = begin.copy()
        if len(handed):
            starts, ends, owner = self._union(np.flatnonzero(self.code))
            at = _last_at(starts, owner, thread[handed], end[handed])
            here = (at >= 0) & (owner[np.maximum(at, 0)] == thread[handed]) & (ends[np.maximum(at, 0)] >= end[handed])
            woke[handed] = np.where(here, np.maximum(starts[np.maximum(at, 0)], begin[handed]), end[handed])
        parts = [np.concatenate(both) for both in (
            (rows, rows[handed]), (thread, previous[handed]), (woke, begin[handed]), (end, woke[handed]))]
        order = order_by(parts[1], parts[2])
        self._row, *windows = (part[order] for part in parts)
        self._windows = ThreadWindows(*windows)

    @cached_property
    def code(self) -> Mask:
        """The slices that are host code."""
        return self._slices.of_kind(*CODE)

    def _union(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        return union_per_owner(
            self._slices.start[rows], self._slices.ends(rows), self._slices.thread[rows].astype(np.int64)
        )

    def inside(self, some: Ints) -> Ints:
        """Of the host time before each call, ns in these slices, whatever they called included."""
        starts, ends, owner = self._union(some)
        if not len(starts):
            return np.zeros(self.count, dtype=np.int64)
        sums = np.concatenate(([0], np.cumsum(ends - starts)))
        windows = self._windows
        until = []
        for moment in (windows.starts, windows.ends):
            at = _last_at(starts, owner, windows.thread, moment)
            known = np.maximum(at, 0)
            part = np.where(owner[known] == windows.thread, np.minimum(moment, ends[known]), ends[known])
            until.append(np.where(at >= 0, sums[known] + part - starts[known], 0))
        return self._per_call(until[1] - until[0])

    def calls_inside(self, some: Ints, thread: Ints, moment: Ints) -> Mask:
        """Which moments of threads lie in one of these slices."""
        starts, ends, owner = self._union(some)
        if not len(starts):
            return np.zeros(len(moment), dtype=bool)
        at = _last_at(starts, owner, thread, moment)
        known = np.maximum(at, 0)
        return np.asarray((at >= 0) & (owner[known] == thread) & (moment < ends[known]), dtype=bool)

    @cached_property
    def by_cause(self) -> dict[str, Ints]:
        """The host time before each call by its cause, as idle time is told apart."""
        host, windows = host_causes(self._run), self._windows
        length = windows.ends - windows.starts
        overhead = next(iter(host.overhead.values()), EMPTY) if len(host.overhead) < 2 else EMPTY
        parts, order = np.zeros((len(BY_SLICE), len(length)), dtype=np.int64), np.argsort(windows.starts, kind="stable")
        for at in range(0, len(order), _WINDOWS):
            rows = order[at : at + _WINDOWS]
            some = ThreadWindows(windows.thread[rows], windows.starts[rows], windows.ends[rows])
            parts[:, rows] = time_by_cause(timeline_of(host, some), some, overhead)
        profiler = overhead.within(windows.starts, windows.ends)
        rest = length - profiler - parts.sum(axis=0)
        named = {cause: self._per_call(part) for cause, part in zip(BY_SLICE, parts, strict=True)}
        return {**named, "profiler": self._per_call(profiler), "untraced": self._per_call(rest)}

    def _per_call(self, values: Ints) -> Ints:
        if not values.any():
            return np.broadcast_to(np.int64(0), self.count)
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, self._row, np.maximum(values, 0))
        return total


def _last_at(starts: Ints, owner: Ints, thread: Ints, moment: Ints) -> Ints:
    """The last of some intervals (by owner, then start) that began by a moment on its thread or one before it."""
    packed = pack(np.concatenate((owner, thread)), np.concatenate((starts, moment)))
    begins, moments = packed[: len(starts)], packed[len(starts) :]
    if len(begins) < len(moments) and (moments[1:] >= moments[:-1]).all():  # the fewer are looked up among the others
        return np.cumsum(np.bincount(np.searchsorted(moments, begins), minlength=len(moments))[: len(moments)]) - 1
    return np.searchsorted(begins, moments, side="right") - 1


