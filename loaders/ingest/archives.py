"""Archives of recordings: a .tar, .tar.gz or .zip is read as the folder it was made of.

Its regular files are unpacked beside the tables, into a folder that is removed when all is read. An archive is hostile
like any input: links, devices and files outside its folder are left out, which is said, and what it may unfold to, and
into how many files, is bounded.
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
_PADDING = 1 << 20
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


def unpack(shown: str, path: Path, target: Path, progress: Callable[[int, int, int], None]) -> list[str]:
    """Put its files into ``target``; a sentence for what is wrong with it and for each entry left out.

    Raises Unreadable: damaged, too large.
    """
    size = path.stat().st_size
    room = max(limits.UNCOUNTED_BYTES, limits.limit("unfolded") * size)
    done = count = 0
    left_out, faults = list[str](), list[str]()
    try:
        for name, member in _members(path, left_out, faults):
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
    said = [f"{shown}: {fault}" for fault in faults]
    return said + [f"{shown}/{name} was left out: it is a link, or would lie outside the archive" for name in left_out]


def _members(path: Path, left_out: list[str], faults: list[str]) -> Iterator[tuple[Path, IO[bytes]]]:
    """Each regular file of the archive, under a name that stays inside the folder it is unpacked to."""
    def place(entry: str, regular: bool = True) -> Path | None:
        name = _inside(entry) if regular else None
        if name is None and not _is_hidden(entry) and len(left_out) < MOST_FILES:
            left_out.append(entry)
        return name

    if zipfile.is_zipfile(path) and not tarfile.is_tarfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.filename.endswith("/") and (name := place(entry.filename)) is not None:
                    with archive.open(entry) as member:
                        yield name, member
        return
    with stream.Source(path) as source, tarfile.open(fileobj=cast(Any, _Readable(source)), mode="r|") as packed:
        for found in packed:
            if found.isdir() or (name := place(found.name, found.isreg())) is None:
                continue
            if (content := packed.extractfile(found)) is not None:
                yield name, content
        source.skip(_PADDING)  # behind the last file; the checksum is there
        faults += [source.fault] if source.fault else []


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
    if not parts or ".." in parts or parts[0].startswith("/") or parts[0][1:2] == ":" or "\0" in name:
        return None
    if _is_hidden(name) or any(len(os.fsencode(part)) > 200 for part in parts) or len(parts) > 16:
        return None
    return Path(*parts)


def _is_hidden(name: str) -> bool:
    """Whether it lies in a hidden folder, or is hidden: what a system keeps for itself beside somebody's files."""
    return any(part.startswith(".") and part not in (".", "..") for part in name.replace("\\", "/").split("/"))
