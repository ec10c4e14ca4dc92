"""Settings of glibc's allocator: one arena, and freed memory is kept by the process for its next arrays.

A reader allocates arrays for every block and a query one per column, each freed as soon as the next exists. By default
glibc returns such memory to the kernel and requests it again, and the kernel clears every page each time.

Measured with ``warplens report`` of an uncached 320 MB Kineto trace on two cores, medians of five alternating runs: all
three settings take 11.3 s of CPU time, a peak of 286 MB and 86,000 page faults; one arena alone 11.8 s, 267 MB and
253,000 faults. Without ``M_ARENA_MAX`` it is +0.4 s and +82 MB, without ``M_TRIM_THRESHOLD`` +0.9 s and −23 MB, without
``M_MMAP_THRESHOLD`` +1.4 s and −35 MB: the thresholds only pay together.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_KEPT_BYTES = 128 << 20  # Freed memory that a process keeps, enough for the arrays of some millions of launches.
_LARGEST_BYTES = 32 << 20  # Arrays up to this size are allocated in that memory; glibc's maximum.
_RETURNED_BYTES = 128 << 10
"""Arrays of at least this size are returned as soon as they are freed: glibc's default before it adapts."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def one_arena() -> None:
    """Let all threads share one arena; threads that have one of their own keep it, so call this before they start.

    Memory freed by one thread is not available to another with an arena of its own: +110 MB after reading 2 GB. In the
    app, which opens recordings one after another, the C library's memory grew from 26 to 35 MiB over nine rounds of
    five recordings; with one arena from 21 to 24.
    """
    _call("mallopt", _M_ARENA_MAX, 1)


def keep_freed() -> None:
    """Keep freed memory for the next arrays of this process."""
    one_arena()
    _call("mallopt", _M_MMAP_THRESHOLD, _LARGEST_BYTES)
    _call("mallopt", _M_TRIM_THRESHOLD, _KEPT_BYTES)


def return_freed() -> None:
    """Return freed memory to the kernel, now and in future whenever a large array is freed: for the app, a long-running
    process. Its timeline of five million launches then takes 300 instead of 509 MB, because glibc otherwise raises the
    threshold with every large array, up to ``_LARGEST_BYTES``. After 36 minutes of opening recordings, 21 of 191 MB
    were free pages between used ones."""
    _call("mallopt", _M_MMAP_THRESHOLD, _RETURNED_BYTES)
    give_back()


def give_back() -> None:
    """Return freed memory to the kernel once, for a process that goes on to another task."""
    _call("malloc_trim", 0)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Disable Python's garbage collector while millions of small objects are created and none is dropped; collecting
    would take as long as creating them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _call(function: str, *arguments: int) -> None:
    if sys.platform.startswith("linux"):
        import ctypes  # 4 ms, unless numpy has imported it already

        with suppress(AttributeError, OSError):  # a C library other than glibc
            getattr(ctypes.CDLL(None), function)(*arguments)
