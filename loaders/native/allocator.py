"""Settings of glibc's allocator: one arena, and freed memory that the process keeps for its next arrays.

A reader makes arrays for every block and a query one per column, each freed as soon as the next is there. glibc returns
such memory to the kernel and requests it again, and the kernel clears every page of it each time.

Measured with ``warplens report`` of a 320 MB Kineto trace that is not cached, on two cores, medians of five runs in
turn: all three settings take 11.3 s of CPU time, a peak of 286 MB and 86,000 page faults; one arena alone 11.8 s,
267 MB and 253,000 faults. Without ``M_ARENA_MAX`` it is +0.4 s and +82 MB, without ``M_TRIM_THRESHOLD`` +0.9 s and
−23 MB, without ``M_MMAP_THRESHOLD`` +1.4 s and −35 MB: the thresholds only pay together.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_KEPT_BYTES = 128 << 20  # Freed memory that a process keeps: room for the arrays of some millions of launches.
_LARGEST_BYTES = 32 << 20  # Arrays up to this size lie in that memory; glibc allows no more.
_RETURNED_BYTES = 128 << 10
"""Arrays from this size are returned as soon as they are freed: glibc's own value, before it adapts."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_freed() -> None:
    """Keep freed memory for the next arrays of this process."""
    # Memory freed by one thread is not available to another with an arena of its own: +110 MB after reading 2 GB.
    _call("mallopt", _M_ARENA_MAX, 1)
    _call("mallopt", _M_MMAP_THRESHOLD, _LARGEST_BYTES)
    _call("mallopt", _M_TRIM_THRESHOLD, _KEPT_BYTES)


def return_freed() -> None:
    """Return what was freed to the kernel, and from now on every large array as soon as it is freed: for the app, which
    runs on between its queries and from one recording to the next. Its timeline of five million launches then takes
    300 MB instead of 509: glibc otherwise raises the size from which it does so with every such array, up to
    ``_LARGEST_BYTES``. After 36 minutes of recordings 21 of 191 MB were free pages between what was in use."""
    _call("mallopt", _M_MMAP_THRESHOLD, _RETURNED_BYTES)
    give_back()


def give_back() -> None:
    """Return freed memory to the kernel now: for a process that goes on to something else."""
    _call("malloc_trim", 0)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Keep Python from looking for garbage while millions of small values are made and none is dropped, which would
    take as long as making them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _call(function: str, *arguments: int) -> None:
    if sys.platform.startswith("linux"):
        import ctypes  # numpy has loaded it long ago

        with suppress(AttributeError, OSError):  # a C library other than glibc
            getattr(ctypes.CDLL(None), function)(*arguments)
