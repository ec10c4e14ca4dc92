"""One pass over the slices of all threads: parent, depth and self time of each.

The stack needs no room of its own: what encloses a slice is its parent, so popping is following ``parent``. Of slices
that overlap without being nested the later one takes over: the earlier ends before it and can never be innermost again,
so it is no parent of what follows, and the tree stays as flat as the calls really were. Self time is the time in which
a slice is the innermost one, so that self times add up to the time the thread spent in slices at all. What a thread is
in at the end of a call is handed to the next one, so that slices may come some at a time. The same text runs compiled
over arrays and plainly over lists.
"""

from __future__ import annotations

from typing import Any


def sweep(
    order: Any, thread: Any, start: Any, end: Any, parent: Any, self_ns: Any, depth: Any, crosses: Any, top: Any,
    now: Any, slack: int,
) -> int:
    """Fill ``parent`` (-1 for none), ``own`` (from 0), ``depth`` and ``crosses`` of the rows that ``order`` lists.

    ``order`` is by (thread, start, longest first). A slice that ends at most ``slack`` after its parent ends with it,
    and ``end`` then says so; those that began in one they outlast by more cross it, and are counted. ``top`` is the
    innermost slice that each thread is in (-1 for none) and ``now`` until when its time is told; both are moved on.
    """
    inner = -1
    who = -1
    moment = 0
    broken = 0
    for at in range(len(order)):
        row = order[at]
        begin = start[row]
        if thread[row] != who:
            if who >= 0:
                top[who] = inner
                now[who] = moment
            who = thread[row]
            inner = top[who]
            moment = now[who]
        while inner >= 0 and end[inner] <= begin:
            if end[inner] > moment:
                self_ns[inner] += end[inner] - moment
                moment = end[inner]
            inner = parent[inner]
        if inner < 0:
            moment = begin
        elif begin > moment:
            self_ns[inner] += begin - moment
            moment = begin
        crossing = False
        while inner >= 0 and end[row] > end[inner] + slack:
            crossing = crossing or end[inner] > begin + slack
            inner = parent[inner]
        if crossing:
            broken += 1
            crosses[row] = 1
        if inner >= 0:
            if end[row] > end[inner]:
                end[row] = end[inner]
            depth[row] = depth[inner] + 1
        else:
            depth[row] = 0
        parent[row] = inner
        inner = row
    if who >= 0:
        top[who] = inner
        now[who] = moment
    return broken
