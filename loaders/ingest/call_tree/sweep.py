"""One pass over the slices of all threads: parent, depth and self time of each.

The stack needs no room of its own: what encloses a slice is its parent, so popping is following ``parent``. Of slices
that overlap without being nested the later one takes over: the earlier ends before it and can never be innermost again,
so it is no parent of what follows, and the tree stays as flat as the calls really were. Self time is the time in which
a slice is the innermost one, so that self times add up to the time the thread spent in slices at all. The same text
runs compiled over arrays and plainly over memoryviews. Building the package imports this, without polars.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...native.program import Program

SWEEP = Program(
    name="call-tree",
    module=__name__,
    functions=(("sweep", "int64[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64[::1], int32[::1], "
                         "uint8[::1], int64"),),
    sources=(str(Path(__file__)),),
)  # fmt: skip
_NEVER = 2**63 - 1  # After every end.


def sweep(
    order: Any, thread: Any, start: Any, end: Any, parent: Any, self_ns: Any, depth: Any, crosses: Any, slack: int
) -> int:
    """Fill ``parent`` (from -1), ``depth``, ``self_ns`` and ``crosses`` (from 0) of the slices; how many cross.

    ``order`` is by (thread, start, longest first). A slice that ends at most ``slack`` after its parent ends with it,
    and ``end`` then says so; those that began in one they outlast by more cross it.
    """
    inner = -1
    who = -1
    moment = 0
    broken = 0
    for at in range(len(order) + 1):
        row = order[at] if at < len(order) else -1
        begin = start[row] if row >= 0 and thread[row] == who else _NEVER
        while inner >= 0 and end[inner] <= begin:
            if end[inner] > moment:
                self_ns[inner] += end[inner] - moment
                moment = end[inner]
            inner = parent[inner]
        if row < 0:
            break
        who = thread[row]
        begin = start[row]
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
        parent[row] = inner
        inner = row
    return broken
