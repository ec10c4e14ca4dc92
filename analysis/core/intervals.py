"""Sets of time intervals: unions, intersections, differences and lengths, without a loop over the intervals.

``Intervals`` is a sorted set of half-open intervals that neither overlap nor touch. Everything is derived from how much
of the set lies before a given time, which one cumulative sum and a binary search give for any number of times.
Invariants: busy + idle = span, a union is never longer than the sum of its parts, and input order does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .batches import numbered

Ints = npt.NDArray[np.int64]
_WIDEST = 2**62


class Intervals(Struct, frozen=True):
    """Sorted, disjoint half-open intervals ``starts[i]..ends[i]`` (ns)."""

    starts: Ints
    ends: Ints

    @property
    def length(self) -> int:
        """Time covered, ns."""
        return int((self.ends - self.starts).sum())

    def before(self, moments: Ints) -> Ints:
        """Length of the set before each of ``moments``, ns."""
        if not len(self.starts):
            return np.zeros(len(moments), dtype=np.int64)
        if len(self.starts) == 1:
            return np.asarray(np.clip(moments - self.starts[0], 0, self.ends[0] - self.starts[0]), dtype=np.int64)
        covered = np.concatenate(([0], np.cumsum(self.ends - self.starts)))
        at = begun(self.starts, moments)
        last = np.maximum(at - 1, 0)
        past = np.clip(moments - self.starts[last], 0, self.ends[last] - self.starts[last])
        return np.where(at > 0, covered[last] + past, 0)

    def within(self, starts: Ints, ends: Ints) -> Ints:
        """Length of the set within each window, ns."""
        return self.before(ends) - self.before(starts)

    def __or__(self, other: Intervals) -> Intervals:
        return union(np.concatenate((self.starts, other.starts)), np.concatenate((self.ends, other.ends)))

    def __and__(self, other: Intervals) -> Intervals:
        return _overlaps(self, other)

    def __sub__(self, other: Intervals) -> Intervals:
        return _overlaps(self, Intervals(np.append(_FIRST, other.ends), np.append(other.starts, _LAST)))


def begun(starts: Ints, moments: Ints) -> Ints:
    """Number of ``starts`` at or before each of ``moments``; the shorter array is searched in the longer."""
    if len(starts) < len(moments) and (moments[1:] >= moments[:-1]).all():
        return np.cumsum(np.bincount(np.searchsorted(moments, starts), minlength=len(moments))[: len(moments)])
    return np.searchsorted(starts, moments, side="right")


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _overlaps(one: Intervals, other: Intervals) -> Intervals:
    """The intersection, sorted: it has at most as many intervals as both sets together."""
    first = np.searchsorted(other.ends, one.starts, side="right")
    count = np.searchsorted(other.starts, one.ends, side="left") - first
    total = int(count.sum())
    mine = np.repeat(np.arange(len(count)), count)
    theirs = np.arange(total) + np.repeat(first - (np.cumsum(count) - count), count)
    return Intervals(np.maximum(one.starts[mine], other.starts[theirs]), np.minimum(one.ends[mine], other.ends[theirs]))


EMPTY = Intervals(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def union(starts: Ints, ends: Ints) -> Intervals:
    """The union of the intervals; those that end at or before their start are ignored."""
    real = ends > starts
    if not real.all():
        starts, ends = starts[real], ends[real]
    if not len(starts):
        return EMPTY
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.flatnonzero(np.concatenate(([True], starts[1:] > reach[:-1])))
    closes = np.append(opens[1:] - 1, len(starts) - 1)
    return Intervals(starts[opens], reach[closes])


def joined(several: Sequence[Intervals]) -> Intervals:
    """The union of several sets."""
    return union(np.concatenate([one.starts for one in several]), np.concatenate([one.ends for one in several]))


def union_per_owner(starts: Ints, ends: Ints, owner: Ints) -> tuple[Ints, Ints, Ints]:
    """The union per owner: starts, ends and owners of the disjoint intervals, sorted by owner."""
    real = ends > starts
    starts, ends, owner = starts[real], ends[real], owner[real]
    if not len(starts):
        return EMPTY.starts, EMPTY.ends, EMPTY.starts
    zero = int(starts.min())
    room = int(ends.max()) - zero + 1
    number = numbered(owner)
    owners = np.zeros(int(number.max()) + 1, dtype=np.int64)
    owners[number] = owner
    if len(owners) * room < _WIDEST:
        # owners are laid end to end on one axis, so that a single union covers all of them
        shift = number * room - zero
        merged = union(starts + shift, ends + shift)
        of = merged.starts // room
        return merged.starts - of * room + zero, merged.ends - of * room + zero, owners[of]
    parts = [(union(starts[number == n], ends[number == n]), who) for n, who in enumerate(owners)]
    return (
        np.concatenate([part.starts for part, _ in parts]), np.concatenate([part.ends for part, _ in parts]),
        np.concatenate([np.full(len(part.starts), who) for part, who in parts]),
    )


def busy_and_alone(starts: Ints, ends: Ints, owner: Ints, owners: int) -> tuple[Ints, Ints]:
    """Per owner (numbered from 0), in ns: busy time, and the time in which it is active alone, which would vanish if it
    took no time. Give the intervals of one device only."""
    first, last, of = union_per_owner(starts, ends, owner)
    busy = np.bincount(of, weights=last - first, minlength=owners).astype(np.int64)
    if not len(first):
        return busy, np.zeros(owners, dtype=np.int64)
    moments = np.concatenate((first, last))
    step = np.concatenate((np.ones(len(of), dtype=np.int64), -np.ones(len(of), dtype=np.int64)))
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    active = np.cumsum(step[order])[:-1]
    # where exactly one owner is active, the sum of the active owners' numbers is that owner's number
    which = np.cumsum((step * np.concatenate((of, of)))[order])[:-1]
    single = active == 1
    alone = np.bincount(which[single], weights=np.diff(moments)[single], minlength=owners)
    return busy, alone.astype(np.int64)
