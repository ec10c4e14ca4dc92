"""Temporary directories that do not outlive the process: what is not cached, and copies of standard input.

A directory is held by a lock on a file inside it. It goes at exit; one whose owner was killed is found unlocked by the
next process and goes then.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = f"warplens-{os.getuid()}-"
_HOLD = ".held"
_held: dict[Path, int] = {}


def directory(parent: Path | None = None) -> Path:
    """A new private directory, removed when this process ends. Raises OSError where none can be made."""
    base = parent or Path(tempfile.gettempdir())
    _sweep(base)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    descriptor = os.open(made / _HOLD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    if not _held:
        atexit.register(remove_all)
    _held[made] = descriptor
    return made


def remove(made: Path) -> None:
    """Remove one of this process's directories now; one that is gone is no error."""
    descriptor = _held.pop(made, None)
    shutil.rmtree(made, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def remove_all() -> None:
    """Remove every directory this process made."""
    for made in list(_held):
        remove(made)


def _sweep(base: Path) -> None:
    """Remove the directories of processes that were killed before they could."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(base):
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False) and Path(entry.path) not in _held:
                _remove_if_left(Path(entry.path))


def _remove_if_left(entry: Path) -> None:
    try:
        descriptor = os.open(entry / _HOLD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # being made this moment, or not ours
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(descriptor)
