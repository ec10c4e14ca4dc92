"""Directories owned by running processes: temporary ones, removed with their process, and cache entries in use.

Each directory has a file ``.held`` that its users lock: exclusively while it is written or temporary, shared while a
finished one is read. The kernel releases the lock when the process ends, however it ends. Temporary directories are
removed at exit and at SIGTERM and SIGHUP; if the owner was killed, the next process finds the directory unlocked and
removes it. A directory that is still being read is never removed. Without such locks (Windows) a directory with an open
file cannot be renamed or removed, which protects it as well.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

try:
    import fcntl
except ImportError:  # Windows
    LOCKS = False
else:
    LOCKS = True
OWN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags for opening a lock file: not inherited, no symlinks, never blocking on a FIFO."""
_PREFIX = f"warplens-{os.getuid() if hasattr(os, 'getuid') else os.environ.get('USERNAME', '')}-"
HOLD = ".held"  # The lock file in each directory.
_OLD_SECONDS = 86_400
_OTHER_FILES = 512  # Open files a process may need besides the directories it holds.
_temporary: dict[Path, int] = {}
_shared: dict[Path, int] = {}
_swept: set[Path] = set()
_keepers = Counter[Path]()
_gone = deque[tuple[Path, ...]]()  # directories of keepers that have been garbage-collected
_counting = threading.Lock()
_owner: list[int] = []


def exclusive(descriptor: int, wait: bool = True) -> None:
    """Lock the file exclusively. Raises OSError if another process holds it and ``wait`` is false."""
    if LOCKS:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def shared(descriptor: int, wait: bool = True) -> None:
    """Lock the file shared. Raises OSError if another process holds it exclusively and ``wait`` is false."""
    if LOCKS:
        fcntl.flock(descriptor, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))


def place() -> Path:
    """The default parent of temporary directories."""
    return Path(tempfile.gettempdir())


def directory(parent: Path | None = None) -> Path:
    """A new private directory, removed when this process ends. Raises OSError if it cannot be created."""
    base = parent or place()
    if base not in _swept:  # sweep once per process, not for each of a hundred recordings
        _swept.add(base)
        sweep(base)
    clean_up_at_the_end()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        descriptor = os.open(folder / HOLD, os.O_RDWR | os.O_CREAT | OWN, 0o600)
        exclusive(descriptor)
        if folder.is_dir():  # else another process swept it before it was locked
            _temporary[folder] = descriptor
            return folder
        os.close(descriptor)


def keep(folder: Path, target: Path) -> bool:
    """Rename a finished temporary directory to ``target`` and hold it for reading; False if ``target`` exists."""
    try:
        os.rename(folder, target)
    except OSError:
        if target.is_dir():
            return False
        raise
    descriptor = _temporary.pop(folder)
    shared(descriptor)
    _shared[target] = descriptor
    return True


def expect(directories: int) -> None:
    """Raise the limit of open files for so many held directories: each needs one, and the usual soft limit is 1,024."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = directories + _OTHER_FILES
        if soft != resource.RLIM_INFINITY and soft < needed:
            new_limit = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, new_limit), hard))


def hold(folder: Path) -> bool:
    """Protect a finished directory from removal while this process lives; False if it is gone or being removed.

    A temporary directory handed over by its creator becomes this process's to remove.
    """
    if folder in _shared or folder in _temporary:
        return folder.is_dir()
    try:
        descriptor = os.open(folder / HOLD, os.O_RDWR | OWN)
    except OSError:
        return False
    try:
        shared(descriptor, wait=False)
        if os.path.samestat(os.lstat(folder / HOLD), os.fstat(descriptor)):
            os.utime(folder / HOLD)
            (_temporary if folder.name.startswith(_PREFIX) else _shared)[folder] = descriptor
            return True
    except OSError:
        pass
    os.close(descriptor)
    return False


def hand_over(folder: Path) -> None:
    """Hand a temporary directory over to another process, which must ``hold`` it while this one still lives."""
    if (descriptor := _temporary.pop(folder, None)) is not None:
        shared(descriptor)
        _shared[folder] = descriptor


def held_directories() -> frozenset[Path]:
    """The finished directories that this process holds."""
    return frozenset(_shared)


class Keeper:
    """Holds directories for as long as it lives.

    After its death they are released, and temporary ones removed, when the next keeper is created: that takes time, and
    objects can be collected on any thread. Directories still in use have another keeper.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        own = tuple(folders)
        with _counting:
            for folder in own:
                hold(folder)
            _keepers.update(own)
            while _gone:
                for folder in _gone.popleft():
                    _keepers[folder] -= 1
                    if not _keepers[folder]:
                        del _keepers[folder]
                        (remove if folder in _temporary else release)(folder)
        weakref.finalize(self, _gone.append, own).atexit = False


def release(folder: Path) -> None:
    """Release a directory held for reading."""
    if (descriptor := _shared.pop(folder, None)) is not None:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Remove one of this process's temporary directories now; it may be gone already."""
    descriptor = _temporary.pop(folder, None)
    if descriptor is not None and not LOCKS:  # Windows cannot remove a directory with an open file
        os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)
    if descriptor is not None and LOCKS:
        os.close(descriptor)


def remove_if_free(folder: Path) -> bool:
    """Remove a directory unless a process holds it; returns whether it was removed."""
    try:
        descriptor = os.open(folder / HOLD, os.O_RDWR | OWN)
    except OSError:
        return False  # being created right now, or not ours
    try:
        exclusive(descriptor, wait=False)
        if not LOCKS:
            os.close(descriptor)
            descriptor = -1
        # Renamed first, so that a concurrent reader finds nothing rather than half of it.
        going = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder.parent))
        try:
            os.rename(folder, going / "gone")
        finally:
            shutil.rmtree(going, ignore_errors=True)
    except OSError:
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return True


def is_held(folder: Path) -> bool:
    """Whether any process, including this one, may be using the directory; False if its lock file cannot be opened."""
    if folder in _shared or folder in _temporary:
        return True
    try:
        descriptor = os.open(folder / HOLD, os.O_RDWR | OWN)
    except OSError:
        return False
    try:
        exclusive(descriptor, wait=False)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_temporary(folder: Path) -> bool:
    """Whether the name is that of a temporary directory, which may still be being created."""
    return folder.name.startswith(_PREFIX)


def sweep(base: Path) -> None:
    """Remove the temporary directories left behind by killed processes."""
    with contextlib.suppress(OSError):
        folders = [Path(entry.path) for entry in os.scandir(base) if entry.name.startswith(_PREFIX)]
        for folder in folders:
            if folder not in _temporary and _is_ours(folder):
                remove_if_free(folder)


def _is_ours(folder: Path) -> bool:
    """Whether this user created the directory: in a shared /tmp, anyone can use our prefix."""
    state = os.lstat(folder)
    owned = not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
    # Without locks only the directory's age tells whether its owner may still be alive.
    return owned and stat.S_ISDIR(state.st_mode) and (LOCKS or time.time() - state.st_mtime > _OLD_SECONDS)


def remove_all() -> None:
    """Remove every temporary directory of this process."""
    if _owner[-1:] == [os.getpid()]:  # not in a forked child
        for folder in list(_temporary):
            remove(folder)


def clean_up_at_the_end() -> None:
    """Register the removal of temporary directories at exit and, if on the main thread, at SIGTERM and SIGHUP."""
    if not _owner:
        _owner.append(os.getpid())
        atexit.register(remove_all)
    if threading.current_thread() is threading.main_thread():
        for number in filter(None, (signal.SIGTERM, getattr(signal, "SIGHUP", None))):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    remove_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
