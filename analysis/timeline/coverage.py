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
_BLOCK = 1 << 16
"""Slices whose rows are looked for at once."""


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

    Slices come in the order of their starts. One goes a row deeper than any earlier one that it overlaps. Blocks of
    them begin in the row that all reach, below what lasts over the whole block: 0.15 s instead of 0.42 for a million
    slices of which most are deeper than 47 others.
    """
    level = np.zeros(len(starts), dtype=np.uint8)
    latest = np.full(most, np.iinfo(np.int64).min)  # when the last slice in this row or deeper ends
    for begin in range(0, len(starts), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        _levels_of_block(starts[block], ends[block], level[block], latest)
    return level


def _levels_of_block(starts: Ints, ends: Ints, level: npt.NDArray[np.uint8], latest: Ints) -> None:
    """Fill in ``level``; bring ``latest`` up to date."""
    until = np.maximum.accumulate(ends)
    alone = np.flatnonzero(starts[1:] >= until[:-1])  # what overlaps none of the block; what does is no row higher
    row = min(int(np.count_nonzero(latest > starts[alone[-1] + 1 if len(alone) else 0])), len(latest) - 1)
    np.maximum(latest[:row], until[-1], out=latest[:row])
    level[:] = row
    rest = np.arange(len(starts))
    while len(rest):
        before, until = latest[row], np.maximum.accumulate(ends)
        latest[row] = max(before, until[-1])
        row += 1
        if row == len(latest):
            break
        overlaps = np.flatnonzero(starts[1:] < np.maximum(until[:-1], before)) + 1
        if starts[0] < before:
            overlaps = np.concatenate(([0], overlaps))
        starts, ends, rest = starts[overlaps], ends[overlaps], rest[overlaps]
        level[rest] = row
