"""The rows of one table on their way: in memory, then in files of the workspace, each of which is written once.

A file is written before the whole recording was seen, so with what is known by then: the earliest time, who launched
kernels, the rank. Recorders say these things early. Where one of them turns out otherwise the table is written again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from .. import schema
from .columns import NULL

SPILL_BYTES = 48 << 20
"""Rows of one table kept in memory before they go to a file."""
_PART_BYTES = 24 << 20
"""And once they do, and in one file: a part is in memory twice while it is written."""
_BATCH = 1 << 16
"""Rows a reader of the files has to take at once."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What is common to all rows: the time they count from (absolute ns), the pid that launched them by rank, the rank.

    ``rank`` is that of rows which do not say theirs; None in ``pids`` stands for those too.
    """

    origin: int = 0
    pids: tuple[tuple[int | None, int], ...] = ()
    rank: int | None = None


class Spool:
    """Collects rows; columns of the table that they do not have are null."""

    def __init__(self, table: str, workspace: Path) -> None:
        self.table, self.workspace = table, workspace
        self.rows = 0
        self._frames: list[pl.DataFrame] = []
        self._bytes = 0
        self._files: list[tuple[Path, Basis]] = []
        self._written = 0
        self._types: dict[str, pl.DataType] = {}
        self._room = SPILL_BYTES

    def add(self, frame: pl.DataFrame) -> None:
        """Append rows with absolute times, ``NULL`` and NaN for missing."""
        if frame.is_empty():
            return
        self._types = self._types or dict(frame.schema)
        self.rows += frame.height
        self._frames.append(frame)
        self._bytes += frame.height * 8 * frame.width

    @property
    def full(self) -> bool:
        """Whether it is time to ``spill``."""
        return self._bytes > self._room

    def spill(self, basis: Basis) -> None:
        """Write the rows in memory as rows of the table."""
        waiting, self._frames, self._bytes = self._frames[::-1], [], 0
        while waiting:
            part, size = [waiting.pop()], 0
            while waiting and (size := size + part[-1].height * 8 * part[-1].width) < _PART_BYTES:
                part.append(waiting.pop())
            path = self.workspace / f"{self.table}-{len(self._files):05}.arrow"
            rows = self._present(pl.concat(part).lazy(), basis).collect()
            rows.write_ipc(path, compression="lz4", record_batch_size=_BATCH)
            self._files.append((path, basis))
            self._written += rows.height
        self._room = min(_PART_BYTES, SPILL_BYTES)

    def preview(self, basis: Basis, limit: int) -> pl.LazyFrame:
        """At most ``limit`` of the first rows in memory."""
        frames = self._frames[:4]
        return self._shaped(pl.concat(frames).head(limit).lazy(), basis) if frames else schema.empty(self.table)

    def finish(self, basis: Basis, lasting: bool) -> pl.LazyFrame:
        """The table; where it must last all of it is in ``<table>.arrow`` or ``<table>-<n>.arrow``."""
        if not self.rows:
            return schema.empty(self.table)
        if any(written != basis for _, written in self._files):
            table = self._shaped(self._from_the_start(), basis, 0)
            return self._sink(table) if lasting else table
        if not self._files:
            table = self._shaped(pl.concat(self._frames).lazy(), basis)
            return self._sink(table) if lasting else table
        if lasting and self._frames:
            self.spill(basis)
        parts = [schema.conform(self.table, pl.scan_ipc([path for path, _ in self._files]))]
        if self._frames:
            parts.append(self._shaped(pl.concat(self._frames).lazy(), basis))
        return pl.concat(parts)

    def _sink(self, table: pl.LazyFrame) -> pl.LazyFrame:
        path = self.workspace / f"{self.table}.arrow"
        table.sink_ipc(path, compression="lz4", record_batch_size=_BATCH)
        self._frames = []
        for part, _ in self._files:
            part.unlink()
        return pl.scan_ipc(path)

    def _from_the_start(self) -> pl.LazyFrame:
        """All rows as they were added."""
        parts = []
        for path, basis in self._files:
            rows = pl.scan_ipc(path).with_columns(pl.col(self._time) + basis.origin)
            if basis.rank is not None:
                rows = rows.with_columns(pl.col("rank").replace(basis.rank, None))
            parts.append(rows.select(pl.col(name).cast(dtype) for name, dtype in self._types.items()))
        return pl.concat([*parts, *(frame.lazy() for frame in self._frames)])

    @property
    def _time(self) -> str:
        return "ts_ns" if self.table == "metrics" else "start_ns"

    def _shaped(self, rows: pl.LazyFrame, basis: Basis, first: int | None = None) -> pl.LazyFrame:
        """Rows as added, as rows of the table, the ``first`` one behind what is written if nothing else is said."""
        shaped = _missing_as_null(rows).with_columns(pl.col(self._time) - basis.origin)
        if self.table == "kernels":
            shaped = shaped.with_row_index("index", self._written if first is None else first)
            if pids := dict(basis.pids):
                own = pl.col("rank").replace_strict(pids, default=None, return_dtype=pl.Int64)
                shaped = shaped.with_columns(pid=pl.coalesce(own, pl.lit(pids.get(None), pl.Int64)))
        if basis.rank is not None:
            shaped = shaped.with_columns(pl.col("rank").fill_null(basis.rank))
        return schema.conform(self.table, shaped)

    def _present(self, rows: pl.LazyFrame, basis: Basis) -> pl.LazyFrame:
        """``_shaped`` without the columns this loader never fills."""
        filled = {*self._types, "index", "pid"}
        return self._shaped(rows, basis).select(
            field.name for field in schema.TABLES[self.table] if field.name in filled
        )


def _missing_as_null(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The frame with NULL, NaN and negative durations as nulls."""
    types = frame.collect_schema()
    whole = [name for name, dtype in types.items() if dtype == pl.Int64 and name != "dur_ns"]
    parts = [name for name, dtype in types.items() if dtype == pl.Float32]
    durations = [pl.when(pl.col("dur_ns") >= 0).then(pl.col("dur_ns")).alias("dur_ns")] if "dur_ns" in types else []
    registers = [pl.col("registers").cast(pl.Int32, strict=False)] if "registers" in whole else []
    return frame.with_columns(
        *(pl.when(pl.col(name) != NULL).then(pl.col(name)).alias(name) for name in whole),
        *(pl.col(name).fill_nan(None) for name in parts),
        *durations,
    ).with_columns(registers)
