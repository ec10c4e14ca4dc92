"""How much of any stretch of time a lane was busy, exactly, whatever the zoom.

The union of a lane's slices and its running length are computed once; a column of the screen is then the difference of
two binary searches. Moments are int64: float edges make numpy convert every start at each question, which is 200 times
slower on five million slices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.intervals import Intervals, union

Ints = npt.NDArray[np.int64]
_BLOCK = 1 << 16  # Slices whose times are Python numbers at once.


class Coverage(Struct, frozen=True):
    """A union of intervals: ``starts``, ``ends`` (ns, in order, disjoint) and the length ``before`` each (ns)."""

    starts: Ints
    ends: Ints
    before: Ints

    def busy(self, edges: Ints) -> Ints:
        """The time covered between each edge and the next, ns: one value less than there are edges."""
        until = self.until(edges)
        until[1:] -= until[:-1].copy()
        return until[1:]

    def until(self, moments: Ints) -> Ints:
        """The time covered before each moment, ns."""
        if not len(self.starts):
            return np.zeros(len(moments), dtype=np.int64)
        at = self.starts.searchsorted(moments, side="right")
        at -= 1
        none = at < 0
        at[none] = 0
        until: Ints = np.minimum(moments, self.ends.take(at))
        until -= self.starts.take(at)
        until += self.before.take(at)
        until[none] = 0
        return until


def covered(starts: Ints, ends: Ints) -> Coverage:
    """The coverage of slices in the order of their starts; they may overlap and nest."""
    overlap = bool(len(starts)) and bool((starts[1:] < ends[:-1]).any())
    joined = union(starts, ends) if overlap else Intervals(starts, ends)  # of most streams the arrays can be shared
    lengths = joined.ends - joined.starts
    before = np.cumsum(lengths)
    before -= lengths
    return Coverage(joined.starts, joined.ends, before)


def levels(starts: Ints, ends: Ints, most: int) -> npt.NDArray[np.uint16]:
    """The row each slice is drawn in, so that none hides another: 0 outermost, ``most`` − 1 for all that are deeper.
    Slices come in the order of their starts. One goes a row deeper than any earlier one that it overlaps: a stack has
    for each row when the last slice in it or deeper ends, rows that end together as one, so that each slice is pushed
    and popped once, however deep they are: half the time that numpy takes row by row where calls are 70 deep."""
    level = np.zeros(len(starts), dtype=np.uint16)
    if not (starts[1:] < np.maximum.accumulate(ends)[:-1]).any():
        return level
    stack: list[tuple[int, int]] = []
    deep = 0
    for begin in range(0, len(starts), _BLOCK):
        block, rows = slice(begin, begin + _BLOCK), list[int]()
        for start, end in zip(starts[block].tolist(), ends[block].tolist(), strict=True):
            while stack and stack[-1][0] <= start:
                deep -= stack.pop()[1]
            rows.append(deep)
            together = 1
            while stack and stack[-1][0] <= end:
                together += stack.pop()[1]
            stack.append((end, together))
            deep += 1
        level[block] = np.minimum(rows, most - 1)
    return level
