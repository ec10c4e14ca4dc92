"""Private folders and atomic, checksummed writes, for the cache and compiled code.

Cached tables are trusted like a freshly read trace, and compiled code is executed. Both are therefore read only from a
folder of mode 0700 owned by the user, where nobody else can write. A file is written under a temporary name and
renamed, so no reader sees a partial file; a checksum at its start detects truncation by a power loss or a full disk.

Windows has neither modes nor numeric owners; the user's folders are private there through their access control lists.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:  # importing ``hashlib`` loads all of OpenSSL, which takes longer than scanning a megabyte
    from _blake2 import blake2b
except ImportError:  # an interpreter built without its own hash modules
    from hashlib import blake2b

__all__ = ["blake2b", "discard", "is_private", "make", "replacing", "sealed", "unsealed", "write"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_CHECKSUM_BYTES = 32


def make(folder: Path) -> Path:
    """Create the folder with mode 0700, or set that mode. Raises OSError, also if another user owns it."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True, mode=0o700)
    if hasattr(os, "geteuid"):
        state = folder.stat()
        if state.st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user")
        if state.st_mode & _OTHERS:
            folder.chmod(0o700)
    return folder


def is_private(folder: Path) -> bool:
    """Whether it is a real folder (no symlink) owned by the user, with no permissions for anyone else."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    owned = not hasattr(os, "geteuid") or (state.st_uid == os.geteuid() and not state.st_mode & _OTHERS)
    return stat.S_ISDIR(state.st_mode) and owned


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yields a temporary path to write to; it then replaces ``file`` atomically. Raises OSError."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield unfinished
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def write(file: Path, data: bytes) -> None:
    """Write the file atomically. Raises OSError."""
    with replacing(file) as unfinished:
        unfinished.write_bytes(data)


def discard(path: Path) -> None:
    """Remove a file or folder, ignoring errors."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def sealed(data: bytes) -> bytes:
    """The data with its checksum prepended."""
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest() + data


def unsealed(data: bytes) -> bytes:
    """The inverse of ``sealed``. Raises ValueError if the data was truncated or modified."""
    checksum, rest = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if checksum != blake2b(rest, digest_size=_CHECKSUM_BYTES).digest():
        raise ValueError("the file is damaged")
    return rest
