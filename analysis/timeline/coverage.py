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
Floats = npt.NDArray[np.float64]
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


_EVERY = 16  # Slices from one known sum of times by class to the next.


class ClassTimes(Struct, frozen=True):
    """The summed time of each class among slices in the order of their starts. ``codes`` are the classes there are,
    ``place`` which of these each slice is, and ``sums`` the time (ns) of each among the slices before every
    ``_EVERY``-th: 80 bytes for sixteen slices of ten classes. Of slices that do not overlap it is exact at any moment.
    """

    codes: npt.NDArray[np.uint8]
    place: npt.NDArray[np.uint8]
    sums: Ints

    def most(self, starts: Ints, ends: Ints, edges: Ints) -> npt.NDArray[np.uint8]:
        """The code of the class with most time between each edge and the next; the first where there is none."""
        kinds = len(self.codes)
        at = np.searchsorted(starts, edges, side="left")
        block = at // _EVERY
        rest = (block * _EVERY)[:, None] + np.arange(_EVERY)
        inside = rest < at[:, None]
        rest = np.minimum(rest, len(starts) - 1)
        key = np.arange(len(edges))[:, None] * kinds + self.place[rest]
        lengths = np.where(inside, ends[rest] - starts[rest], 0)
        before = np.bincount(key.ravel(), weights=lengths.ravel(), minlength=len(edges) * kinds)
        until = self.sums[block] + before.reshape(len(edges), kinds)
        last = np.maximum(at - 1, 0)
        until[np.arange(len(edges)), self.place[last]] -= np.where(at > 0, np.maximum(ends[last] - edges, 0), 0)
        most: npt.NDArray[np.uint8] = self.codes[np.diff(until, axis=0).argmax(axis=1)]
        return most


def class_times(starts: Ints, ends: Ints, classes: npt.NDArray[np.uint8]) -> ClassTimes | None:
    """The times by class of slices in the order of their starts; None where all are of one class."""
    codes = np.flatnonzero(np.bincount(classes)).astype(np.uint8)
    if len(codes) < 2:
        return None
    numbers = np.zeros(256, dtype=np.uint8)
    numbers[codes] = np.arange(len(codes))
    place = numbers[classes]
    blocks = np.arange(len(starts)) // _EVERY * len(codes) + place
    each = np.bincount(blocks, weights=ends - starts, minlength=-(-len(starts) // _EVERY) * len(codes))
    sums = np.zeros((-(-len(starts) // _EVERY) + 1, len(codes)), dtype=np.int64)
    np.cumsum(each.astype(np.int64).reshape(-1, len(codes)), axis=0, out=sums[1:])
    return ClassTimes(codes, place, sums)


def levels(starts: Ints, ends: Ints, most: int) -> npt.NDArray[np.uint16]:
    """The row each slice is drawn in, so that none hides another: 0 outermost, ``most`` − 1 for all that are deeper.
    Slices come in the order of their starts. One goes below the deepest that is not over if it lies within that one,
    else into the first free row: a step that begins in a call it outlasts stands in the row of the step before."""
    level = np.zeros(len(starts), dtype=np.uint16)
    if not (starts[1:] < np.maximum.accumulate(ends)[:-1]).any():
        return level
    over: list[int] = []  # when each row is free again
    deepest = -1
    for begin in range(0, len(starts), _BLOCK):
        block, rows = slice(begin, begin + _BLOCK), list[int]()
        for start, end in zip(starts[block].tolist(), ends[block].tolist(), strict=True):
            while deepest >= 0 and over[deepest] <= start:
                deepest -= 1
            row = deepest + 1
            if deepest >= 0 and over[deepest] < end:
                row = next(place for place in range(row + 1) if place == row or over[place] <= start)
            if row > deepest:
                deepest = row
                if row == len(over):
                    over.append(end)
            over[row] = end
            rows.append(row)
        level[block] = np.minimum(rows, most - 1)
    return level
