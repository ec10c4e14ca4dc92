"""One recording of Nsight Systems from its database to the Trace.

A database is one recording, often of several processes and devices. Correlation ids are counted per process, so in a
recording of several they are widened by the process id: an id then ties one call to its own activities and no others.
Times are moved so that the first event is at zero; ``epoch_ns`` keeps the absolute time where the export has one.
META_DATA_CAPTURE, TARGET_INFO_SYSTEM_ENV and the like hold the environment and the user's machine: only the columns
named here are ever read.
"""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
from msgspec.structs import replace

from .. import schema
from ..errors import Unreadable
from ..ingest import sqlite_file, stream
from ..loader import Job
from ..native.allocator import keep_freed
from ..schema_limits import LATEST_NS, LONGEST_NS
from ..trace import Device, Info, Trace
from . import samples
from .database import NsysDatabase
from .device import Devices
from .host import Host
from .spool import TableSpool, warnings_of

_PRODUCT, _VERSION, _SCHEMA = "EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"
_PROPERTIES = (
    "busLocation", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "computeMajor", "computeMinor", "chipName",
    "l2CacheSize", "maxWarpsPerSm", "maxBlocksPerSm",
)
_WARNING, _ERROR = 2, 3
_MOST_WARNINGS = 12
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
    tool, version = _tool(database)
    info = Info(
        source=str(job.path), label=_label(job.path), format="nsys", tool=tool, bytes=job.path.stat().st_size,
        clock="session, ns", facts={"schema": version} if version else {},
    )
    devices, reader = Devices(database, strings), Host(database, strings)
    kernels, host = (TableSpool(table, job.workspace, writer) for table in ("kernels", "host"))
    metrics = TableSpool("metrics", job.workspace, writer, "ts_ns")
    pids, kinds, device_names, previewed = set[int | None](), set[str](), set[str](), False
    for block in devices.blocks():
        kernels.add(block := _plausible(block))
        pids |= set(block["pid"].unique())
        kinds |= set(block["kind"].unique().drop_nulls().cast(pl.String))
        device_names |= set(block["device"].unique().drop_nulls().cast(pl.String))
        if job.first_rows is not None and kernels.rows > _FIRST_ROWS and not previewed:
            previewed = True
            if (first := kernels.first(_FIRST_ROWS)) is not None:
                job.first_rows(Trace(info, kernels=_kernels(first.lazy(), kernels.earliest or 0)))
    for block in reader.blocks():
        host.add(block := _plausible(block))
        pids |= set(block.filter(pl.col("correlation").is_not_null())["pid"].unique())
    for block in samples.blocks(database):
        metrics.add(block)
    begins = [spool.earliest for spool in (kernels, host, metrics) if spool.earliest is not None]
    if not begins:
        raise Unreadable(
            job.path, "is an Nsight Systems export without a single event", "Check that the recording has any."
        )
    zero, ranks, start = min(begins), _ranks(database), _epoch(database)
    warnings = [*_recorded_warnings(database), *database.faults]
    warnings += warnings_of(kernels, host, kinds)
    if devices.whole_graphs:
        warnings.append(f"{devices.whole_graphs:,} graph launches were recorded as a whole: the kernels inside are not "
                        "known (record with --cuda-graph-trace=node)")
    if reader.open_ranges:
        warnings.append(f"{reader.open_ranges:,} NVTX ranges were still open at the end and are left out")
    several = len(pids) > 1

    def activities(rows: pl.LazyFrame) -> pl.LazyFrame:
        return _kernels(_finished(rows, zero, ranks, several), 0)

    return Trace(
        replace(
            info, devices=_devices(database, sorted(device_names)), warnings=tuple(warnings),
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


def _tool(database: NsysDatabase) -> tuple[str, str | None]:
    """The program that wrote it, with its version, and the version of the schema, None for exports before 2021."""
    facts: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in database.rows(table, "name", "value"):
            if name in (_PRODUCT, _VERSION, _SCHEMA):
                facts[str(name)] = str(value)
    product = facts.get(_PRODUCT, "NVIDIA Nsight Systems").removeprefix("NVIDIA ")
    return f"{product} {facts.get(_VERSION, '')}".strip(), facts.get(_SCHEMA)


def _epoch(database: NsysDatabase) -> int | None:
    """Nanoseconds since 1970 at the export's time zero."""
    row = database.first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    return int(row[0]) if row is not None and isinstance(row[0], int) else None


def _devices(database: NsysDatabase, recorded: list[str]) -> tuple[Device, ...]:
    """The GPUs of the machine as described, and those only seen in the records."""
    results: dict[str, Device] = {}
    for number, name, *values in database.rows("TARGET_INFO_GPU", "id", "name", *_PROPERTIES):
        properties: dict[str, Any] = {
            key: value for key, value in zip(_PROPERTIES, values, strict=True) if value is not None
        }
        results[f"GPU {number}"] = Device(f"GPU {number}", str(name) if name else None, properties)
    for device in recorded:
        results.setdefault(device, Device(device))
    return tuple(results[key] for key in sorted(results, key=lambda key: (len(key), key)))


def _ranks(database: NsysDatabase) -> dict[int, int]:
    """MPI rank by process id."""
    pairs = database.rows("MPI_RANKS", "globalTid", "rank")
    return {tid >> 24 & 0xFFFFFF: rank for tid, rank in pairs if isinstance(tid, int) and isinstance(rank, int)}


def _recorded_warnings(database: NsysDatabase) -> list[str]:
    """What the recorder itself reported as a warning or an error, each once."""
    results: dict[str, None] = {}
    for severity, text in database.rows("DIAGNOSTIC_EVENT", "severity", "text"):
        if severity in (_WARNING, _ERROR):
            kind = "error" if severity == _ERROR else "warning"
            results[f"the recorder's {kind}: {' '.join(str(text).split())[:300]}"] = None
    sentences = list(results)
    rest = len(sentences) - _MOST_WARNINGS
    return [*sentences[:_MOST_WARNINGS], f"{rest} more warnings of the recorder"] if rest > 0 else sentences
