"""Builds a Trace from rocprof results: one row per kernel dispatch, with its counters if any were collected.

Rows are in order of completion; ``Index`` numbers the dispatches. Collecting counters serialises kernels, so a file
with counters is a serialised run.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from ..ingest import stream
from ..loader import Job
from ..recording.database import tables_of
from ..recording.recording import Recording, one_axis
from ..recording.values import columns, numbers
from ..trace import Info, Trace
from .csv_files import COLUMNS, TOTALS, files_of_program, frames, has_header, rows_of, unread_beside
from .values import kinds

_INTS = ("index", "beginns", "endns", "gpu-id", "queue-id", "pid", "tid", "grd", "wgr", "lds", "vgpr", "arch_vgpr")
_NO_COUNTERS = frozenset((
    *COLUMNS, "arch_vgpr", "accum_vgpr", "wave_size", "accum_offset", "dispatch_id", "correlation_id", "kernel_id",
))


def load(job: Job) -> tuple[Trace, ...]:
    """Read the file. Raises Unreadable if no dispatch has a time."""
    table = job.path.name
    with ThreadPoolExecutor(1) as writer, stream.Source(job.path) as source:
        info = Info(
            source=str(job.path), label=table.split(".")[0], format="rocprof", tool="rocprof", bytes=source.size,
            clock="since boot, ns",
        )
        recording, counted = Recording(job, info, writer), False
        launches: list[pl.DataFrame] = []
        header = None if has_header(stream.head(job.path, 8192)) else list(COLUMNS)
        for block in frames(source, header=header, faults=recording.faults, table=table):
            rows = columns(block, table, recording.faults, kinds(_INTS), ["kernelname"])
            rows = rows.with_columns(start="beginns", end="endns", device=pl.format("GPU {}", "gpu-id"))
            recording.activities(rows.select(
                "start", "end", "pid", "device", name="kernelname", stream="queue-id", grid=one_axis("grd"),
                block=one_axis("wgr"), registers=pl.coalesce("arch_vgpr", "vgpr"), shared_bytes="lds",
            ), table)
            names = [name for name in block.columns if name not in _NO_COUNTERS]
            counted = counted or bool(names)
            for name in names:
                counter = numbers(block[name], "real", recording.faults, table)
                recording.counters(rows.select(
                    "device", "pid", ts_ns="start", metric=pl.lit(name.upper()), unit=pl.lit(""), value=counter
                ).drop_nulls("value"), table)
            job.progress(source.position, source.size, recording.rows)
            launches.append(rows.select(pl.col("index"), "start", "device", "pid"))
        files = files_of_program(job.path)
        used = [path for path in files if not TOTALS.search(path.name) or path.name.endswith(".stats.csv")]
        read = {table: sum(frame.height for frame in launches), **{path.name: rows_of(path) for path in used}}
        for path in files:
            if not TOTALS.search(path.name):  # totals of the same dispatches
                counted = True
                _counters(recording, path, pl.concat(launches))
        if source.fault:
            recording.faults.sentences.append(source.fault)
        trace = recording.finish(serialised=counted)
        trace.info.facts["tables"] = tables_of(read, {
            name: rows for name, rows in unread_beside(job.path, used).items()
            if files or name.startswith(table.removesuffix("csv"))})
        return (trace,)


def _counters(recording: Recording, path: Path, launches: pl.DataFrame) -> None:
    """Add the counters of a file without times to the dispatches of the same index."""
    with stream.Source(path) as source:
        for block in frames(source, faults=recording.faults, table=path.name):
            rows = columns(block, path.name, recording.faults, kinds(["index"]))
            placed = rows.join(launches, on="index", how="left", maintain_order="left")
            for name in block.columns:
                if name not in _NO_COUNTERS:
                    counter = numbers(block[name], "real", recording.faults, path.name)
                    recording.counters(placed.select(
                        "device", pid=pl.lit(None, pl.Int64), ts_ns="start", metric=pl.lit(_spelled(path, name)),
                        unit=pl.lit(""), value=counter,
                    ).drop_nulls(["value", "ts_ns"]), path.name)


def _spelled(path: Path, name: str) -> str:
    """A counter as its heading spells it: FetchSize."""
    with stream.Source(path) as source:
        line = source.read(8192).split(b"\n", 1)[0].decode("utf-8", "replace")
    written = {cell.strip().strip('"').lower(): cell.strip().strip('"') for cell in line.split(",")}
    return written.get(name, name)
