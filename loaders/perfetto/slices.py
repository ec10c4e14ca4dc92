"""Begins and ends of slices, paired: on each track an end closes what began last.

Packets need not lie in the order of time, so pairing waits for the end of the trace. Until then a begin or an end is
its time and its track, 13 bytes; what else a begin says waits in a file.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..kineto.columns import NULL
from ..protobuf.tokens import Ints

_AT_ONCE = 1 << 20  # Begins and ends that are Python's numbers at a time.


class Slices:
    """Collects begins and ends in the order of the file. ``open`` begins had no end, ``stray`` ends no begin."""

    def __init__(self) -> None:
        self._times: list[Ints] = []
        self._lanes: list[npt.NDArray[np.int32]] = []
        self._begins: list[npt.NDArray[np.bool_]] = []
        self.open = self.stray = 0

    def add(self, times: Ints, lanes: Ints, begins: npt.NDArray[np.bool_]) -> None:
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
        order = np.lexsort((times, lanes))
        stack, lane = list[tuple[int, int]](), -1
        for first in range(0, len(order), _AT_ONCE):
            at = order[first : first + _AT_ONCE]
            rows = (column[at].tolist() for column in (times, lanes, begins, number))
            for time, track, is_begin, slice_ in zip(*rows, strict=True):
                if track != lane:
                    self.open += len(stack)
                    stack.clear()
                    lane = track
                if is_begin:
                    stack.append((slice_, time))
                elif stack:
                    begun, start = stack.pop()
                    out[begun] = time - start
                else:
                    self.stray += 1
        self.open += len(stack)
        return out
