"""Files that are written whole or not at all, and programs that are found in absolute folders only.

Every output of the package goes through ``replacing``: it is written under a dot name beside the target, flushed to the
disk and renamed over it, so that whoever reads the target finds the old content or the new one, whatever ends the
process. A writer holds a lock on its dot name; those that nobody holds were left by a killed process, and the next
writer in that folder removes them. Imports nothing of the package.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not POSIX: leftovers stay
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".warplens-", ".part"
_unfinished: set[str] = set()


def program(name: str) -> str | None:
    """The path of a program in one of the absolute folders of PATH; never one of the current directory."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders and not os.path.dirname(name) else None


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether it is a device, FIFO or socket, which is written straight and never replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def beside(target: str | os.PathLike[str]) -> str:
    """An unused dot name in the target's folder, for a file or folder that will be renamed."""
    folder = os.path.dirname(os.path.abspath(target))
    return next(name for number in range(1 << 20) if not os.path.lexists(
        name := os.path.join(folder, f"{PREFIX}{os.getpid()}-{number}{SUFFIX}")))


@contextmanager
def replacing(path: str | os.PathLike[str], fresh: bool = False) -> Iterator[IO[bytes]]:
    """A file to write in place of ``path``, which is replaced when the block ends and untouched if it raises.

    Links are followed, and the mode of the file that is replaced is kept. ``fresh``: FileExistsError if the name is
    taken by then. Raises OSError.
    """
    if is_stream(path):
        with open(path, "wb") as file:
            yield file
        return
    target = os.fspath(path) if fresh else os.path.realpath(path)
    sweep(os.path.dirname(os.path.abspath(target)))
    temporary = beside(target)
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    _unfinished.add(temporary)
    try:
        with open(descriptor, "wb") as file:
            _hold(descriptor)
            with suppress(OSError):
                os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
            try:
                yield file
                file.flush()
                os.fsync(descriptor)
                if fresh and os.path.lexists(target):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
                os.replace(temporary, target)
            except OSError as error:
                if error.filename in (None, temporary):
                    error.filename = os.fspath(path)
                raise
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        _unfinished.discard(temporary)


@contextmanager
def held(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a folder with a name of ``beside``, so that no other writer takes it for one that was left."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _hold(descriptor)
        yield
    finally:
        os.close(descriptor)


def write(path: str | os.PathLike[str], pieces: Iterable[bytes], fresh: bool = False) -> None:
    """Write the pieces as one file, in place of what is there."""
    with replacing(path, fresh) as file:
        file.writelines(pieces)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove files and folders that killed processes left unfinished in that folder."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as items:
        for item in items:
            if item.name.startswith(PREFIX) and item.name.endswith(SUFFIX):
                with suppress(OSError):
                    descriptor = os.open(item.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        if item.is_dir(follow_symlinks=False):
                            shutil.rmtree(item.path)
                        else:
                            os.unlink(item.path)
                    finally:
                        os.close(descriptor)


def drop_unfinished() -> None:
    """Remove what is half written: the process ends before its threads do."""
    for path in tuple(_unfinished):
        with suppress(OSError):
            os.unlink(path)


def _hold(descriptor: int) -> None:
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


_PAGES = (".md", ".svg")
"""Suffixes of outputs that are no recordings, so that last night's may lie in the folder of the run."""


def is_input(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> bool:
    """Whether writing the output would replace an input: the same file or folder by any name (links, spellings, hard
    links), or a file that is there already in a folder of the inputs."""
    parents = {str(folder) for folder in Path(os.path.realpath(output)).parents}
    in_place = os.path.isfile(output) and not os.fspath(output).endswith(_PAGES)
    for one in inputs:
        with suppress(OSError, ValueError):  # a query may be no file name at all
            if os.path.samefile(output, one) and not is_stream(output):
                return True
        if in_place and os.path.isdir(one) and os.path.realpath(one) in parents:
            return True
    return False
