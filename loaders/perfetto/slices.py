"""Pairs slice begins and ends: on each track, an end closes the slice that began last.

Packets need not be in order of time, so pairing waits for the end of the trace. Until then a begin or an end is kept as
its time, track and type, 13 bytes; the rest of a begin waits in a file.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..kineto.columns import NULL
from ..protobuf.tokens import Ints

_AT_ONCE = 1 << 20  # Begins and ends converted to Python integers at a time.


class Slices:
    """Collects begins and ends in file order. ``open`` counts begins without an end, ``stray`` ends without a begin."""

    def __init__(self) -> None:
        self._times: list[Ints] = []
        self._lanes: list[npt.NDArray[np.int32]] = []
        self._begins: list[npt.NDArray[np.bool_]] = []
        self.open = self.stray = 0

    def add(self, times: Ints, lanes: Ints, begins: npt.NDArray[np.bool_]) -> None:
        """Add begins and ends: times in ns, tracks as small numbers (``lanes``), and which are begins."""
        self._times.append(times)
        self._lanes.append(lanes.astype(np.int32))
        self._begins.append(begins)

    def durations(self) -> Ints:
        """The duration of each slice in ns, in the order its begins were added; NULL without an end."""
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
                    opened, start = stack.pop()
                    out[opened] = time - start
                else:
                    self.stray += 1
        self.open += len(stack)
        return out
