"""What was found out about a trace, as files beside its tables, so that it is found out once.

Who called whom, who launched what and where the cycles are take longer to find than most answers that rest on them.
They follow from the tables alone, so they last as long as these: in a folder of the cache entry, written when a
question first needs them, gone when the entry goes. A file is believed only where nobody else can have written it and
its checksum holds; anything else is found out anew. Where there is no room, or no right to write, that is so each time.

What is large lies in parts: each is a plain Arrow file, and a list of them has their checksums. So neither writing nor
checking takes more memory than a part, and whoever looks at some rows decodes no others.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ... import private
from ...digest import blake2b
from ...trace import TABLE_NAMES, Trace

if TYPE_CHECKING:
    import polars as pl

PART_BYTES = 16 << 20
"""Bytes in memory of a part; what is smaller than one is a single file."""
_NAME = re.compile(r"[a-z0-9-]+")
_LIST = "-parts"


class DerivedFiles:
    """The files of one trace. Tables that were replaced since, as by a limit on some of the rows, are another's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: tuple[object, ...] = ()

    def bind(self, trace: Trace) -> Trace:
        """The trace with its files; only what has the very same tables is that trace."""
        from msgspec.structs import replace

        bound = replace(trace, derived_store=self)
        self._tables = _tables_of(bound)
        return bound

    def is_of(self, trace: Trace) -> bool:
        """Whether the trace is the one whose files these are."""
        return len(self._tables) == len(TABLE_NAMES) and all(
            table is other for table, other in zip(self._tables, _tables_of(trace), strict=True)
        )

    def read(self, name: str) -> pl.DataFrame | None:
        """The frame of that name; None where none is there that can be believed."""
        import polars as pl

        frame = self._single(name)
        if frame is not None:
            return frame
        rows = self.parts(name)
        try:
            return None if rows is None else pl.concat(rows).collect()
        except (OSError, pl.exceptions.PolarsError):
            return None

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Keep a frame under that name, where there is room for it."""
        parts = -(-int(frame.estimated_size()) // PART_BYTES)
        if parts > 1:
            self.write_parts(name, enumerate(frame.iter_slices(-(-frame.height // parts))))
            return
        self.write_bytes(name, _ipc(frame))

    def write_bytes(self, name: str, data: bytes) -> None:
        """The same of anything else."""
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            private.write(self._file(name), private.sealed(data))

    def read_bytes(self, name: str) -> bytes | None:
        """What ``write_bytes`` kept under that name; None where none is there that can be believed."""
        try:
            return private.unsealed(self._file(name).read_bytes())
        except (OSError, ValueError):
            return None

    def write_parts(self, name: str, frames: Iterable[tuple[int, pl.DataFrame]]) -> bool:
        """Keep a frame that comes in numbered parts, in any order; False where there is no room, and nothing is kept.

        Where all are kept, all were asked for: whoever makes them may rely on it.
        """
        import polars as pl

        written = list[tuple[int, str, bytes]]()
        try:
            self._folder.mkdir(exist_ok=True)
            for number, frame in frames:
                data = _ipc(frame)
                written.append((number, f"{name}-{number:05}", blake2b(data).digest()))
                private.write(self._file(written[-1][1]), data)
            rows = pl.DataFrame(sorted(written), schema=["number", "name", "checksum"], orient="row")
            private.write(self._file(name + _LIST), private.sealed(_ipc(rows)))
        except OSError:
            for _, file_name, _ in written:
                private.discard(self._file(file_name))
            return False
        return True

    def _single(self, name: str) -> pl.DataFrame | None:
        import polars as pl

        file = self._file(name)
        try:
            return pl.read_ipc(io.BytesIO(private.unsealed(file.read_bytes())))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pl.exceptions.PolarsError):
            private.discard(file)
            return None

    def parts(self, name: str) -> list[pl.LazyFrame] | None:
        """The parts of the frame of that name, left on disk; None where they cannot be believed, or it has none."""
        import polars as pl

        listing = self._single(name + _LIST)
        if listing is None:
            return None
        files = [self._file(file_name) for file_name in listing["name"]]
        try:
            checksums = [blake2b(file.read_bytes()).digest() for file in files]
            if checksums == listing["checksum"].to_list():
                return [pl.scan_ipc(file) for file in files]
        except OSError:
            pass
        for file in (self._file(name + _LIST), *files):
            private.discard(file)
        return None

    def only_last(self, beginning: str, count: int) -> None:
        """Of the files whose names begin so, leave the ``most`` that were written last."""
        with suppress(OSError):
            matches = [file for file in self._folder.iterdir() if file.name.startswith(beginning)]
            for file in sorted(matches, key=lambda file: file.stat().st_mtime_ns)[: max(0, len(matches) - count)]:
                private.discard(file)

    @property
    def identity(self) -> str:
        """The name of the cache entry and which of its traces: another state of the file has another name."""
        return f"{self._folder.parent.parent.name}-{self._folder.parent.name}"

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no file")
        return self._folder / name


def _ipc(frame: pl.DataFrame) -> bytes:
    room = io.BytesIO()
    frame.write_ipc(room, compression="lz4")
    return room.getvalue()


def _tables_of(trace: Trace) -> tuple[object, ...]:
    return tuple(getattr(trace, name) for name in TABLE_NAMES)
