"""What every way to a recording has in common: what is wanted, what came of it, and when a file is done."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Protocol

from msgspec import Struct, field

_QUIET = 0.2
"""Seconds without growth after which a file that ends like a document is taken for done."""
_QUIET_ODD = 2.0
"""The same for one that no JSON reader accepts: the loader says what is wrong with it."""
_END = 64
_FEW = 1 << 16
"""Bytes of a file that may hold no event at all."""


class Stopped(Exception):
    """Whoever wanted the recording has gone."""


class Ask(Struct, frozen=True):
    """What is wanted. ``out``: the folder for the files; ``cycles`` None: ``ms`` instead; ``after``: s from a process's
    first sign of life; ``timeout``: s without any progress."""

    out: Path
    ms: int
    cycles: int | None
    after: float
    stack: bool
    timeout: float


class Result(Struct):
    """What came of it: whole files, how many processes were asked, and why one of them wrote nothing."""

    files: list[Path] = field(default_factory=list)
    asked: int = 0
    reason: str = ""
    seconds: float = 0.0

    @property
    def path(self) -> Path:
        """What opens as the run: the file, or the folder of several."""
        return self.files[0] if len(self.files) == 1 else self.files[0].parent


class Road(Protocol):
    """One way to a job."""

    dropped: int
    stopping: Event

    def record(self, ask: Ask) -> Result:
        """Record once; blocks. Raises Failure where it cannot even be tried, Stopped."""
        ...

    def idle(self, seconds: float) -> None:
        """Wait that long, or until the job has ended."""
        ...

    @property
    def over(self) -> str:
        """Why nothing more can be recorded; empty while it can."""
        ...

    @property
    def exit_status(self) -> int | None:
        """With which status the command ended; None if it runs, or is not ours."""
        ...

    def close(self) -> None:
        """Leave the job alone, and take away what it was asked with."""
        ...


def new_stem(folder: Path) -> str:
    """A name for the files of one recording that nothing in the folder begins with."""
    base = stem = time.strftime("run-%Y%m%d-%H%M%S")
    number = 1
    while any(folder.glob(f"{stem}[._]*")) or (folder / stem).exists():
        number += 1
        stem = f"{base}-{number}"
    return stem


class Arrival:
    """A file that somebody writes, under one of several names."""

    def __init__(self, names: Sequence[Path], since: float = 0.0) -> None:
        """``since``: what was written before this time (s since 1970) is not it."""
        self._names, self._since = names, since
        self._size, self._seen_at, self._judged, self._is_whole = -1, 0.0, -1, False
        self.path: Path | None = None

    @property
    def size(self) -> int:
        """Bytes it had when it was looked at, or what libkineto has written to the name it is renamed from."""
        part = self.part
        try:
            return max(0, self._size) if part is None or part == self.path else part.lstat().st_size
        except OSError:
            return 0

    @property
    def part(self) -> Path | None:
        """The file as far as it is written; None before there is one."""
        unfinished = (name.with_name(f"{name.name}.tmp") for name in self._names)
        return self.path or next((one for one in unfinished if one.is_file()), None)

    @property
    def is_empty(self) -> bool:
        """Whether no event with a duration is in it."""
        if self.path is None or self._size > _FEW:
            return False
        with contextlib.suppress(OSError):
            return re.search(rb'"ph":\s*"[XB]"', self.path.read_bytes()) is None
        return False

    def is_quiet(self, now: float) -> bool:
        """Whether it has not grown for a while."""
        return self.path is not None and now - self._seen_at > _QUIET_ODD

    def look(self, now: float, is_closed: bool = False) -> bool:
        """Whether it is whole and stays as it is; ``is_closed``: nobody can be writing it any more."""
        for name in self._names:
            with contextlib.suppress(OSError):
                state = name.lstat()
                if not os.path.isfile(name) or os.path.islink(name) or state.st_mtime < self._since:
                    continue
                self.path = name
                if state.st_size != self._size:
                    self._size, self._seen_at = state.st_size, now
                break
        quiet = now - self._seen_at
        if self.path is None or self._size <= 0 or (quiet < _QUIET and not is_closed):
            return False
        if self._judged != self._size:
            self._judged, self._is_whole = self._size, is_whole(self.path)
        return self._is_whole or (quiet >= _QUIET_ODD and not is_closed and _ends(self.path))


def is_whole(path: Path) -> bool:
    """Whether the file is a whole JSON document, or a whole gzip stream."""
    import msgspec

    try:
        if path.suffix == ".gz":
            return _is_whole_gzip(path)
        if not _ends(path):
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            with memoryview(data) as text:
                msgspec.json.decode(text, type=msgspec.Raw)
            return True
    except (OSError, ValueError, msgspec.DecodeError):
        return False


def _is_whole_gzip(path: Path) -> bool:
    import zlib

    from isal import igzip

    try:
        with igzip.open(path, "rb") as file:
            while file.read(1 << 20):
                pass
        return True
    except (EOFError, zlib.error, igzip.BadGzipFile):
        return False


def _ends(path: Path) -> bool:
    """Whether its last character closes a document."""
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
        return file.read().rstrip().endswith((b"}", b"]"))


def disk_is_full(folder: Path) -> bool:
    """Whether nothing more can be written there."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < 1 << 16
