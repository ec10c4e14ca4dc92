"""One pass over the slices of threads: how long a thread spent in each cause within each of some windows.

A thread is in the slice that began last of those still running; where that ends, the one below it on its thread's stack
goes on. The same text runs compiled over arrays and plainly over lists. Building the package imports this, without
polars.
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
    """Add to ``out`` (windows × ``causes``, from 0) the time of each window in each cause, ns.

    Slices are by (start, longest first); whatever runs inside one of cause 0 counts as that. The first half of
    ``moment`` are the begins of the windows, the second their ends, ``asked`` their threads and ``order`` their order.
    Room to work in: ``below`` for each slice, ``inner`` (from -1), ``since`` and ``until`` (before all moments) for
    each thread, ``sums`` (from 0) for each thread and cause.
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
