"""The rows of one table on their way: in memory, then in files of the workspace, each of which is written once.

A file is written before the whole recording was seen, so with what is known by then: the earliest time, who launched
kernels, the rank. Recorders say these things early. Where one of them turns out otherwise the table is written again.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .basis import Basis
from .chunk import Chunk
from .texts import Texts

if TYPE_CHECKING:
    import polars as pl

    from .frames import Frames

SPILL_BYTES = 24 << 20
"""Rows of one table kept in memory before they go to a file."""
_PART_BYTES = 12 << 20
"""And once they do, and in one file: a part is in memory twice while it is written."""
_BATCH = 1 << 16
"""Rows a reader of the files has to take at once."""


class Spool:
    """Collects rows. Frames, and polars with them, are imported when the first ones are needed, not to begin with."""

    def __init__(self, table: str, workspace: Path, texts: Texts) -> None:
        self.table, self.workspace = table, workspace
        self.rows = 0
        self._texts = texts
        self._chunks: list[Chunk] = []
        self._bytes = 0
        self._files: list[tuple[Path, Basis]] = []
        self._written = 0
        self._room = SPILL_BYTES

    @cached_property
    def frames(self) -> Frames:
        """What makes frames of the rows."""
        from .frames import Frames

        return Frames(self.table, self._texts)

    def add(self, rows: Chunk) -> None:
        """Append rows."""
        self.rows += rows.rows
        self._chunks.append(rows)
        self._bytes += rows.bytes

    @property
    def full(self) -> bool:
        """Whether it is time to ``spill``."""
        return self._bytes > self._room

    def spill(self, basis: Basis) -> None:
        """Write the rows in memory as rows of the table."""
        waiting, self._chunks, self._bytes = self._chunks[::-1], [], 0
        while waiting:
            part = [waiting.pop()]
            size = part[0].bytes
            while waiting and (size := size + waiting[-1].bytes) < _PART_BYTES:
                part.append(waiting.pop())
            self._write(part, self.workspace / f"{self.table}-{len(self._files):05}.arrow", basis)
        self._room = min(_PART_BYTES, SPILL_BYTES)

    def _write(self, part: list[Chunk], path: Path, basis: Basis) -> None:
        rows = self.frames.frame(part, basis, self._written)
        rows.write_ipc(path, compression="lz4", record_batch_size=_BATCH)
        self._files.append((path, basis))
        self._written += rows.height

    def preview(self, basis: Basis, limit: int) -> pl.LazyFrame:
        """At most ``limit`` of the first rows in memory."""
        return self._rows(self._chunks[:4], basis).head(limit)

    def _rows(self, chunks: list[Chunk], basis: Basis) -> pl.LazyFrame:
        from .. import schema

        if not chunks:
            return schema.empty(self.table)
        return schema.conform(self.table, self.frames.frame(chunks, basis, self._written).lazy())

    def finish(self, basis: Basis, lasting: bool) -> pl.LazyFrame:
        """The table; where it must last all of it is in ``<table>.arrow`` or ``<table>-<n>.arrow``."""
        import polars as pl

        from .. import schema

        if any(written != basis for _, written in self._files):
            return self._again(basis, lasting)
        if lasting and self._chunks:
            if self._files:
                self.spill(basis)
            else:
                self._write(self._chunks, self.workspace / f"{self.table}.arrow", basis)
            self._chunks = []
        parts = [schema.conform(self.table, pl.scan_ipc(path)) for path, _ in self._files]
        if self._chunks or not parts:
            parts.append(self._rows(self._chunks, basis))
        return pl.concat(parts)

    def _again(self, basis: Basis, lasting: bool) -> pl.LazyFrame:
        import polars as pl

        from .frames import rebased

        parts = [rebased(pl.scan_ipc(path), self.table, written, basis) for path, written in self._files]
        table = pl.concat([*parts, self._rows(self._chunks, basis)])
        if not lasting:
            return table
        path = self.workspace / f"{self.table}.arrow"
        table.sink_ipc(path, compression="lz4", record_batch_size=_BATCH)
        self._chunks = []
        for part, _ in self._files:
            part.unlink()
        return pl.scan_ipc(path)
