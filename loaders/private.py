"""Folders and files that nobody but the user can have written, for what is believed or run without another look.

Compiled code is run, and cached tables are shown as if the trace had just been read. Both are therefore taken only from
folders that belong to the user with mode 0700 and from regular files that nobody else may write. Modes are set, not
asked for: under umask 002 a plain ``mkdir`` leaves a folder that the whole group may write to. Owner and mode are those
of the opened file or folder, never of a name that may mean another one a moment later. Nothing here waits: a FIFO in
place of a file is refused like any other thing that is no file.

Windows has neither these modes nor owners by number; the user's own folders are private there by their access lists,
and only the kind of file is checked.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from .digest import blake2b

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_POSIX = hasattr(os, "geteuid")
_CHECKSUM_BYTES = 32


class NotOurs(OSError):
    """A folder or file that somebody else may have written, or that is no folder or file at all."""


def make(folder: Path) -> Path:
    """The folder, made or mended to be the user's own with mode 0700. Raises OSError where it is somebody else's."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True, mode=0o700)
    _folder(folder, mend=True)
    return folder


def is_private(folder: Path) -> bool:
    """Whether the folder is there, is no link, and is the user's own with nobody else's rights on it."""
    try:
        _folder(folder)
    except OSError:
        return False
    return True


def _folder(folder: Path, mend: bool = False) -> None:
    if not _POSIX:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise NotOurs(f"{folder} is not a folder")
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _PLAIN)
    try:
        state = os.fstat(descriptor)
        if state.st_uid != os.geteuid():
            raise NotOurs(f"{folder} belongs to somebody else")
        if state.st_mode & _OTHERS:
            if not mend:
                raise NotOurs(f"{folder} is open to others")
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def open_file(file: Path) -> int:
    """A descriptor of a regular file that only the user can have written. Raises OSError, never waits."""
    descriptor = os.open(file, os.O_RDONLY | _PLAIN | _BINARY)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise NotOurs(f"{file} is not a file")
        if _POSIX and (state.st_uid != os.geteuid() or state.st_mode & _OTHERS_WRITE):
            raise NotOurs(f"{file} can have been written by somebody else")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(file: Path, most: int) -> bytes:
    """What a private file holds, at most so many bytes. Raises OSError where it is none of the user's, or longer."""
    with open(open_file(file), "rb") as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise NotOurs(f"{file} is longer than anything written here")
    return data


def read_installed(file: Path, most: int) -> bytes:
    """What a file of an installed package holds, which the administrator may have installed. Raises OSError.

    Neither file nor folder may be writable by others than who owns them, and that is the user or the administrator.
    """
    with open(os.open(file, os.O_RDONLY | _PLAIN | _BINARY), "rb") as opened:
        for state, is_kind in ((os.fstat(opened.fileno()), stat.S_ISREG), (os.lstat(file.parent), stat.S_ISDIR)):
            if not is_kind(state.st_mode):
                raise NotOurs(f"{file} is not a file in a folder")
            if _POSIX and (state.st_uid not in (0, os.geteuid()) or state.st_mode & _OTHERS_WRITE):
                raise NotOurs(f"{file} can have been written by somebody else")
        data = opened.read(most + 1)
    if len(data) > most:
        raise NotOurs(f"{file} is longer than anything installed")
    return data


def write(file: Path, data: bytes) -> None:
    """Put a file of mode 0600 in place at once, whatever stood there. Raises OSError."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    discard(part)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN | _BINARY, 0o600)
    with open(descriptor, "wb") as opened:
        close_to_others(descriptor)
        opened.write(data)
    if file.is_dir() and not file.is_symlink():
        discard(file)
    os.replace(part, file)


def close_to_others(descriptor: int) -> None:
    """Set the mode of an opened file or folder to the user's own reading and writing, whatever the umask left."""
    if _POSIX:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        os.fchmod(descriptor, 0o700 if folder else 0o600)


def discard(path: Path) -> None:
    """Remove a file, link, FIFO or folder; what cannot be removed stays."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def sealed(data: bytes) -> bytes:
    """The data behind a checksum of it."""
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest() + data


def unsealed(data: bytes) -> bytes:
    """The inverse of ``sealed``. Raises ValueError where the data was cut or altered."""
    checksum, rest = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if checksum != blake2b(rest, digest_size=_CHECKSUM_BYTES).digest():
        raise ValueError("the file is damaged")
    return rest


def checksum(file: Path) -> bytes:
    """The checksum of what a private file holds, read a megabyte at a time. Raises OSError where it is none of ours."""
    found = blake2b()
    with open(open_file(file), "rb", buffering=0) as opened:
        while data := opened.read(1 << 20):
            found.update(data)
    return found.digest()
