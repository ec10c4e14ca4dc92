"""Folders of the user's own, and files that are whole or not there: what the cache and compiled code are written with.

Cached tables are shown as if the trace had just been read, and compiled code is run. Both therefore come only from a
folder of mode 0700 that belongs to the user, where nobody else can write. A file is written under another name and
renamed, so no reader sees half of one; a checksum at its beginning shows what a power loss or a full disk cut off.

Windows has neither modes nor numeric owners. The user's folders are private there by their access lists.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:  # ``hashlib`` has it too, and loads all of OpenSSL with it, which takes longer than to scan a megabyte
    from _blake2 import blake2b
except ImportError:  # an interpreter that was built without hashes of its own
    from hashlib import blake2b

__all__ = ["blake2b", "discard", "is_private", "make", "replacing", "sealed", "unsealed", "write"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_CHECKSUM_BYTES = 32


def make(folder: Path) -> Path:
    """Create the folder with mode 0700, or set that mode. Raises OSError if it belongs to another user."""
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
    """Whether it is a folder, not a link, that belongs to the user and that nobody else has rights on."""
    try:
        state = folder.lstat()
    except OSError:
        return False
    owned = not hasattr(os, "geteuid") or (state.st_uid == os.geteuid() and not state.st_mode & _OTHERS)
    return stat.S_ISDIR(state.st_mode) and owned


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A name to write the file under, which is then renamed and replaces what was there. Raises OSError."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield unfinished
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def write(file: Path, data: bytes) -> None:
    """Write the file whole or not at all. Raises OSError."""
    with replacing(file) as unfinished:
        unfinished.write_bytes(data)


def discard(path: Path) -> None:
    """Remove a file or folder; what cannot be removed stays."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def sealed(data: bytes) -> bytes:
    """The data with its checksum before it."""
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest() + data


def unsealed(data: bytes) -> bytes:
    """The inverse of ``sealed``. Raises ValueError if the data was cut or changed."""
    checksum, rest = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if checksum != blake2b(rest, digest_size=_CHECKSUM_BYTES).digest():
        raise ValueError("the file is damaged")
    return rest
