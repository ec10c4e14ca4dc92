"""Turns the user's argument into regular files: checks path and permissions, copies streams, unpacks archives.

Nothing here blocks forever: a FIFO without a writer, a socket and a device are refused. A stream is first copied to a
temporary file, so that every loader gets a seekable file. A .tar, .tar.gz or .zip is read like the folder it contains:
its regular files are unpacked into a temporary folder. Archives are untrusted: links, devices and paths outside the
target folder are skipped with a warning, and the unpacked size and number of files are bounded.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from ..errors import Unreadable
from . import limits, stream
from .decoders import COMPRESSED

_CHUNK = 1 << 20


def regular(name: str, spool: Callable[[], Path], progress: Callable[[int, int, int], None]) -> Path:
    """The file or directory to read for ``name``; a stream is first copied into ``spool()``. Raises Unreadable."""
    if name == "-":
        return _standard_input(spool, progress)
    path = Path(name).expanduser()
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        broken = path.is_symlink()
        reason = "is a link to a file that does not exist" if broken else "no such file or directory"
        raise Unreadable(name, reason, "Check the name; `warplens` alone lists what is here.") from None
    except PermissionError:
        raise Unreadable(name, "cannot be read (permission denied)", _RIGHTS) from None
    except (OSError, ValueError) as error:
        raise Unreadable(name, _clause(error), "Check the name.") from None
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        if not os.access(path, os.R_OK):
            raise Unreadable(name, "cannot be read (permission denied)", _RIGHTS)
        return path
    if stat.S_ISFIFO(mode):
        return _fifo(name, path, spool, progress)
    kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise Unreadable(name, f"is {kind}, not a file", "Give a file, a directory, or `-` to read standard input.")


_PIPE = "Pipe a trace into it: `zcat trace.json.gz | warplens -`."
_RIGHTS = "Ask for read permission, or copy it to a folder you can read."


def _clause(error: OSError | ValueError) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return f"cannot be opened ({text.lower()})"


def _standard_input(spool: Callable[[], Path], progress: Callable[[int, int, int], None]) -> Path:
    try:
        descriptor = sys.stdin.fileno() if sys.stdin is not None else -1
        if descriptor < 0:
            raise ValueError
        terminal = os.isatty(descriptor)
    except (OSError, ValueError):
        raise Unreadable("standard input", "is closed", _PIPE) from None
    if terminal:
        raise Unreadable(
            "standard input", "is the terminal, not a trace", _PIPE
        )
    return _copy(descriptor, "standard input", spool, progress)


def _fifo(name: str, path: Path, spool: Callable[[], Path], progress: Callable[[int, int, int], None]) -> Path:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(name, _clause(error), _RIGHTS) from None
    try:
        return _copy(descriptor, name, spool, progress)
    finally:
        os.close(descriptor)


def _copy(
    descriptor: int, name: str, spool: Callable[[], Path], progress: Callable[[int, int, int], None]
) -> Path:
    target = spool()
    copied_bytes = 0
    with open(target, "wb") as out:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:  # a writer has it open but has not written anything yet
                select.select([descriptor], [], [], 0.25)
                progress(copied_bytes, 0, 0)
                continue
            if not data:
                break
            out.write(data)
            copied_bytes += len(data)
            progress(copied_bytes, 0, 0)
    if copied_bytes == 0:
        if name == "standard input":
            raise Unreadable(name, "is empty", _PIPE)
        raise Unreadable(name, "is a FIFO nobody writes to", "Start the writer first, or pipe into `warplens -`.")
    return target


MOST_FILES = 20_000
MOST_DAMAGED = 16  # Maximum damaged entries that are named.
Open = Callable[[], IO[bytes] | None]
_PADDING = 1 << 20
_TAR, _ZIP = b"ustar", b"PK\x03\x04"


def is_archive(path: Path) -> bool:
    """Whether the file is a zip, or a tar, compressed or not."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
        if start.startswith(_ZIP):
            return True
        if start[257:262] == _TAR:
            return True
        return start.startswith(COMPRESSED) and stream.head(path, 512)[257:262] == _TAR
    except (OSError, EOFError, zlib.error):
        return False


