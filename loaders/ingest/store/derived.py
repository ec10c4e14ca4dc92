"""What was found out about a trace, as files beside its tables, so that it is found out once.

Who called whom, who launched what and where the cycles are take longer to find than most answers that rest on them.
They follow from the tables alone, so they last as long as these: in a folder of the cache entry, written when a
question first needs them, gone when the entry goes. A file is believed only where nobody else can have written it and
its checksum holds; anything else is found out anew. Where there is no room, or no right to write, that is so each time.
"""

from __future__ import annotations

import io
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...trace import TABLE_NAMES, Trace
from .. import private

if TYPE_CHECKING:
    import polars as pl

MOST_BYTES = 256 << 20
"""What is larger is not kept: it is written and checked in one piece."""
_NAME = re.compile(r"[a-z0-9-]+")


class DerivedFiles:
    """The files of one trace. Tables that were replaced since, as by a limit on some of the rows, are another's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: tuple[object, ...] = ()

    def bind(self, trace: Trace) -> Trace:
        """The trace with its files; only what has the very same tables is that trace."""
        from msgspec.structs import replace

        made = replace(trace, derived_store=self)
        self._tables = _tables_of(made)
        return made

    def is_of(self, trace: Trace) -> bool:
        """Whether the trace is the one whose files these are."""
        return len(self._tables) == len(TABLE_NAMES) and all(
            mine is its for mine, its in zip(self._tables, _tables_of(trace), strict=True)
        )

    def read(self, name: str) -> pl.DataFrame | None:
        """The frame of that name; None where none is there that can be believed."""
        import polars as pl

        try:
            data = private.unsealed(private.read(self._file(name), MOST_BYTES))
            return pl.read_ipc(io.BytesIO(data))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, pl.exceptions.PolarsError):
            private.discard(self._file(name))
            return None

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Keep a frame under that name, where there is room for it."""
        if frame.estimated_size() > MOST_BYTES:
            return
        room = io.BytesIO()
        frame.write_ipc(room, compression="lz4")
        with suppress(OSError):
            private.make(self._folder)
            private.write(self._file(name), private.sealed(room.getvalue()))

    def only_last(self, beginning: str, most: int) -> None:
        """Of the files whose names begin so, leave the ``most`` that were written last."""
        with suppress(OSError):
            named = [file for file in self._folder.iterdir() if file.name.startswith(beginning)]
            for file in sorted(named, key=lambda file: file.stat().st_mtime_ns)[: max(0, len(named) - most)]:
                private.discard(file)

    @property
    def identity(self) -> str:
        """The name of the cache entry and which of its traces: another state of the file has another name."""
        return f"{self._folder.parent.parent.name}-{self._folder.parent.name}"

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no file")
        return self._folder / name


def _tables_of(trace: Trace) -> tuple[object, ...]:
    return tuple(getattr(trace, name) for name in TABLE_NAMES)
