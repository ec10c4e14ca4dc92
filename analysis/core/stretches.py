"""Sums over stretches of activities, in the order of their launches, that belong to names.

A stretch may hold every activity, and so may many others: sums come from prefix sums, and only what overlaps at the
ends of a stretch is looked at activity by activity. A table of all pairs would grow with the square.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .intervals import union_per_owner

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_MOST_PAIRS = 1 << 22
"""Pairs of a name and an activity that are held at once."""


class LaunchStretches(Struct, frozen=True):
    """Stretches of activities, in the order of their launches, that were launched in ranges of a name (``owner``): from
    ``first`` to before ``last``. Those of one name share no activity."""

    owner: Ints
    first: Ints
    last: Ints

    def sums(self, values: Ints, count: int) -> Ints:
        """The sum of the values of each name's activities."""
        total = np.concatenate(([0], np.cumsum(values)))
        return summed(self.owner, total[self.last] - total[self.first], count)

    def pairs(self, some: Mask) -> tuple[Ints, Ints]:
        """All pairs of a name and an activity of some stretches."""
        owner, first, many = self.owner[some], self.first[some], (self.last - self.first)[some]
        shift = np.repeat(first - np.concatenate(([0], np.cumsum(many)[:-1])), many)
        return np.repeat(owner, many), np.arange(int(many.sum())) + shift

    def batches(self, wanted: Mask) -> Iterator[tuple[Ints, Ints]]:
        """The pairs of wanted activities, all of a name together, about ``_MOST_PAIRS`` at a time."""
        place = np.concatenate(([0], np.cumsum(wanted)))
        order = np.argsort(self.owner, kind="stable")
        among = LaunchStretches(self.owner[order], place[self.first[order]], place[self.last[order]])
        rows = np.flatnonzero(wanted)
        size = np.cumsum(among.last - among.first)
        ends = np.append(np.flatnonzero(np.diff(among.owner)), len(order) - 1) if len(order) else order
        begin = 0
        for end in ends.tolist():
            if end == len(order) - 1 or size[end] - (size[begin - 1] if begin else 0) >= _MOST_PAIRS:
                some = np.zeros(len(order), bool)
                some[begin : end + 1] = True
                owner, at = among.pairs(some)
                begin = end + 1
                if len(at):
                    yield owner, rows[at]


def busy_of(inside: LaunchStretches, start: Ints, dur: Ints, device: Ints, count: int) -> Ints:
    """Per name: time with at least one of its activities running, summed over devices.

    Activities that overlap no other of their device count with their duration. The others form groups without a gap,
    and groups whose launches mix form a bundle. A stretch of launches takes a bundle whole, with the sum of its groups,
    but for those at its two ends: only they are looked at activity by activity.
    """
    group, length = _groups(start, dur, device)
    many = np.bincount(group)[group] > 1
    first, last, busy = _bundles(group, length, np.flatnonzero(many))
    result = inside.sums(np.where(many, 0, dur), count)
    low, high = np.searchsorted(first, inside.first), np.searchsorted(last, inside.last - 1, side="right")
    total = np.concatenate(([0], np.cumsum(busy)))
    result += summed(inside.owner, np.maximum(total[np.maximum(high, low)] - total[low], 0), count)
    spread = int(device.max(initial=0)) + 1
    before = np.minimum(np.append(first, len(many))[low], inside.last)  # launches before the first whole bundle
    behind = np.maximum(np.append(last, -1)[np.minimum(high, len(last)) - 1] + 1 if len(last) else 0, before)
    behind = np.where(high > low, behind, before)
    owner = np.tile(inside.owner, 2)
    edges = LaunchStretches(owner, np.concatenate((inside.first, behind)), np.concatenate((before, inside.last)))
    for owners, at in edges.batches(many):
        begin, end, of = union_per_owner(start[at], (start + dur)[at], owners * spread + device[at])
        result += summed(of // spread, end - begin, count)
    return result


def _groups(start: Ints, dur: Ints, device: Ints) -> tuple[Ints, Ints]:
    """Per activity, the number of its group: activities of one device between two moments without any; and the length
    of each group in ns."""
    order = np.lexsort((start, device))
    start, end, device = start[order], (start + dur)[order], device[order]
    latest = end.copy()
    for part in np.split(np.arange(len(order)), np.flatnonzero(np.diff(device)) + 1):
        latest[part] = np.maximum.accumulate(end[part])
    begins = np.ones(len(order), bool)
    begins[1:] = (device[1:] != device[:-1]) | (start[1:] >= latest[:-1])
    numbers = np.cumsum(begins) - 1
    group = np.empty(len(order), np.int64)
    group[order] = numbers
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order)) - 1
    return group, latest[last] - start[first] if len(order) else np.zeros(0, np.int64)


def _bundles(group: Ints, length: Ints, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Per bundle the first and last launch and the length of its groups."""
    if not len(rows):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    used, inverse = np.unique(group[rows], return_inverse=True)
    inverse = inverse.reshape(-1)
    low, high = np.full(len(used), len(group)), np.zeros(len(used), np.int64)
    np.minimum.at(low, inverse, rows)
    np.maximum.at(high, inverse, rows)
    order = np.argsort(low, kind="stable")
    begins = np.ones(len(used), bool)
    begins[1:] = low[order][1:] > np.maximum.accumulate(high[order])[:-1]
    numbers = np.empty(len(used), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    count = int(numbers.max()) + 1
    first, last = np.full(count, len(group)), np.zeros(count, np.int64)
    np.minimum.at(first, numbers, low)
    np.maximum.at(last, numbers, high)
    return first, last, summed(numbers, length[used], count)


def summed(owner: Ints, values: npt.NDArray[np.int64 | np.float64], count: int) -> Ints:
    """Sum of the values per owner; exact up to 2**53 ns, which is a hundred days."""
    return np.bincount(owner, weights=values, minlength=count).astype(np.int64)
