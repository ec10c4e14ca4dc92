"""One recording of Nsight Systems from its database to the Trace.

A database is one recording, often of several processes and devices. Correlation ids are counted per process, so in a
recording of several they are widened by the process id: an id then ties one call to its own activities and no others.
Times are moved so that the first event is at zero; ``epoch_ns`` keeps the absolute time where the export has one.
"""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from .. import schema
from ..errors import Unreadable
from ..ingest import sqlite_file, stream
from ..loader import Job
from ..native.allocator import keep_freed
from ..schema_limits import LATEST_NS, LONGEST_NS
from ..trace import Info, Trace
from . import about, samples
from .database import NsysDatabase
from .device import Devices
from .host import Host
from .spool import TableSpool

_FIRST_ROWS = 100_000
_ROW_BYTES = 12
"""What a row of a Parquet export takes, about; progress goes by it."""


def load(job: Job) -> Trace:
    """Read the database, also a compressed one. Raises Unreadable where SQLite cannot."""
    keep_freed()
    plain, fault = stream.plain_file(job.path, job.workspace, job.progress)
    path, cut = sqlite_file.whole_pages(plain, job.workspace)
    size, lock, bytes_read = path.stat().st_size, threading.Lock(), [0, 0]

    def on_block(more: int, rows: int) -> None:
        with lock:
            bytes_read[0], bytes_read[1] = min(bytes_read[0] + more, size), bytes_read[1] + rows
            job.progress(bytes_read[0], size, bytes_read[1])

    try:
        database = NsysDatabase(path, on_block=on_block)
        try:
            with ThreadPoolExecutor(1) as writer:
                trace = _read(job, database, writer)
        finally:
            database.close()
    except (sqlite3.Error, UnicodeError) as error:  # names of columns may be damaged too
        reason = " ".join(str(error).split())[:120]
        raise Unreadable(
            job.path, f"is damaged: SQLite cannot read it ({reason})", "Export it again from the .nsys-rep file."
        ) from None
    finally:
        if path != job.path:
            path.unlink()
    job.progress(size, size, bytes_read[1])
    return trace.warn(*(reason for reason in (fault, cut) if reason))


def load_parquet(job: Job) -> Trace:
    """Read the folder of Parquet files that the job's file is in. Raises Unreadable where no table can be read."""
    from .parquet_tables import ParquetTables

    keep_freed()
    folder = job.path.absolute().parent
    size, bytes_read = sum(file.stat().st_size for file in folder.glob("*.parquet")), 0

    def on_block(more: int, rows: int) -> None:
        nonlocal bytes_read
        bytes_read += rows
        job.progress(min(bytes_read * _ROW_BYTES, size), size, bytes_read)

    tables = ParquetTables(folder, on_block)
    with ThreadPoolExecutor(1) as writer:
        trace = _read(replace(job, path=folder), tables, writer)
    job.progress(size, size, bytes_read)
    return replace(trace, info=replace(trace.info, source=str(job.path), bytes=size))


def _read(job: Job, database: NsysDatabase, writer: Executor) -> Trace:
    strings = database.strings()
    tool, version = about.tool(database)
    info = Info(
        source=str(job.path), label=_label(job.path), format="nsys", tool=tool, bytes=job.path.stat().st_size,
        clock="session, ns", facts={"schema": version} if version else {},
    )
    devices, reader = Devices(database, strings), Host(database, strings)
    kernels, host = (TableSpool(table, job.workspace, writer) for table in ("kernels", "host"))
    metrics = TableSpool("metrics", job.workspace, writer, "ts_ns")
    counts, previewed = _Seen(), False
    for block in devices.blocks():
        kernels.add(block := _plausible(block))
        counts.activities(block)
        if job.first_rows is not None and kernels.rows > _FIRST_ROWS and not previewed:
            previewed = True
            if (first := kernels.first(_FIRST_ROWS)) is not None:
                job.first_rows(Trace(info, kernels=_kernels(first.lazy(), kernels.earliest or 0)))
    for block in reader.blocks():
        host.add(block := _plausible(block))
        counts.calls(block)
    for block in samples.blocks(database):
        metrics.add(block)
    begins = [spool.earliest for spool in (kernels, host, metrics) if spool.earliest is not None]
    if not begins:
        raise Unreadable(
            job.path, "is an Nsight Systems export without a single event", "Check that the recording has any."
        )
    zero, ranks, start = min(begins), about.ranks(database), about.epoch(database)
    warnings = [*about.warnings(database), *database.faults]
    warnings += _said_of(kernels, host, counts, devices.whole_graphs, reader.open_ranges)
    several = len(counts.pids) > 1

    def activities(rows: pl.LazyFrame) -> pl.LazyFrame:
        return _kernels(_finished(rows, zero, ranks, several), 0)

    return Trace(
        replace(
            info, devices=about.devices(database, sorted(counts.devices)), warnings=tuple(warnings),
            epoch_ns=None if start is None else start + zero, ranks=tuple(sorted(set(ranks.values()))),
        ),
        kernels=kernels.finish(activities, ("index", "rank") if ranks else ("index",)),
        host=host.finish(lambda rows: _finished(rows, zero, ranks, several), ("rank",) if ranks else ()),
        metrics=metrics.finish(lambda rows: rows.with_columns(pl.col("ts_ns") - zero)),
    )


