"""Memory that arrays are made in again and again.

A question makes dozens of arrays of one number per launch, and a reader some for every block, each freed as soon as
the next is there. The C library gives such memory back to the system and asks for it again, and the system clears every
page of it each time, which takes about as long as the arithmetic. Reading 500 MB without this touches 60% more pages.
"""

from __future__ import annotations

import sys
from contextlib import suppress

KEPT_BYTES = 128 << 20
"""Freed memory that a process keeps. The arrays of some millions of launches find room in it."""
_LARGEST = 32 << 20
"""Bytes of an array that may lie in it; the C library takes no more."""
_RETURNED = 128 << 10
"""Bytes of an array that is given back at once, as the C library does before it adapts."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_freed(limit: int = KEPT_BYTES) -> None:
    """Have the process keep so much freed memory."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # numpy has loaded it long ago

    with suppress(AttributeError, OSError):  # a C library other than glibc
        mallopt = ctypes.CDLL(None).mallopt
        # What one thread freed is not there for another: the threads that read 2 GB leave 110 MB behind otherwise.
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)
        mallopt(_M_TRIM_THRESHOLD, limit)


def return_freed() -> None:
    """Have every large array be given back as soon as it is freed: for the app, which stays after its answers.

    The timeline of five million launches then holds 300 MB instead of 509: without this the C library raises the size
    from which it does so with every such array, up to ``_LARGEST``.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _RETURNED)


def give_back() -> None:
    """Give freed memory back to the system: for a process that begins something else."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
