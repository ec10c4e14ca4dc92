"""Begins and ends of slices, paired: on each track an end closes what began last.

Packets need not lie in the order of time, so pairing waits for the end of the trace. Until then a begin or an end is
its time and its track; what else a begin says waits elsewhere (``begins``). Tracks are paired some at a time, so that
memory stays a small multiple of 12 bytes an event.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..kineto.columns import NULL
from ..protobuf.tokens import Ints

_AT_ONCE = 1 << 20
Lanes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class Slices:
    """Collects begins and ends in the order of the file. ``open`` begins had no end, ``stray`` ends no begin."""

    def __init__(self) -> None:
        self._times: list[Ints] = []
        self._lanes: list[Lanes] = []
        self._begins: list[Mask] = []
        self.open = self.stray = 0

    def add(self, times: Ints, lanes: Ints, begins: Mask) -> None:
        """Times in ns, small numbers of the tracks, and which are begins."""
        self._times.append(times)
        self._lanes.append(lanes.astype(np.int32))
        self._begins.append(begins)

    def durations(self) -> Ints:
        """How long each slice lasted, by its begin in the order they were added; NULL for those without an end."""
        if not self._times:
            return np.empty(0, np.int64)
        times, lanes = np.concatenate(self._times), np.concatenate(self._lanes)
        begins = np.concatenate(self._begins)
        self._times, self._lanes, self._begins = [], [], []
        number = np.cumsum(begins, dtype=np.int64) - 1
        out = np.full(int(begins.sum()), NULL, np.int64)
        order = np.argsort(lanes, kind="stable")
        borders = np.flatnonzero(np.diff(lanes[order])) + 1
        edges = [0]
        for border in (*borders.tolist(), len(order)):
            if border - edges[-1] >= _AT_ONCE or border == len(order):
                edges.append(border)
        for low, high in pairwise(edges):
            at = order[low:high]
            self._pair(times[at], lanes[at], begins[at], number[at], out)
        return out

    def _pair(
        self, times: Ints, lanes: Lanes,
        begins: Mask, number: Ints, out: Ints,
    ) -> None:  # fmt: skip
        order = np.lexsort((times, lanes))
        times, lanes, begins, number = times[order], lanes[order], begins[order], number[order]
        depth, lowest = _depths(lanes, begins)
        stray = np.concatenate(([False], np.diff(lowest) < 0)) & ~begins
        stray[0] = not begins[0]
        first = np.concatenate(([True], np.diff(lanes) != 0))
        stray[first] = ~begins[first]
        self.stray += int(stray.sum())
        keep = np.flatnonzero(~stray)
        times, lanes, begins, number, level = (
            times[keep], lanes[keep], begins[keep], number[keep], (depth - lowest)[keep],
        )  # fmt: skip
        level = np.where(begins, level, level + 1)
        order = np.lexsort((np.arange(len(level)), level, lanes))
        opens = begins[order]
        ended = np.zeros(len(order), bool)
        if len(order) > 1:
            same = (lanes[order[1:]] == lanes[order[:-1]]) & (level[order[1:]] == level[order[:-1]])
            ended[:-1] = opens[:-1] & ~opens[1:] & same
        at = np.flatnonzero(ended)
        out[number[order[at]]] = times[order[at + 1]] - times[order[at]]
        self.open += int(opens.sum()) - len(at)


def _depths(lanes: Lanes, begins: Mask) -> tuple[Ints, Ints]:
    """Begins less ends up to each event of its lane, itself included, and the lowest that was so far, at most 0."""
    running = np.cumsum(np.where(begins, 1, -1))
    first = np.concatenate(([True], np.diff(lanes) != 0))
    which = np.cumsum(first) - 1
    before = np.concatenate(([0], running[:-1]))[first]
    depth = running - before[which]
    stride = np.int64(2 * len(lanes) + 2)
    lowest = np.minimum.accumulate(np.minimum(depth, 0) - which * stride) + which * stride
    return depth, np.minimum(lowest, 0)
