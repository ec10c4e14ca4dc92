"""Directories that belong to running processes: temporary ones that do not outlive them, and held cache entries.

Each directory has a file ``.held`` on which its users keep a lock: exclusive while it is being written or is
temporary, shared while a finished one is read. The kernel drops the lock with the process, however it ends. So a
temporary directory goes at exit and at SIGTERM and SIGHUP; one whose owner was killed outright is found unlocked by the
next process and goes then; and nothing that somebody still reads is ever removed.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType

_PREFIX = f"warplens-{os.getuid()}-"
_HOLD = ".held"
_temporary: dict[Path, int] = {}
_shared: dict[Path, int] = {}
_owner: list[int] = []


def place() -> Path:
    """Where temporary directories are made unless another place is asked for."""
    return Path(tempfile.gettempdir())


def directory(parent: Path | None = None) -> Path:
    """A new private directory, removed when this process ends. Raises OSError where none can be made."""
    base = parent or place()
    sweep(base)
    clean_up_at_the_end()
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        descriptor = os.open(made / _HOLD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if made.is_dir():  # else a sweep of another process came between the two lines above
            _temporary[made] = descriptor
            return made
        os.close(descriptor)


def keep(made: Path, target: Path) -> bool:
    """Give a finished temporary directory its lasting name, held for reading; false where that name is taken."""
    try:
        os.rename(made, target)
    except OSError:
        if target.is_dir():
            return False
        raise
    descriptor = _temporary.pop(made)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _shared[target] = descriptor
    return True


def hold(made: Path) -> bool:
    """Keep a finished directory from being removed while this process lives; false where it is gone or going.

    A temporary one that its maker handed over becomes this process's to remove.
    """
    if made in _shared or made in _temporary:
        return made.is_dir()
    try:
        descriptor = os.open(made / _HOLD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.stat(made / _HOLD).st_ino == os.fstat(descriptor).st_ino:
            os.utime(made / _HOLD)
            (_temporary if made.name.startswith(_PREFIX) else _shared)[made] = descriptor
            return True
    except OSError:
        pass
    os.close(descriptor)
    return False


def hand_over(made: Path) -> None:
    """Leave a temporary directory to another process, which takes it with ``hold`` while this one still lives."""
    if (descriptor := _temporary.pop(made, None)) is not None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _shared[made] = descriptor


def release(made: Path) -> None:
    """Let go of a directory that was held for reading."""
    if (descriptor := _shared.pop(made, None)) is not None:
        os.close(descriptor)


def remove(made: Path) -> None:
    """Remove one of this process's temporary directories now; one that is gone is no error."""
    descriptor = _temporary.pop(made, None)
    shutil.rmtree(made, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)


def remove_if_free(made: Path) -> bool:
    """Remove a directory unless a process holds it."""
    try:
        descriptor = os.open(made / _HOLD, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False  # being made this moment, or not ours
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Renamed first: a reader that comes now finds nothing rather than half of it.
        going = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=made.parent))
        os.rename(made, going / "gone")
        shutil.rmtree(going, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def sweep(base: Path) -> None:
    """Remove the temporary directories of processes that were killed before they could."""
    with contextlib.suppress(OSError):
        left = [Path(entry.path) for entry in os.scandir(base) if entry.name.startswith(_PREFIX)]
        for made in left:
            if made not in _temporary and made.is_dir() and not made.is_symlink():
                remove_if_free(made)


def remove_all() -> None:
    """Remove every temporary directory of this process."""
    if _owner[-1:] == [os.getpid()]:  # not in a fork of it
        for made in list(_temporary):
            remove(made)


def clean_up_at_the_end() -> None:
    """Have temporary directories removed at exit and, called from the main thread, at SIGTERM and SIGHUP."""
    if not _owner:
        _owner.append(os.getpid())
        atexit.register(remove_all)
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    remove_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
