"""What the sweep knows between two calls: the slices that every thread is still in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ...native.functions import Native
from .call_times import CallTimes, Ints, Shorts, in_order
from .program import SWEEP
from .sweep import sweep

SLACK_NS = 1_000
"""Clocks of whole microseconds make a slice outlast its parent by up to this; that is not worth a word."""
WORTH_COMPILING = 200_000
"""Rows of a table from which the compiled sweep is asked for: plainly a million take a second."""


def compiled_sweep(rows: int) -> Native | None:
    """The compiled sweep for a table of so many rows; None where it is not there, or not worth it."""
    if rows < WORTH_COMPILING:
        return None
    native = SWEEP.functions()
    if native is None:
        SWEEP.prepare()
    return native


class Swept(Struct, frozen=True):
    """Rows that were swept, with the row of their parent (-1 for none), depth, whether they cross it, and self time.

    The self time (ns) is so far. ``ended`` are rows of earlier calls that their threads have left, and ``ended_own``
    the self times they have in the end.
    """

    row: Ints
    parent: Ints
    depth: Shorts
    own: Ints
    crosses: npt.NDArray[np.uint8]
    ended: Ints
    ended_own: Ints


class State:
    """The stacks of all threads. Slices have to come in the order of their starts, all those of one start at once."""

    def __init__(self, native: Native | None) -> None:
        self._native = native
        none, short = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._open = CallTimes(none, short, none, none)
        self._parent, self._depth, self._own = short, short, none
        self._top, self._now = short, none

    def go_on(self, slices: CallTimes, threads: int) -> Swept:
        """Sweep more slices, of threads with numbers below ``threads``."""
        open_count = len(self._open.row)
        new = len(slices.row)
        self._top = np.append(self._top, np.full(threads - len(self._top), -1, np.int32))
        self._now = np.append(self._now, np.zeros(threads - len(self._now), np.int64))
        row = np.append(self._open.row, slices.row)
        thread = np.append(self._open.thread, slices.thread)
        start, end = np.append(self._open.start, slices.start), np.append(self._open.end, slices.end)
        parent = np.append(self._parent, np.full(new, -1, np.int32))
        depth = np.append(self._depth, np.full(new, -1, np.int32))
        self_ns = np.append(self._own, np.zeros(new, np.int64))
        crosses = np.zeros(open_count + new, np.uint8)
        order = in_order(slices) + open_count
        self._sweep(order, thread, start, end, parent, self_ns, depth, crosses)
        is_open = np.zeros(open_count + new, bool)
        is_open[self._stacks(parent)] = True
        ended = np.flatnonzero(~is_open[:open_count])
        above = parent[open_count:]
        swept = Swept(
            row[open_count:], np.where(above >= 0, row[above], -1), depth[open_count:], self_ns[open_count:],
            crosses[open_count:], row[ended], self_ns[ended],
        )
        self._keep(np.flatnonzero(is_open), CallTimes(row, thread, start, end), parent, depth, self_ns)
        return swept

    def close(self) -> tuple[Ints, Ints]:
        """The rows that threads are in at the end, and the self times they have when all of them end."""
        parent, end, self_ns = self._parent.tolist(), self._open.end.tolist(), self._own.tolist()
        for inner, moment in zip(self._top.tolist(), self._now.tolist(), strict=True):
            while inner >= 0:
                if end[inner] > moment:
                    self_ns[inner] += end[inner] - moment
                    moment = end[inner]
                inner = parent[inner]
        return self._open.row, np.array(self_ns, np.int64)

    def _sweep(self, *arrays: npt.NDArray[Any]) -> None:
        if self._native is not None:
            self._native.call("compiled_sweep", *arrays, self._top, self._now, SLACK_NS)
            return
        lists: list[Any] = [array.tolist() for array in (*arrays, self._top, self._now)]
        order, thread, start, end, parent, self_ns, depth, crosses, top, now = lists
        sweep(order, thread, start, end, parent, self_ns, depth, crosses, top, now, SLACK_NS)
        for array, values in zip((*arrays, self._top, self._now), lists, strict=True):
            array[:] = values

    def _stacks(self, parent: Shorts) -> list[int]:
        """The places of all slices that a thread is in."""
        indices = []
        for inner in self._top.tolist():
            while inner >= 0:
                indices.append(inner)
                inner = int(parent[inner])
        return indices

    def _keep(self, indices: Ints, calls: CallTimes, parent: Shorts, depth: Shorts, self_ns: Ints) -> None:
        new = np.full(len(parent) + 1, -1, np.int32)  # the last is that of -1
        new[indices] = np.arange(len(indices), dtype=np.int32)
        self._open = calls.pick(indices)
        self._parent, self._depth, self._own = new[parent[indices]], depth[indices], self_ns[indices]
        self._top = new[self._top]
