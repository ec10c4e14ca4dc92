"""Builds the Trace of one Nsight Systems recording from its database.

A database is one recording, often of several processes and devices. Correlation ids are counted per process, so if
there are several, ids are combined with the process id: an id then links a call to its own activities only.
Times are shifted so that the first event is at zero; ``epoch_ns`` keeps the absolute time if the export has one.
META_DATA_CAPTURE, TARGET_INFO_SYSTEM_ENV and the like describe the environment and the user's machine: only the columns
named here are ever read.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
from msgspec.structs import replace

from ..loader import Job
from ..native.allocator import keep_freed
from ..recording.database import tables_of, unpacked
from ..recording.faults import Faults
from ..recording.recording import Recording
from ..trace import Device, Info, Trace
from . import call_chains, lookups, notices, samples
from .database import NsysDatabase, ParquetTables
from .device import Devices
from .host import Host, communicating

_PRODUCT, _VERSION, _SCHEMA = "EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"
_PROPERTIES = (
    "busLocation", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "computeMajor", "computeMinor", "chipName",
    "l2CacheSize", "maxWarpsPerSm", "maxBlocksPerSm",
)
_ROW_BYTES = 12  # Approximate bytes per row of a Parquet export, to estimate progress.


def load(job: Job) -> Trace:
    """Read the database, which may be compressed. Raises Unreadable if SQLite cannot read it."""
    keep_freed()
    with unpacked(job, "Export it again from the .nsys-rep file.") as (path, faults):
        size, lock, bytes_read = path.stat().st_size, threading.Lock(), [0, 0]

        def on_block(more: int, rows: int) -> None:
            with lock:
                bytes_read[0], bytes_read[1] = min(bytes_read[0] + more, size), bytes_read[1] + rows
                job.progress(bytes_read[0], size, bytes_read[1])

        database = NsysDatabase(path, Faults(), on_block=on_block)
        try:
            with ThreadPoolExecutor(1) as writer:
                trace = _read(job, database, writer)
        finally:
            database.close()
    job.progress(size, size, bytes_read[1])
    return trace.warn(*faults)


def load_parquet(job: Job) -> Trace:
    """Read all Parquet files in the folder of the job's file. Raises Unreadable if no table can be read."""
    keep_freed()
    folder = job.path.absolute().parent
    size, bytes_read = sum(file.stat().st_size for file in folder.glob("*.parquet")), 0

    def on_block(more: int, rows: int) -> None:
        nonlocal bytes_read
        bytes_read += rows
        job.progress(min(bytes_read * _ROW_BYTES, size), size, bytes_read)

    tables = ParquetTables(folder, Faults(), on_block)
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
    recording = Recording(job, info, writer, database.wrong)
    devices, host = Devices(database, strings), Host(database, strings)
    pids = set[int | None]()
    for table, block in devices.blocks():
        recording.activities(block, table)
        pids |= set(block["pid"].unique())
    for table, block in host.blocks():
        recording.calls(block, table)
        pids |= set(block.filter(pl.col("correlation").is_not_null())["pid"].unique())
    for block in samples.blocks(database):
        recording.add_metrics(block)
    for table, block in call_chains.blocks(database, strings):
        recording.call_chains(block, table)
    recording.described.update(_devices(database))
    info.facts["threads"] = _threads(database, strings, pids)
    recording.allocations(notices.allocations(database))
    said = notices.messages(database)
    recording.faults.sentences += said
    info.facts["notices"] = notices.findings(database, said)
    info.facts["tables"] = tables_of(database.read_rows, database.unread())
    ranks, start, zero = _ranks(database), _epoch(database), recording.earliest or 0

    rank = pl.col("pid").replace_strict(ranks, default=None, return_dtype=pl.Int64).alias("rank")

    def shaped(rows: pl.LazyFrame) -> pl.LazyFrame:
        """Make correlation ids unique across processes, and add the rank of each process where ranks are known."""
        if len(pids) > 1:
            process = pl.col("pid").fill_null(0) * (1 << 32)
            rows = rows.with_columns((process + pl.col("correlation")).alias("correlation"))
        return rows.with_columns(rank) if ranks else rows

    trace = recording.finish(
        shaped, ("rank",) if ranks else (), epoch_ns=None if start is None else start + zero,
        ranks=tuple(sorted(set(ranks.values()))),
    )
    trace = communicating(trace, job)
    if ranks and trace.has("call_chains"):
        trace = trace.with_tables(call_chains=trace.call_chains.with_columns(rank))
    if devices.whole_graphs:
        trace = trace.warn(f"{devices.whole_graphs:,} graph launches were recorded as a whole: the kernels inside are "
                           "not known (record with --cuda-graph-trace=node)")
    if host.open_ranges:
        are = "NVTX range is" if host.open_ranges == 1 else "NVTX ranges are"
        trace = trace.warn(f"{host.open_ranges:,} {are} still open: without an end, so no row")
    return trace


def _label(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".zst", ".sqlite", ".db", ".nsys-rep", "_pqtdir"):
        name = name.removesuffix(suffix) or name
    return name


def _tool(database: NsysDatabase) -> tuple[str, str | None]:
    """The exporting program with its version, and the schema version (None for exports before 2021)."""
    facts: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in database.rows(table, "name", "value"):
            if name in (_PRODUCT, _VERSION, _SCHEMA):
                facts[str(name)] = str(value)
    product = facts.get(_PRODUCT, "NVIDIA Nsight Systems").removeprefix("NVIDIA ")
    return f"{product} {facts.get(_VERSION, '')}".strip(), facts.get(_SCHEMA)


def _epoch(database: NsysDatabase) -> int | None:
    """The Unix time of the export's time zero, in ns; None where unknown."""
    row = database.first("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    return int(row[0]) if row is not None and isinstance(row[0], int) else None


def _devices(database: NsysDatabase) -> dict[str, Device]:
    """The GPUs of the machine, with their recorded properties."""
    results: dict[str, Device] = {}
    rows = database.rows("TARGET_INFO_GPU", "vmId", "id", "cuDevice", "name", *_PROPERTIES)
    machines = lookups.machines(database)
    for place, (vm, own, cuda, name, *values) in enumerate(rows):
        number = next((one for one in (own, cuda) if isinstance(one, int) and one >= 0), place)  # old rows lack ids
        properties: dict[str, Any] = {
            key: value for key, value in zip(_PROPERTIES, values, strict=True) if value is not None
        }
        device = f"GPU {number}"
        if len(machines) > 1 and isinstance(vm, int):
            device = f"VM {machines.index(vm >> 48 & 0xFFFF)} {device}"
        results[device] = Device(device, str(name) if name else None, properties)
    return results


def _threads(database: NsysDatabase, strings: pl.DataFrame, pids: Collection[int | None]) -> dict[str, str]:
    """The thread names of these processes, by ``pid tid``."""
    texts = dict(strings.select("id", pl.col("text").cast(pl.String)).rows())
    names = {number: texts.get(name) for number, name in database.rows("ThreadNames", "globalTid", "nameId")
             if isinstance(number, int)}
    return {f"{number >> 24 & 0xFFFFFF} {number & 0xFFFFFF}": name for number, name in names.items()
            if name and number >> 24 & 0xFFFFFF in pids}


def _ranks(database: NsysDatabase) -> dict[int, int]:
    """MPI rank by process id."""
    pairs = database.rows("MPI_RANKS", "globalTid", "rank")
    return {tid >> 24 & 0xFFFFFF: rank for tid, rank in pairs if isinstance(tid, int) and isinstance(rank, int)}
