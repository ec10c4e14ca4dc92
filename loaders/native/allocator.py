"""Memory that arrays are made in again and again.

A question makes dozens of arrays of one number per launch, and a reader some for every block, each freed as soon as
the next is there. The C library gives such memory back to the system and asks for it again, and the system clears every
page of it each time, which takes about as long as the arithmetic.
"""

from __future__ import annotations

import sys
from contextlib import suppress

KEPT_BYTES = 32 << 20
_M_TOP_PAD = -2


def keep_freed(most: int = KEPT_BYTES) -> None:
    """Have the process keep so much freed memory; most arrays of a million launches find room in ``KEPT_BYTES``."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # numpy has loaded it long ago

    with suppress(AttributeError, OSError):  # a C library other than glibc
        ctypes.CDLL(None).mallopt(_M_TOP_PAD, most)


def give_back() -> None:
    """Give freed memory back to the system: for a process that begins something else."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
