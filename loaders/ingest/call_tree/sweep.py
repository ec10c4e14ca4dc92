"""One pass over the slices of all threads: parent, depth and self time of each.

The stack needs no room of its own: what encloses a slice is its parent, so popping is following ``parent``. Of slices
that overlap without being nested the later one takes over: the earlier ends before it and can never be innermost again,
so it is no parent of what follows, and the tree stays as flat as the calls really were. Self time is the time in which
a slice is the innermost one, so that self times add up to the time the thread spent in slices at all. The same text
runs compiled over arrays and plainly over lists.
"""

from __future__ import annotations

from typing import Any


def sweep(
    order: Any, thread: Any, start: Any, end: Any, parent: Any, own: Any, depth: Any, crosses: Any, slack: int
) -> int:
    """Fill ``parent`` (-1 for none), ``own`` (from 0), ``depth`` and ``crosses`` of the rows that ``order`` lists.

    ``order`` is by (thread, start, longest first). A slice that ends at most ``slack`` after its parent ends with it,
    and ``end`` then says so; those that began in one they outlast by more cross it, and are counted.
    """
    top = -1
    who = -1
    now = 0
    broken = 0
    for at in range(len(order)):
        row = order[at]
        begin = start[row]
        fresh = thread[row] != who
        while top >= 0 and (fresh or end[top] <= begin):
            if end[top] > now:
                own[top] += end[top] - now
                now = end[top]
            top = parent[top]
        if fresh:
            who = thread[row]
            now = begin
        if begin > now:
            if top >= 0:
                own[top] += begin - now
            now = begin
        crossing = False
        while top >= 0 and end[row] > end[top] + slack:
            crossing = crossing or end[top] > begin + slack
            top = parent[top]
        if crossing:
            broken += 1
            crosses[row] = 1
        if top >= 0:
            if end[row] > end[top]:
                end[row] = end[top]
            depth[row] = depth[top] + 1
        else:
            depth[row] = 0
        parent[row] = top
        top = row
    while top >= 0:
        if end[top] > now:
            own[top] += end[top] - now
            now = end[top]
        top = parent[top]
    return broken
