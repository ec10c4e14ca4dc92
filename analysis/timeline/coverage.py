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


def levels(starts: Ints, ends: Ints, most: int) -> npt.NDArray[np.uint8]:
    """The row each slice is drawn in, so that none hides another: 0 outermost, ``most`` − 1 for all that are deeper.

    Slices come in the order of their starts. One goes a row deeper than where it would overlap an earlier one.
    """
    level = np.zeros(len(starts), dtype=np.uint8)
    rest: npt.NDArray[np.intp] | None = None
    for deeper in range(1, most):
        latest = np.maximum.accumulate(ends)
        overlaps = np.flatnonzero(starts[1:] < latest[:-1]) + 1
        if not len(overlaps):
            break
        starts, ends = starts[overlaps], ends[overlaps]
        rest = overlaps if rest is None else rest[overlaps]
        level[rest] = deeper
    return level
