"""Directories that belong to running processes: temporary ones that do not outlive them, and held cache entries.

Each directory has a file ``.held`` on which its users keep a lock: exclusive while it is being written or is
temporary, shared while a finished one is read. The kernel drops the lock with the process, however it ends. So a
temporary directory goes at exit and at SIGTERM and SIGHUP; one whose owner was killed outright is found unlocked by the
next process and goes then; and nothing that somebody still reads is ever removed. Where there are no locks (Windows)
a directory with an open file in it cannot be renamed or removed, which keeps what is in use just as well.
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
"""How a file to be locked is opened: not for children, not through a link, never waiting for a FIFO's other end."""
_PREFIX = f"warplens-{os.getuid() if hasattr(os, 'getuid') else os.environ.get('USERNAME', '')}-"
HOLD = ".held"  # The file in each directory on which its users keep their lock.
_OLD_SECONDS = 86_400
_OTHER_FILES = 512  # Open files a process may need beside the directories it holds.
_temporary: dict[Path, int] = {}
_shared: dict[Path, int] = {}
_swept: set[Path] = set()
_keepers = Counter[Path]()
_gone = deque[tuple[Path, ...]]()  # what keepers that are no more had
_counting = threading.Lock()
_owner: list[int] = []


def exclusive(descriptor: int, wait: bool = True) -> None:
    """Take the file for this process alone. Raises OSError where another has it and ``wait`` is false."""
    if LOCKS:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def shared(descriptor: int, wait: bool = True) -> None:
    """Take the file together with others. Raises OSError where one has it alone and ``wait`` is false."""
    if LOCKS:
        fcntl.flock(descriptor, fcntl.LOCK_SH | (0 if wait else fcntl.LOCK_NB))


def place() -> Path:
    """Where temporary directories are made unless another place is asked for."""
    return Path(tempfile.gettempdir())


def directory(parent: Path | None = None) -> Path:
    """A new private directory, removed when this process ends. Raises OSError where none can be made."""
    base = parent or place()
    if base not in _swept:  # a process that opens a hundred recordings need not look at all that others hold each time
        _swept.add(base)
        sweep(base)
    clean_up_at_the_end()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        descriptor = os.open(folder / HOLD, os.O_RDWR | os.O_CREAT | OWN, 0o600)
        exclusive(descriptor)
        if folder.is_dir():  # else a sweep of another process came between the two lines above
            _temporary[folder] = descriptor
            return folder
        os.close(descriptor)


def keep(folder: Path, target: Path) -> bool:
    """Give a finished temporary directory its lasting name, held for reading; false where that name is taken."""
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
    """Let this process hold so many directories: each is an open file, and many systems allow 1,024 unless asked."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = directories + _OTHER_FILES
        if soft != resource.RLIM_INFINITY and soft < needed:
            new_limit = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, new_limit), hard))


def hold(folder: Path) -> bool:
    """Keep a finished directory from being removed while this process lives; false where it is gone or going.

    A temporary one that its maker handed over becomes this process's to remove.
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
    """Leave a temporary directory to another process, which takes it with ``hold`` while this one still lives."""
    if (descriptor := _temporary.pop(folder, None)) is not None:
        shared(descriptor)
        _shared[folder] = descriptor


def held() -> frozenset[Path]:
    """The finished directories this process holds."""
    return frozenset(_shared)


class Keeper:
    """Holds directories for as long as it lives.

    They are let go of, and temporary ones removed, when the next keeper is made: that takes time, and an object may die
    in any thread. What is still read has another keeper.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        mine = tuple(folders)
        with _counting:
            for folder in mine:
                hold(folder)
            _keepers.update(mine)
            while _gone:
                for folder in _gone.popleft():
                    _keepers[folder] -= 1
                    if not _keepers[folder]:
                        del _keepers[folder]
                        (remove if folder in _temporary else release)(folder)
        weakref.finalize(self, _gone.append, mine).atexit = False


def release(folder: Path) -> None:
    """Let go of a directory that was held for reading."""
    if (descriptor := _shared.pop(folder, None)) is not None:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """Remove one of this process's temporary directories now; one that is gone is no error."""
    descriptor = _temporary.pop(folder, None)
    if descriptor is not None and not LOCKS:  # an open file keeps its directory
        os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)
    if descriptor is not None and LOCKS:
        os.close(descriptor)


def remove_if_free(folder: Path) -> bool:
    """Remove a directory unless a process holds it."""
    try:
        descriptor = os.open(folder / HOLD, os.O_RDWR | OWN)
    except OSError:
        return False  # being made this moment, or not ours
    try:
        exclusive(descriptor, wait=False)
        if not LOCKS:
            os.close(descriptor)
            descriptor = -1
        # Renamed first: a reader that comes now finds nothing rather than half of it.
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
    """Whether some process, this one among them, may be using the directory; one without a proper lock nobody uses."""
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
    """Whether a directory's name is that of a temporary one, which may be in the making."""
    return folder.name.startswith(_PREFIX)


def sweep(base: Path) -> None:
    """Remove the temporary directories of processes that were killed before they could."""
    with contextlib.suppress(OSError):
        folders = [Path(entry.path) for entry in os.scandir(base) if entry.name.startswith(_PREFIX)]
        for folder in folders:
            if folder not in _temporary and _is_ours(folder):
                remove_if_free(folder)


def _is_ours(folder: Path) -> bool:
    """Whether it is a directory that we made: in a folder for everybody, anybody may use our names."""
    state = os.lstat(folder)
    owned = not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
    # Without locks a living process is told by the age of what it left only.
    return owned and stat.S_ISDIR(state.st_mode) and (LOCKS or time.time() - state.st_mtime > _OLD_SECONDS)


def remove_all() -> None:
    """Remove every temporary directory of this process."""
    if _owner[-1:] == [os.getpid()]:  # not in a fork of it
        for folder in list(_temporary):
            remove(folder)


def clean_up_at_the_end() -> None:
    """Have temporary directories removed at exit and, called from the main thread, at SIGTERM and SIGHUP."""
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
