"""One recording of Nsight Systems from its database to the Trace.

A database is one recording, often of several processes and devices. Correlation ids are counted per process, so in a
recording of several they are widened by the process id: an id then ties one call to its own activities and no others.
Times are moved so that the first event is at zero; ``epoch_ns`` keeps the absolute time where the export has one.
"""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import polars as pl

from .. import schema, stream
from ..errors import Unreadable
from ..loader import Job
from ..trace import Info, Trace
from . import about, samples
from .database import Database
from .device import Devices
from .host import Host

_FIRST_ROWS = 100_000


def load(job: Job) -> Trace:
    """Read the database, also a compressed one. Raises Unreadable where SQLite cannot."""
    path, ended = _plain_file(job)
    size, lock, done = path.stat().st_size, threading.Lock(), [0, 0]

    def told(more: int, rows: int) -> None:
        with lock:
            done[0], done[1] = min(done[0] + more, size), done[1] + rows
            job.progress(done[0], size, done[1])

    try:
        database = Database(path, told=told)
        try:
            trace = _read(job, database)
        finally:
            database.close()
    except (sqlite3.Error, UnicodeError) as error:  # names of columns may be damaged too
        said = " ".join(str(error).split())[:120]
        raise Unreadable(
            job.path, f"is damaged: SQLite cannot read it ({said})", "Export it again from the .nsys-rep file."
        ) from None
    finally:
        if path != job.path:
            path.unlink()
    job.progress(size, size, done[1])
    return trace.warn(f"truncated: {ended}") if ended else trace


def _plain_file(job: Job) -> tuple[Path, str | None]:
    """The database itself: SQLite reads no compressed one."""
    with stream.Source(job.path) as source:
        if not source.compressed:
            return job.path, None
        path = job.workspace / "database"
        with open(path, "wb") as out:
            for block in source:
                out.write(block)
                job.progress(source.position // 2, source.size, 0)
        return path, source.ended


def _read(job: Job, database: Database) -> Trace:
    strings = database.strings()
    tool, version = about.tool(database)
    info = Info(
        source=str(job.path), label=_label(job.path), format="nsys", tool=tool, bytes=job.path.stat().st_size,
        clock="session, ns", facts={"schema": version} if version else {},
    )
    devices = Devices(database, strings)
    activities = _joined("kernels", devices.read())
    if job.first_rows is not None and activities.height > _FIRST_ROWS:
        first = activities.head(_FIRST_ROWS).with_columns(pl.col("start_ns") - _least(activities, "start_ns"))
        job.first_rows(Trace(info, kernels=schema.conform("kernels", first.with_row_index("index").lazy())))
    reader = Host(database, strings)
    slices = _joined("host", reader.read())
    metrics = _joined("metrics", samples.read(database), "ts_ns")
    if not (activities.height or slices.height or metrics.height):
        raise Unreadable(
            job.path, "is an Nsight Systems export without a single event", "Check that the recording has any."
        )
    warnings = [*about.warnings(database), *database.faults]
    warnings += _said_of(activities, slices, devices.whole_graphs, reader.open_ranges)
    zero = min(_least(frame, column) for frame, column in _times(activities, slices, metrics) if frame.height)
    activities, slices = _tied(activities, slices)
    ranks = about.ranks(database)
    seen = activities["device"].unique().drop_nulls().cast(pl.String).to_list()
    start = about.epoch(database)
    return Trace(
        replace(
            info, devices=about.devices(database, seen), warnings=tuple(warnings),
            epoch_ns=None if start is None else start + zero, ranks=tuple(sorted(set(ranks.values()))),
        ),
        kernels=schema.conform("kernels", _finished(activities, zero, ranks).with_row_index("index").lazy()),
        host=schema.conform("host", _finished(slices, zero, ranks).lazy()),
        metrics=schema.conform("metrics", metrics.with_columns(pl.col("ts_ns") - zero).lazy()),
    )


def _label(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".zst", ".sqlite", ".db", ".nsys-rep"):
        name = name.removesuffix(suffix) or name
    return name


def _joined(table: str, frames: list[pl.DataFrame], time: str = "start_ns") -> pl.DataFrame:
    """All frames as one, in the order of time."""
    if not frames:
        return pl.DataFrame(schema=schema.polars_schema(table)).drop("index", "rank", strict=False)
    rows = pl.concat(frames, how="diagonal").drop_nulls(time)
    return rows if rows[time].is_sorted() else rows.sort(time, maintain_order=True)


def _times(kernels: pl.DataFrame, host: pl.DataFrame, metrics: pl.DataFrame) -> tuple[tuple[pl.DataFrame, str], ...]:
    return (kernels, "start_ns"), (host, "start_ns"), (metrics, "ts_ns")


def _least(frame: pl.DataFrame, column: str) -> int:
    least = frame[column].min()
    return least if isinstance(least, int) else 0


def _tied(kernels: pl.DataFrame, host: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Correlation ids made unique where several processes were recorded."""
    calls = host.filter(pl.col("correlation").is_not_null())["pid"].unique()
    if pl.concat([calls, kernels["pid"].unique()]).n_unique() <= 1:
        return kernels, host
    wide = (pl.col("pid").fill_null(0) * (1 << 32) + pl.col("correlation")).alias("correlation")
    return kernels.with_columns(wide), host.with_columns(wide)


def _finished(rows: pl.DataFrame, zero: int, ranks: dict[int, int]) -> pl.DataFrame:
    """Times from zero on, no duration below it, ranks where processes have them."""
    rank = pl.col("pid").replace_strict(ranks, default=None, return_dtype=pl.Int64) if ranks else pl.lit(None)
    return rows.with_columns(
        pl.col("start_ns") - zero, pl.col("dur_ns").clip(lower_bound=0), rank.cast(pl.Int64).alias("rank")
    )


def _said_of(kernels: pl.DataFrame, host: pl.DataFrame, whole: int, open_ranges: int) -> list[str]:
    """What is missing or wrong in the records, in words."""
    told = []
    if not kernels.height:
        told.append("no device activity was recorded: no kernels, copies or sets")
    elif not kernels["kind"].is_in(["kernel", "collective"]).any():
        told.append("no kernels were recorded, only copies, sets or waits")
    if whole:
        told.append(
            f"{whole:,} graph launches were recorded as a whole: the kernels inside are not known (record with "
            "--cuda-graph-trace=node)"
        )
    for rows, what in ((kernels, "device activities"), (host, "host slices")):
        if backwards := rows.filter(pl.col("dur_ns") < 0).height:
            told.append(f"{backwards:,} {what} end before they start: their duration is taken as 0")
    if open_ranges:
        told.append(f"{open_ranges:,} NVTX ranges were still open at the end and are left out")
    return told

