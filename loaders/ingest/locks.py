"""Locks on open files that the system drops with the process that holds them, however it ends.

Windows has no such locks. There nothing is locked, which ``ARE_THERE`` says; ``spill`` tells what keeps its
directories.
"""

from __future__ import annotations

import os

try:
    import fcntl
except ImportError:
    ARE_THERE = False
else:
    ARE_THERE = True
OWN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file to be locked is opened: not for children, not through a link, never waiting for a FIFO's other end."""


def exclusive(descriptor: int, wait: bool = True) -> None:
    """Take the file for this process alone. Raises OSError where another has it and ``wait`` is false."""
    if ARE_THERE:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def shared(descriptor: int, wait: bool = True) -> None:
    """Take the file together with others. Raises OSError where one has it alone and ``wait`` is false."""
    if ARE_THERE:
        fcntl.flock(descriptor, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))
