"""One pass over the slices of all threads that computes parent, depth and self time of each.

It needs no separate stack: a slice's parent encloses it, so following ``parent`` pops. If slices overlap without being
nested, the later one wins: the earlier ends first and can never be innermost again, so it is not the parent of later
slices and the tree does not become deeper than the real calls. Self time is the time in which a slice is the innermost
one, so self times sum to the time the thread spent in any slice. The same source runs compiled on arrays and as plain
Python on memoryviews. The package build imports this module without polars.
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
    """Fill ``parent`` (initially -1), ``depth``, ``self_ns`` and ``crosses`` (initially 0); returns how many cross.

    ``order`` sorts by (thread, start, longest first). If a slice ends at most ``slack`` after its parent, its ``end``
    is set to the parent's; a slice that outlasts by more the slice it began in crosses it.
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
