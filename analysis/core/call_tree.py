"""Who called whom on a thread, told by nesting in time, without a loop over the calls.

Calls are put in order of (thread, start, longest first). How deep a call is follows from counting: all calls that began
before it, less those that had ended. Its parent is the last call before it that is one level up. A call that outlasts
its parent (clocks round) counts as ending with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Ints = npt.NDArray[np.int64]
_ROUNDS = 64


class CallTree(Struct, frozen=True):
    """Calls in order of (thread, start, longest first); all arrays are in that order.

    ``order[i]`` is the input row of call i, ``parent[i]`` the call that encloses it most closely (-1 for none) and
    ``last[i]`` one past its last descendant: everything below call i is ``i + 1 .. last[i]``.
    """

    order: Ints
    parent: Ints
    depth: Ints
    last: Ints
    thread: Ints
    starts: Ints
    ends: Ints

    def below(self, values: npt.NDArray[np.int64 | np.bool_]) -> Ints:
        """Sum of the values of each call and of everything below it."""
        sums = np.concatenate(([0], np.cumsum(values))).astype(np.int64)
        return sums[self.last] - sums[:-1]

    def enclosing(self, thread: Ints, moments: Ints) -> Ints:
        """The innermost call running on each thread at each moment, -1 where none is."""
        key = pack(np.concatenate((self.thread, self.thread, thread)),
                    np.concatenate((self.starts, self.ends, moments)))
        count = len(self.order)
        starts, ends, at = key[:count], key[count : 2 * count], key[2 * count :]
        found = np.searchsorted(starts, at, side="right") - 1
        # climb from the last call that began before the moment to the first that still runs
        while True:
            over = (found >= 0) & ((ends[found] <= at) | (self.thread[found] != thread))
            if not over.any():
                return found
            found = np.where(over, np.where(found >= 0, self.parent[found], -1), found)


def pack(thread: Ints, times: Ints) -> Ints:
    """One number per (thread, time) that sorts like the pair."""
    zero = int(times.min(initial=0))
    room = int(times.max(initial=0)) - zero + 2
    if (int(thread.max(initial=0)) + 1) * room < 2**62:
        return thread * room + (times - zero)
    ranks = np.unique(times, return_inverse=True)[1].astype(np.int64)
    return thread * (len(times) + 1) + ranks


def call_tree(thread: Ints, starts: Ints, ends: Ints) -> CallTree:
    """The tree of calls given by thread number (from 0), start and end (ns, end not before start)."""
    order = np.lexsort((-ends, starts, thread))
    thread, starts, ends = thread[order], starts[order], ends[order].copy()
    for _ in range(_ROUNDS):
        parent, depth, last, clash = _nest(thread, starts, ends)
        if not clash.any():
            break
        ends[clash] = ends[parent[clash]]
    else:
        ends = _clipped(thread, starts, ends)
        parent, depth, last, _ = _nest(thread, starts, ends)
    return CallTree(order, parent, depth, last, thread, starts, ends)


def _nest(thread: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]:
    """Parent, depth and one past the last descendant of each call, and those that are known to outlast their parent."""
    count = len(starts)
    packed = pack(np.concatenate((thread, thread)), np.concatenate((starts, ends)))
    begin, end = packed[:count], packed[count:]
    here = np.arange(count, dtype=np.int64)
    empty = end == begin
    ended = np.searchsorted(np.sort(end[~empty]), begin, side="right")
    moments = np.flatnonzero(empty)
    ended += np.searchsorted(begin[moments], begin, side="left")
    # a moment without length also comes after those before it at the same time
    ended[moments] = ended[moments] - np.searchsorted(begin[moments], begin[moments], side="left") + np.arange(
        len(moments)
    )
    depth = here - ended
    level = depth * (count + 1) + here
    ranked = np.argsort(level, kind="stable")
    found = np.searchsorted(level[ranked], level - (count + 1), side="left") - 1
    parent = np.where(depth > 0, ranked[np.maximum(found, 0)], -1) if count else here
    last = np.where(empty, here + 1, np.searchsorted(begin, end, side="left"))
    inside = (parent < 0) | (begin < end[parent])
    over = (parent >= 0) & inside & (end > end[parent])
    if over.any():
        # a parent is surely right only where no call runs that is itself too long or does not begin in its own parent
        reach = np.maximum.accumulate(np.where(over | ~inside, end, 0))
        over[1:] &= reach[:-1] <= begin[1:]
    return parent, depth, last, over


def _clipped(thread: Ints, starts: Ints, ends: Ints) -> Ints:
    """Ends cut to the enclosing call's, one call after the other: for threads whose calls overlap in long chains."""
    clipped: list[int] = ends.tolist()
    stack: list[int] = []
    current = -1
    for row, (who, start) in enumerate(zip(thread.tolist(), starts.tolist(), strict=True)):
        if who != current:
            stack, current = [], who
        while stack and clipped[stack[-1]] <= start:
            stack.pop()
        if stack:
            clipped[row] = min(clipped[row], clipped[stack[-1]])
        stack.append(row)
    return np.array(clipped, dtype=np.int64)
