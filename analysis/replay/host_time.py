"""The host time before each call of a replay: how much of it lies in given slices, or has a given cause."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...loaders.trace import Trace
from ..core.call_tree import Ints, Mask, Rows
from ..core.intervals import EMPTY, Intervals, begun, union
from ..core.quantiles import order_by
from ..idle.causes import BY_SLICE
from ..idle.host import host_causes, thread_timeline
from ..idle.thread_time import ThreadWindows, time_by_cause
from .recording import Recording

CODE = ("op", "python", "annotation", "dataloader", "io")
"""Slice kinds that count as host code."""
_WINDOWS = 1 << 15
"""Windows processed at once, together with all slices between the first and the last."""


class HostTime:
    """The host time before each call: on its own thread, and before that thread became active, on the thread that made
    the previous call."""

    def __init__(self, run: Trace, recording: Recording, gap: Ints, anchor: Ints) -> None:
        self._run, self._slices = run, recording.slices
        self.launched = dict[re.Pattern[str], tuple[Ints, Mask]]()  # cache of ``apply.launched_under``
        c = recording.calls
        self.count = len(c.start)
        rows = np.flatnonzero(gap > 0)
        begin, end, thread = c.start[rows] - gap[rows], c.start[rows], c.thread[rows]
        previous = np.where(anchor[rows] >= 0, c.thread[np.maximum(anchor[rows], 0)], thread)
        handed = np.flatnonzero(previous != thread)
        self._low = int(begin.min(initial=c.start.min()))
        self._room = int(c.start.max()) - self._low + 2
        woke = begin.copy()
        if len(handed):
            busy, moment = self._union(np.flatnonzero(self.code)), self._axis(thread[handed], end[handed])
            at = np.searchsorted(busy.starts, moment, side="right") - 1
            here = np.flatnonzero(at >= 0)
            here = here[busy.ends[at[here]] >= moment[here]]
            woke[handed] = end[handed]
            woke[handed[here]] -= np.minimum(moment[here] - busy.starts[at[here]], (end - begin)[handed[here]])
        parts = [np.concatenate(both) for both in (
            (rows, rows[handed]), (thread, previous[handed]), (woke, begin[handed]), (end, woke[handed]))]
        parts, self.fixed = self._without(parts, recording)
        order = order_by(parts[1], parts[2])
        self._row, threads, begin, end = (part[order] for part in parts)
        self._begins, self._ends = self._axis(threads, begin), self._axis(threads, end)

    def _without(self, parts: list[Ints], recording: Recording) -> tuple[list[Ints], Ints]:
        """The windows (call, thread, begin, end) without what lies between cycles; and how much of the host time before
        each call that is, which no change makes shorter."""
        fixed = np.zeros(self.count, dtype=np.int64)
        chain, result = recording.calls.chain[parts[0]], []
        left = np.ones(len(chain), dtype=bool)
        for of_chain, loose in recording.between_of_chains():
            own = np.flatnonzero(chain == of_chain)
            left[own] = False
            row, of_thread, begin, end = (part[own] for part in parts)
            np.add.at(fixed, row, np.maximum(loose.within(begin, end), 0))
            steps = Intervals(np.append(np.iinfo(np.int64).min, loose.ends), np.append(
                loose.starts, np.iinfo(np.int64).max))
            first = np.searchsorted(steps.ends, begin, side="right")
            count = np.maximum(np.searchsorted(steps.starts, end, side="left") - first, 0)
            each = np.repeat(np.arange(len(own)), count)
            at = np.arange(len(each)) + np.repeat(first - (np.cumsum(count) - count), count)
            result.append([row[each], of_thread[each], np.maximum(begin[each], steps.starts[at]),
                           np.minimum(end[each], steps.ends[at])])
        pieces = [[part[left] for part in parts], *result]
        return [np.concatenate(columns) for columns in zip(*pieces, strict=True)], fixed

    def _axis(self, thread: npt.NDArray[np.integer], moments: Ints) -> Ints:
        """Moments of threads (ns) on one axis: threads laid end to end, each as long as the span of all calls."""
        within = moments.clip(self._low, self._low + self._room - 1) - self._low
        return np.asarray(thread * np.int64(self._room) + within)

    @cached_property
    def code(self) -> Mask:
        """The slices that are host code."""
        return self._slices.of_kind(*CODE)

    def _union(self, rows: Ints) -> Intervals:
        thread = self._slices.thread[rows]
        return union(self._axis(thread, self._slices.start[rows]), self._axis(thread, self._slices.ends(rows)))

    def inside(self, some: Ints) -> Ints:
        """The host time before each call that lies in these slices, including what they called, ns."""
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, self._row, np.maximum(self._union(some).within(self._begins, self._ends), 0))
        return total

    def calls_inside(self, some: Ints, thread: Rows, moment: Ints) -> Mask:
        """Which moments (ns, each on its thread) lie in one of these slices."""
        busy, moments = self._union(some), self._axis(thread, moment)
        return np.asarray(moments < np.append(-1, busy.ends)[begun(busy.starts, moments)])

    @cached_property
    def by_cause(self) -> dict[str, Ints]:
        """The host time before each call by cause of idle time, ns."""
        host = host_causes(self._run)
        overhead = next(iter(host.overhead.values()), EMPTY) if len(host.overhead) < 2 else EMPTY
        sums = dict.fromkeys((*BY_SLICE, "profiler", "untraced"), np.broadcast_to(np.int64(0), self.count))
        order = np.argsort(self._begins % self._room, kind="stable")
        for at in range(0, len(order), _WINDOWS):
            rows = order[at : at + _WINDOWS]
            thread, begins = np.divmod(self._begins[rows], self._room)
            windows = ThreadWindows(thread, begins + self._low, self._ends[rows] % self._room + self._low)
            parts = time_by_cause(thread_timeline(host, windows), windows, overhead)
            profiler = overhead.within(windows.starts, windows.ends)
            rest = windows.ends - windows.starts - profiler - parts.sum(axis=0)
            for cause, part in zip(sums, (*parts, profiler, rest), strict=True):
                if part.any():
                    sums[cause] = sums[cause] if sums[cause].flags.writeable else np.zeros(self.count, dtype=np.int64)
                    np.add.at(sums[cause], self._row[rows], np.maximum(part, 0))
        return sums
