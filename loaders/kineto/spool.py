"""Rows of one table during a load: first in memory, then in workspace files, each normally written once.

Files are written during the load, based on what is known by then: the earliest time, the process that launched kernels,
the rank. Recorders write these early; if one of them changes later, the table is rewritten. Separate threads write the
files, so that scanning threads do not wait.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .chunk import TEXTS, Basis, Chunk, missing
from .dialect import InternedTexts

if TYPE_CHECKING:
    import polars as pl

    from ..trace import HeldRows

SPILL_BYTES = 6 << 20  # Bytes of rows in memory before the first file is written, if the table must end up in files.
HELD_BYTES = 64 << 20  # The same if files are not required, to bound memory.
_PART_BYTES = 12 << 20  # Bytes of rows per file, and of rows that may wait while it is written.
_CHUNK_BYTES = 1024  # Approximate overhead of a chunk.
_BATCH = 1 << 16  # Rows per record batch, the smallest unit a reader of the files decodes.


class Spool:
    """Collects rows. polars is imported only when the first frame is needed. ``writer`` runs the writing threads;
    ``early``: the table must end up in files, which may be written during the load. ``ranks`` and ``devices`` are the
    numbers recorded in the rows themselves."""

    def __init__(self, table: str, workspace: Path, texts: InternedTexts, writer: Executor, early: bool) -> None:
        self.table, self.workspace = table, workspace
        self.rows = 0
        self.ranks: set[int] = set()
        self.devices: set[int] = set()
        self._texts, self._writer = texts, writer
        self._chunks: list[Chunk] = []
        self._bytes = 0
        self._files: list[tuple[Path, Basis]] = []
        self._pending: list[Future[None]] = []
        self._written = 0
        self._room = SPILL_BYTES if early else HELD_BYTES

    def add(self, rows: Chunk) -> None:
        """Append rows. A writer thread meanwhile computes the categorical codes of their texts: kernels have many, as
        every launch has a grid."""
        self.rows += rows.rows
        self._chunks.append(rows)
        self._bytes += rows.bytes + _CHUNK_BYTES
        self.ranks = self.ranks | _distinct(rows, "rank")  # a new set, as other threads may be iterating over it
        if self.table == "kernels":
            self.devices = self.devices | _distinct(rows, "device")
        self._pending.append(self._writer.submit(self._learn, rows))

    def _learn(self, rows: Chunk) -> None:
        import_module(".table_frames", __package__)  # in parallel with scanning; needed when that ends
        for name in TEXTS if self.table == "kernels" else ():
            if (numbers := rows.columns.get(name)) is not None:
                self._texts.spelled(name)[numbers]

    @property
    def full(self) -> bool:
        """Whether to call ``spill``."""
        return self._bytes > self._room

    def spill(self, basis: Basis) -> None:
        """Have the rows in memory written to files. Raises any error of earlier writes."""
        self.settle()
        waiting, self._chunks, self._bytes = self._chunks[::-1], [], 0
        while waiting:
            batch = [waiting.pop()]
            size = batch[0].bytes
            while waiting and (size := size + waiting[-1].bytes) < _PART_BYTES:
                batch.append(waiting.pop())
            self._put(batch, f"{self.table}-{len(self._files):05}.arrow", basis)
        self._room = min(_PART_BYTES, 2 * SPILL_BYTES)

    def _put(self, batch: list[Chunk], name: str, basis: Basis) -> None:
        path = self.workspace / name
        self._pending.append(self._writer.submit(self._write, batch, path, basis, self._written))
        self._files.append((path, basis))
        self._written += sum(rows.rows for rows in batch)

    def _write(self, batch: list[Chunk], path: Path, basis: Basis, first: int) -> None:
        from .table_frames import frame

        rows = frame(self.table, self._texts, batch, basis, first)
        rows.write_ipc(path, compression="lz4", record_batch_size=_BATCH)

    def settle(self) -> None:
        """Wait until all files are written. Raises any error of a write."""
        pending, self._pending = self._pending, []
        for each in pending:
            each.result()

    def preview(self, basis: Basis, limit: int) -> pl.LazyFrame:
        """At most ``limit`` rows, from the first chunks in memory."""
        return self._rows(self._chunks[:4], basis).head(limit)

    def _rows(self, chunks: list[Chunk], basis: Basis) -> pl.LazyFrame:
        from .. import schema
        from .table_frames import lazy_rows

        if not chunks:
            return schema.empty(self.table)
        return lazy_rows(self.table, self._texts, (*chunks,), basis, self._written)

    def close(self, basis: Basis, lasting: bool) -> None:
        """Have the last rows written if the table must be in files (``lasting``), unless it will be rewritten."""
        if not lasting or not self._chunks or self._outdated(basis):
            return
        if self._files:
            self.spill(basis)
        else:
            self._put(self._chunks, f"{self.table}.arrow", basis)
            self._chunks = []

    def _outdated(self, basis: Basis) -> bool:
        return any(written != basis for _, written in self._files)

    def finish(self, basis: Basis, lasting: bool) -> pl.LazyFrame:
        """The table, after ``close``; if ``lasting``, all of it is in ``<table>.arrow`` or ``<table>-<n>.arrow``."""
        import polars as pl

        from .. import schema

        self.settle()
        if self._outdated(basis):
            return self._again(basis, lasting)
        frames = [schema.conform(self.table, pl.scan_ipc(path)) for path, _ in self._files]
        if self._chunks or not frames:
            frames.append(self._rows(self._chunks, basis))
        return pl.concat(frames)

    def held(self, basis: Basis) -> HeldRows | None:
        """The rows for ``Trace.held_host``, None if some are in files."""
        from .table_frames import held_rows

        return None if self._files or not self._chunks else partial(held_rows, self._texts, (*self._chunks,), basis)

    def _again(self, basis: Basis, lasting: bool) -> pl.LazyFrame:
        import polars as pl

        from .table_frames import rebased

        frames = [rebased(pl.scan_ipc(path), self.table, written, basis) for path, written in self._files]
        table = pl.concat([*frames, self._rows(self._chunks, basis)])
        if not lasting:
            return table
        path = self.workspace / f"{self.table}.arrow"
        table.sink_ipc(path, compression="lz4", record_batch_size=_BATCH)
        self._chunks = []
        for source, _ in self._files:
            source.unlink()
        return pl.scan_ipc(path)


def _distinct(rows: Chunk, name: str) -> set[int]:
    """The distinct values of a column with few of them, without the missing ones."""
    values = rows.columns.get(name)
    if values is None:
        return set()
    low, high = int(values.min()), int(values.max())
    distinct = {low} if low == high else set(np.unique(values).tolist())
    return distinct - {missing(values)}
