"""Exact busy time of a lane in any interval, at any zoom.

The union of a lane's slices and its running length are computed once; a screen column is then the difference of two
binary searches. Times are int64: with float edges numpy converts every start on each query, which is 200 times slower
on five million slices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.intervals import Intervals, union

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Coverage(Struct, frozen=True):
    """A union of intervals: ``starts``, ``ends`` (ns, sorted, disjoint); ``before``, the covered length before each."""

    starts: Ints
    ends: Ints
    before: Ints

    def busy(self, edges: Ints) -> Ints:
        """Covered time between consecutive edges, ns: one value fewer than edges."""
        until = self.until(edges)
        until[1:] -= until[:-1].copy()
        return until[1:]

    def until(self, moments: Ints) -> Ints:
        """Covered time before each moment, ns."""
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


def coverage_of(starts: Ints, ends: Ints) -> Coverage:
    """Coverage of slices sorted by start; they may overlap and nest."""
    overlap = bool(len(starts)) and bool((starts[1:] < ends[:-1]).any())
    joined = union(starts, ends) if overlap else Intervals(starts, ends)  # most streams: the arrays can be shared
    lengths = joined.ends - joined.starts
    before = np.cumsum(lengths)
    before -= lengths
    return Coverage(joined.starts, joined.ends, before)


_EVERY = 16  # Slices between two stored sums of time by class.


class ClassTimes(Struct, frozen=True):
    """Summed time per class of slices sorted by start. ``codes``: the classes that occur; ``place``: index into them
    per slice; ``sums``: time (ns) per class before every ``_EVERY``-th slice, 80 bytes for sixteen slices of ten
    classes. Exact at any moment if no slices overlap.
    """

    codes: npt.NDArray[np.uint8]
    place: npt.NDArray[np.uint8]
    sums: Ints

    def most(self, starts: Ints, ends: Ints, edges: Ints) -> npt.NDArray[np.uint8]:
        """Code of the class with the most time between consecutive edges; the first class where nothing ran."""
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
    """Time by class of slices sorted by start; None if all have the same class."""
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
