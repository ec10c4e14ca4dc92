"""Turns any failure of a loader into one sentence.

Loaders read untrusted files, so every exception they raise, even a panic of a library, is handled here. With
WARPLENS_DEBUG in the environment the original exception is raised instead.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import Cancelled, Unreadable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def as_unreadable(display_name: str, loader: str) -> Iterator[None]:
    """Convert exceptions in the block to Unreadable, unless WARPLENS_DEBUG is set."""
    try:
        yield
    except (Unreadable, Cancelled, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a polars panic is not an Exception
        if os.environ.get("WARPLENS_DEBUG"):
            raise
        raise _sentence(display_name, loader, error) from None


def is_full_disk(error: BaseException) -> bool:
    """Whether a write failed because the disk is full; polars reports that only in its message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    code = re.search(r"os error (\d+)", str(error))
    return code is not None and int(code[1]) in _FULL


def ended(display_name: str, status: int) -> Unreadable:
    """The error for an ingest process that ended without a result; ``status`` is negative for a signal."""
    if status == -signal.SIGKILL:
        reason = "the process that read it was killed; the machine may be out of memory"
        return Unreadable(display_name, reason, "Free some memory and open it again.")
    how = f"signal {-status}, {signal.strsignal(-status)}" if status < 0 else f"status {status}"
    return Unreadable(
        display_name, f"the process that read it ended unexpectedly ({how})",
        "Record or copy it again; WARPLENS_DEBUG=1 shows what the process printed.",
    )


def _sentence(display_name: str, loader: str, error: BaseException) -> Unreadable:
    if isinstance(error, MemoryError):
        return Unreadable(display_name, f"needs more memory than is free to be read as {loader}", "Free some memory.")
    if isinstance(error, RecursionError):
        return Unreadable(display_name, f"is nested too deeply to be read as {loader}", "No profiler writes that.")
    if is_full_disk(error):
        advice = "Free some space in the cache folder (`warplens cache` shows it)."
        return Unreadable(display_name, "cannot be opened: no space is left for its tables", advice)
    if isinstance(error, OSError) and error.strerror:
        return Unreadable(display_name, f"cannot be read ({error.strerror.lower()})", "Check its permissions.")
    first_line = (str(error).splitlines() or [""])[0][:160]
    what = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    return Unreadable(
        display_name, f"is damaged, or not a valid {loader} file: it could not be read ({what})",
        "Record or copy it again; WARPLENS_DEBUG=1 shows where reading stopped.",
    )
