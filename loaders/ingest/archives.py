"""Archives of recordings: a .tar, .tar.gz or .zip is read as the folder it was made of.

Its regular files are unpacked beside the tables, into a folder that is removed when all is read. An archive is hostile
like any input: links, devices and files outside its folder are passed over, and what it may unfold to, and into how
many files, is bounded.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from ..errors import Unreadable
from . import limits, stream

MOST_FILES = 20_000
_CHUNK = 1 << 20
_TAR, _ZIP = b"ustar", b"PK\x03\x04"
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def is_archive(path: Path) -> bool:
    """Whether the file is a zip, or a tar, compressed or not."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
        if start.startswith(_ZIP):
            return True
        if start[257:262] == _TAR:
            return True
        return start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")) and stream.head(path, 512)[257:262] == _TAR
    except (OSError, EOFError, zlib.error):
        return False


def unpack(shown: str, path: Path, target: Path, progress: Callable[[int, int, int], None]) -> Path:
    """Its files in ``target``, which is returned. Raises Unreadable where it is damaged or unfolds beyond limits."""
    size = path.stat().st_size
    room = max(limits.UNCOUNTED_BYTES, limits.limit("unfolded") * size)
    done = count = 0
    try:
        for name, member in _members(path):
            count += 1
            if count > MOST_FILES:
                raise Unreadable(shown, f"holds more than {MOST_FILES:,} files", "Unpack what you want to see.")
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as out:
                while data := member.read(_CHUNK):
                    done += len(data)
                    if done > room:
                        raise limits.Exceeded("unfolded", "it unfolds to more than any recording")
                    out.write(data)
                    progress(done, 0, 0)
    except limits.Exceeded as error:
        raise error.unreadable(shown) from None
    except _BROKEN as error:
        raise Unreadable(shown, f"is a damaged archive ({error})", "Copy it again, or unpack it.") from None
    if not count:
        raise Unreadable(shown, "is an archive without files", "Give one that holds traces.")
    return target


def _members(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Each regular file of the archive, under a name that stays inside the folder it is unpacked to."""
    if zipfile.is_zipfile(path) and not tarfile.is_tarfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                name = _inside(entry.filename)
                if name is not None and not entry.is_dir():
                    with archive.open(entry) as member:
                        yield name, member
        return
    with stream.Source(path) as source, tarfile.open(fileobj=cast(Any, _Readable(source)), mode="r|") as packed:
        for found in packed:
            name = _inside(found.name)
            content = packed.extractfile(found) if found.isreg() and name is not None else None
            if content is not None and name is not None:
                yield name, content


class _Readable:
    """A source as the stream ``tarfile`` wants."""

    def __init__(self, source: stream.Source) -> None:
        self._source = source

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        return bytes(self._source.read(size))


def _inside(name: str) -> Path | None:
    """The name as a path below the folder; None for one that leads out of it or is hidden."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part != "."]
    if not parts or ".." in parts or parts[0].startswith("/") or ":" in parts[0] or "\0" in name:
        return None
    if any(part.startswith(".") or len(os.fsencode(part)) > 200 for part in parts) or len(parts) > 16:
        return None
    return Path(*parts)
