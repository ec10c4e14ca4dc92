"""Sorts the rows of one table by time in bounded memory (external sort).

A recording has tens of millions of events, and each table arrives in its own order. Blocks wait in memory and are
spilled to workspace files as they accumulate. If the rows did not arrive in time order, they are sorted one time range
after the other, each collected from the few files that overlap it. Rows with equal times keep their order; rows without
a time are few, stay in memory and come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from itertools import groupby, pairwise
from pathlib import Path

import polars as pl
from msgspec import Struct

from .. import schema
from ..trace import NO_DEVICE
from .faults import timeless_calls, timeless_launches

Shape = Callable[[pl.LazyFrame], pl.LazyFrame]
WAITING_BYTES = 32 << 20  # Bytes of a table in memory before it is spilled; as much again may be in the writer.
_PART_BYTES = 8 << 20  # Bytes of rows per file: a part is in memory twice while it is written.
_STRETCH_ROWS = 250_000  # Rows sorted at once.
_SAMPLED = 512  # Every 512th time is kept, to divide the recording into ranges.
_BATCH = 1 << 16


class _Part(Struct, frozen=True):
    """A file of rows, its columns, and its earliest and latest time."""

    path: Path
    columns: tuple[str, ...]
    low: int
    high: int


class TableSpool:
    """Collects blocks of rows with times as recorded; ``time`` is the column to sort by.

    ``writer`` runs file writes in parallel with reading and decoding. ``rows``, ``earliest`` (None without times) and
    ``timeless`` (rows without a time) cover all rows so far.
    """

    def __init__(self, table: str, workspace: Path, writer: Executor, time: str = "start_ns") -> None:
        self.table, self.workspace, self.time = table, workspace, time
        self.rows = 0
        self.timeless: list[pl.DataFrame] = []
        self.earliest: int | None = None
        self._latest: int | None = None
        self._in_order = True
        self._filled: set[str] = set()
        self._waiting: list[pl.DataFrame] = []
        self._bytes = 0
        self._writer = writer
        self._parts: list[Future[_Part]] = []
        self._times: list[pl.Series] = []

    def add(self, block: pl.DataFrame) -> None:
        """Append rows; missing columns of the table are null."""
        if block[self.time].null_count():
            timeless = block.filter(pl.col(self.time).is_null())
            self.timeless.append(timeless)
            self.rows += timeless.height
            self._filled |= {column.name for column in timeless if column.null_count() < timeless.height}
            block = block.drop_nulls(self.time)
        if block.is_empty():
            return
        times = block[self.time]
        low, high = _span(times)
        self._in_order = self._in_order and (self._latest is None or times[0] >= self._latest) and times.is_sorted()
        self._latest = high if self._latest is None else max(self._latest, high)
        self.earliest = low if self.earliest is None else min(self.earliest, low)
        self.rows += block.height
        self._filled |= {column.name for column in block if column.null_count() < block.height}
        self._times.append(times.gather_every(_SAMPLED))
        self._waiting.append(block)
        self._bytes += int(block.estimated_size())
        if self._bytes > WAITING_BYTES:
            self._spill()

    def first(self, rows: int) -> pl.DataFrame | None:
        """At most ``rows`` of the rows in memory, sorted by time; None if there are none."""
        return self._sorted(pl.concat(self._waiting, how="diagonal").head(rows)) if self._waiting else None

    def finish(self, shape: Shape, derived: tuple[str, ...] = ()) -> pl.LazyFrame:
        """The table transformed by ``shape``: in memory, or written to ``<table>.arrow`` and scanned.

        ``derived`` are the columns that ``shape`` adds.
        """
        if not self.rows:
            return schema.empty(self.table)
        if not self._parts:
            timed = [self._sorted(pl.concat(self._waiting, how="diagonal"))] if self._waiting else []
            return schema.conform(self.table, shape(pl.concat([*timed, *self.timeless], how="diagonal").lazy()))
        self._spill()
        written = [run.result() for run in self._parts]
        runs = written if self._in_order else list(self._put_in_order(written))
        path = self.workspace / f"{self.table}.arrow"
        columns = [name for name in schema.polars_schema(self.table) if name in self._filled or name in derived]
        rows = pl.concat([_scan(runs), *(frame.lazy() for frame in self.timeless)], how="diagonal")
        shaped = schema.conform(self.table, shape(rows)).select(columns)
        shaped.sink_ipc(path, compression="zstd", record_batch_size=_BATCH, maintain_order=True)
        for run in runs:
            run.path.unlink()
        return schema.conform(self.table, pl.scan_ipc(path))

    def _spill(self) -> None:
        """Have the waiting rows written to files of similar size, after earlier writes have finished."""
        for written in self._parts:
            written.result()
        waiting, self._waiting, self._bytes = self._waiting[::-1], [], 0
        while waiting:
            run, size = [waiting.pop()], 0
            while waiting and (size := size + int(run[-1].estimated_size())) < _PART_BYTES:
                run.append(waiting.pop())
            self._parts.append(self._writer.submit(self._write, run, f"{len(self._parts)}"))

    def _put_in_order(self, runs: list[_Part]) -> Iterator[_Part]:
        """Rewrite the files in time order, one file per time range."""
        borders = [run.low for run in runs] + [run.high + 1 for run in runs]
        times = pl.concat(self._times).sort()
        step = max(1, _STRETCH_ROWS // _SAMPLED)
        inner = times.gather_every(step)[1:].unique().to_list()
        for number, (low, high) in enumerate(pairwise(sorted({min(borders), *inner, max(borders)}))):
            files = [run.path for run in runs if run.low < high and run.high >= low]
            if not files:
                continue
            inside = pl.col(self.time).is_between(low, high, closed="left")
            # One file after the other: a scan of several would read ahead without a memory bound.
            rows = pl.concat([pl.scan_ipc(file).filter(inside).collect() for file in files], how="diagonal")
            if rows.height:
                yield self._write([self._sorted(rows)], f"{number}-in-order")
        for run in runs:
            run.path.unlink()

    def _sorted(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows if rows[self.time].is_sorted() else rows.sort(self.time, maintain_order=True)

    def _write(self, blocks: list[pl.DataFrame], name: str) -> _Part:
        rows = pl.concat(blocks, how="diagonal")
        path = self.workspace / f".{self.table}-{name}.arrow"
        rows.write_ipc(path, compression="lz4", record_batch_size=_BATCH)
        return _Part(path, tuple(rows.columns), *_span(rows[self.time]))


def _scan(runs: list[_Part]) -> pl.LazyFrame:
    """All rows in the order of the parts. Columns missing from a part are null and take no space in its file."""
    alike = groupby(runs, key=lambda run: run.columns)
    return pl.concat([pl.scan_ipc([run.path for run in group]) for _, group in alike], how="diagonal")


def _span(times: pl.Series) -> tuple[int, int]:
    low, high = times.min(), times.max()
    assert isinstance(low, int) and isinstance(high, int)
    return low, high


def warnings_of(kernels: TableSpool, host: TableSpool, kinds: set[str]) -> list[str]:
    """Sentences about what is missing or wrong in both tables; ``kinds`` are those of the device activities."""
    warnings = []
    if not kernels.rows:
        warnings.append(f"{NO_DEVICE}: no kernels, copies or sets")
    elif not kinds & {"kernel", "collective"}:
        warnings.append("no kernels were recorded, only copies, sets or waits")
    for table, say in ((kernels, timeless_launches), (host, timeless_calls)):
        if timeless := sum(frame.height for frame in table.timeless):
            warnings.append(say(timeless, table.rows))
    return warnings
