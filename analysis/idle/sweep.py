"""One sweep over the slices of threads: the time that a thread spent in each cause within given windows.

A thread is in the slice that began last of those still running; when that ends, the one below it on the thread's stack
continues. The same source runs compiled on arrays, and as plain Python on lists. The package build imports this file
without polars.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...loaders.trace import compiled_program

SWEEP = compiled_program(
    name="thread-time",
    module=__name__,
    functions=(("spent", ", ".join(["int64[::1]"] * 13 + ["int64"])),),
    sources=(str(Path(__file__)),),
)


def spent(
    start: Any, end: Any, thread: Any, cause: Any, moment: Any, asked: Any, order: Any, below: Any, inner: Any,
    since: Any, until: Any, sums: Any, out: Any, causes: int,
) -> int:
    """Add to ``out`` (windows × ``causes``, initially 0) the time of each window in each cause, ns.

    Slices are sorted by (start, longest first); whatever runs inside one of cause 0 counts as cause 0. ``moment``: the
    begins of all windows, then their ends; ``asked``: their threads; ``order``: the moments' sort order. Scratch space:
    ``below`` per slice; ``inner`` (initially -1), ``since`` and ``until`` (initially before all moments) per thread;
    ``sums`` (initially 0) per thread and cause.
    """
    at = 0
    windows = len(moment) // 2
    for place in range(len(order)):
        query = order[place]
        while True:
            begins = at < len(start) and start[at] <= moment[query]
            who = thread[at] if begins else asked[query]
            now = start[at] if begins else moment[query]
            top = inner[who]
            while top >= 0:
                stop = min(end[top], now)
                if stop > since[who]:
                    loaded = min(max(until[who], since[who]), stop)
                    sums[who * causes] += loaded - since[who]
                    sums[who * causes + cause[top]] += stop - loaded
                    since[who] = stop
                if end[top] > now:
                    break
                top = below[top]
            inner[who] = top
            since[who] = max(since[who], now)
            if not begins:
                break
            if end[at] > now:
                below[at] = top
                inner[who] = at
                if cause[at] == 0:
                    until[who] = max(until[who], end[at])
            at += 1
        window = query if query < windows else query - windows
        for one in range(causes):
            total = sums[who * causes + one]
            out[window * causes + one] += total if query >= windows else -total
    return at