def unpack(display_name: str, path: Path, target: Path, progress: Callable[[int, int, int], None]) -> list[str]:
    """Unpack an archive into ``target``; returns a sentence for each fault and each skipped entry.

    Damaged entries are skipped. Raises Unreadable if no entry is readable or the archive is too large.
    """
    from tarfile import TarError
    from zipfile import BadZipFile

    broken = TarError, BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError
    size = path.stat().st_size
    room = max(limits.UNCOUNTED_BYTES, limits.limit("unfolded") * size)
    bytes_written = count = 0
    left_out, faults, damaged = list[str](), list[str](), list[str]()
    try:
        for name, open_member, checksum in _members(path, left_out, faults):
            if count == MOST_FILES:
                raise Unreadable(display_name, f"holds more than {MOST_FILES:,} files", "Unpack it first.")
            destination = target / name
            destination.parent.mkdir(parents=True, exist_ok=True)
            computed = 0
            try:
                with cast(IO[bytes], open_member()) as member, destination.open("wb") as out:
                    while data := member.read(_CHUNK):
                        bytes_written += len(data)
                        if bytes_written > room:
                            raise limits.Exceeded("unfolded", "unpacks to more than any recording")
                        out.write(data)
                        computed = computed if checksum is None else zlib.crc32(data, computed)
                        progress(bytes_written, 0, 0)
                count += 1
                if checksum is not None and computed != checksum:
                    damaged.append(f"the checksum of {name} is wrong: it was read in full, but values may be wrong")
            except broken as error:
                destination.unlink(missing_ok=True)
                damaged.append(f"{name} was left out: it is damaged ({error})")
    except limits.Exceeded as error:
        raise error.unreadable(display_name) from None
    except broken as error:
        damaged.append(f"the rest of the archive is damaged ({error})")
    damaged = ["".join(char if char.isprintable() else "?" for char in line) for line in damaged]  # untrusted names
    if not count and damaged:
        raise Unreadable(display_name, f"is a damaged archive: {damaged[0]}", "Copy it again, or unpack it.")
    if not count:
        raise Unreadable(display_name, "is an archive without files", "Give one that holds traces.")
    warnings = [f"{display_name}: {fault}" for fault in (*faults, *damaged[:MOST_DAMAGED])]
    reason = "was left out: it is a link, or its path leads outside the archive"
    return warnings + [f"{display_name}/{name} {reason}" for name in left_out]


def _members(path: Path, left_out: list[str], faults: list[str]) -> Iterator[tuple[Path, Open, int | None]]:
    """For each regular file of the archive: a path that stays inside the target folder, a function to open it, and its
    checksum if the archive stores one per file."""
    import tarfile
    import zipfile

    def place(entry: str, regular: bool = True) -> Path | None:
        name = _inside(entry) if regular else None
        if name is None and not _is_hidden(entry) and len(left_out) < MOST_FILES:
            left_out.append(entry)
        return name

    if zipfile.is_zipfile(path) and not tarfile.is_tarfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.filename.endswith("/") and (name := place(entry.filename)) is not None:
                    checksum, entry.CRC = entry.CRC, cast(Any, None)  # zipfile drops the end of data on a mismatch
                    yield name, partial(archive.open, entry), checksum
        return
    with stream.Source(path) as source, tarfile.open(fileobj=cast(Any, _Readable(source)), mode="r|") as packed:
        for packed_member in packed:
            if packed_member.isdir() or (name := place(packed_member.name, packed_member.isreg())) is None:
                continue
            yield name, partial(packed.extractfile, packed_member), None
        source.skip(_PADDING)  # past the last file, up to the checksum
        faults += [source.fault] if source.fault else []


class _Readable:
    """A Source as the file object that ``tarfile`` needs."""

    def __init__(self, source: stream.Source) -> None:
        self._source = source

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        return bytes(self._source.read(size))


def _inside(name: str) -> Path | None:
    """The name as a relative path inside the folder; None if it leads outside, is hidden, or is too long or deep."""
    parts = [step for step in PurePosixPath(name.replace("\\", "/")).parts if step != "."]
    if not parts or ".." in parts or parts[0].startswith("/") or parts[0][1:2] == ":" or "\0" in name:
        return None
    if _is_hidden(name) or any(len(os.fsencode(step)) > 200 for step in parts) or len(parts) > 16:
        return None
    return Path(*parts)


def _is_hidden(name: str) -> bool:
    """Whether the file or one of its folders is hidden, as are files that operating systems add."""
    return any(step.startswith(".") and step not in (".", "..") for step in name.replace("\\", "/").split("/"))