def _plausible(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without times that no clock shows; a duration that nothing lasts is none."""
    inside = pl.col("start_ns").is_between(-LATEST_NS, LATEST_NS) | pl.col("start_ns").is_null()
    return rows.filter(inside).with_columns(pl.when(pl.col("dur_ns") <= LONGEST_NS).then("dur_ns"))


class _Seen:
    """What the blocks that went by have in them: processes whose ids count, kinds, devices."""

    def __init__(self) -> None:
        self.pids: set[int | None] = set()
        self.kinds: set[str] = set()
        self.devices: set[str] = set()

    def activities(self, block: pl.DataFrame) -> None:
        """Take in rows of ``kernels``."""
        self.pids |= set(block["pid"].unique())
        self.kinds |= set(block["kind"].unique().drop_nulls().cast(pl.String))
        self.devices |= set(block["device"].unique().drop_nulls().cast(pl.String))

    def calls(self, block: pl.DataFrame) -> None:
        """Take in rows of ``host``."""
        self.pids |= set(block.filter(pl.col("correlation").is_not_null())["pid"].unique())


def _label(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".zst", ".sqlite", ".db", ".nsys-rep", "_pqtdir"):
        name = name.removesuffix(suffix) or name
    return name


def _kernels(rows: pl.LazyFrame, zero: int) -> pl.LazyFrame:
    return schema.conform("kernels", rows.with_columns(pl.col("start_ns") - zero).with_row_index("index"))


def _finished(rows: pl.LazyFrame, zero: int, ranks: dict[int, int], several: bool) -> pl.LazyFrame:
    """Times from zero on, no duration below it, ranks where processes have them.

    Correlation ids are made unique where several processes were recorded.
    """
    pid = pl.col("pid")
    rank = pid.replace_strict(ranks, default=None, return_dtype=pl.Int64) if ranks else pl.lit(None, dtype=pl.Int64)
    wide = [(pid.fill_null(0) * (1 << 32) + pl.col("correlation")).alias("correlation")] if several else []
    return rows.with_columns(
        pl.col("start_ns") - zero, pl.col("dur_ns").clip(lower_bound=0), rank.alias("rank"), *wide
    )


def _said_of(kernels: TableSpool, host: TableSpool, counts: _Seen, total: int, open_ranges: int) -> list[str]:
    """What is missing or wrong in the records, in words."""
    warnings = []
    if not kernels.rows:
        warnings.append("no device activity was recorded: no kernels, copies or sets")
    elif not counts.kinds & {"kernel", "collective"}:
        warnings.append("no kernels were recorded, only copies, sets or waits")
    if total:
        warnings.append(
            f"{total:,} graph launches were recorded as a whole: the kernels inside are not known (record with "
            "--cuda-graph-trace=node)"
        )
    for rows, what in ((kernels, "device activities"), (host, "host slices")):
        if rows.negative:
            warnings.append(f"{rows.negative:,} {what} end before they start: their duration is taken as 0")
    if open_ranges:
        warnings.append(f"{open_ranges:,} NVTX ranges were still open at the end and are left out")
    return warnings
