"""Reads the folder as one run: the trace with its operators, and the data that only the tables have.

``trace_view.json`` has every task with its times, the host events and the flows; ``kernel_details.csv``, one row per
task of a core and per collective, adds the utilisation of the matrix units and the number of cores a kernel ran on. Its
times are microseconds as text followed by a tab, parsed digit by digit to nanoseconds; its columns varied over the
years. Without the trace, kernels come from the table. The rank is in ``profiler_info_N.json`` above the folder. The
profiler's own summaries (``step_trace_time.csv``) are stored unchanged in ``info.facts``, for comparison.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from msgspec.structs import replace

from .. import csv_table, kineto, schema
from ..account.repeats import without_repeats
from ..errors import Unreadable
from ..ingest import stream
from ..kineto import dialect
from ..kineto.flows import changed
from ..loader import Job
from ..recording.database import tables_of
from ..recording.faults import OUT_OF_RANGE, Faults, timeless_launches
from ..recording.values import Clock, Kind, dtype_of, numbers
from ..rocm.csv_files import rows_of, unread_beside
from ..schema import NAME
from ..trace import Device, Info, Trace
from .files import BESIDE, RANK

_COLLECTIVE = r"(?i)^hcom"
_CUBE = ("aic_mac_ratio", "mac_ratio", "cube_utilization(%)")
"""Columns with the utilisation of the matrix units: a fraction of the core's cycles, or percent."""
_CORE = "Accelerator Core"
_TOOL = "Ascend PyTorch profiler"
_ALLOCATOR = "PTA"
"""The component that is PyTorch's allocator; others are the graph engine, both together, and the whole process."""
_MEGABYTE = 1 << 20
_MOST_MEMORY_BYTES = 256 << 20
_COLUMNS = dict(
    zip([metric for metric, _ in dialect.MEMORY_TOTALS], ["Total Allocated(MB)", "Total Reserved(MB)"], strict=True)
)


def load(job: Job) -> Trace:
    """Read the table and, if it has its original name, the files next to it. Raises Unreadable if it has no kernel."""
    text, fault = stream.read_all(job.path)
    faults = Faults()
    table = _rows(text, job.path.name, faults)
    warnings = [*([fault] if fault else ()), *faults.warnings()]
    if table.height and table["core"].null_count() == table.height:
        warnings.append(f"{job.path.name} lacks the column {_CORE} (core of each kernel): collectives are recognised "
                        "by name only")
    in_folder = job.path.name == "kernel_details.csv"
    trace = _of_trace(job, table, warnings) if in_folder and job.path.with_name("trace_view.json").is_file() else None
    if trace is None:
        trace = _of_table(job, table, warnings)
    return _placed(trace, job) if in_folder else trace


def _of_trace(job: Job, table: pl.DataFrame, warnings: list[str]) -> Trace | None:
    """The run from ``trace_view.json``; None if that cannot be read, or lacks device activities that the table has."""
    path = job.path.with_name("trace_view.json")
    try:
        rank = _rank(job.path.parent)
        options = job.options if rank is None else {**job.options, "rank": rank}
        (trace,) = kineto.LOADER.load(replace(job, path=path, options=options))
    except Unreadable as refused:
        warnings.append(f"trace_view.json {refused.reason}: operators and host slices are missing")
        for file in job.workspace.iterdir():
            file.unlink()
        return None
    zero = trace.info.epoch_ns
    kernels = trace.kernels.select("index", "start_ns", "stream", "kind").collect()
    if zero is None or kernels.is_empty():
        warnings.append("trace_view.json holds no device activities: kernels are taken from kernel_details.csv")
        return None if table.height else trace.warn(*warnings)
    listed_tasks = table.with_columns(pl.col("start_ns") - zero).unique(["start_ns", "stream"], maintain_order=True)
    matches = kernels.join(listed_tasks, on=["start_ns", "stream"], how="inner").select(
        pl.col("grid").cast(NAME), pl.col("tensor").cast(pl.Float32), pl.col("op_type", "core").cast(NAME),
        row=pl.col("index").cast(pl.UInt32)
    )
    compute = int((table["kind"] == "kernel").sum()) if table.height else 0
    traced = int((kernels["kind"].cast(pl.String) == "kernel").sum())
    if compute != traced:
        listed = f"kernel_details.csv lists {compute:,} kernels, trace_view.json {traced:,}"
        warnings.append(f"{listed}: kernels are taken from trace_view.json")
    trace = trace.with_tables(kernels=changed("kernels", trace.kernels, matches, job))
    return replace(trace, info=replace(trace.info, warnings=(*trace.info.warnings, *warnings)))


def _of_table(job: Job, table: pl.DataFrame, warnings: list[str]) -> Trace:
    """The run from the table alone: device activities, and steps that span the kernels of each."""
    if table.is_empty():
        raise Unreadable(job.path, "lists no kernel", "Check that kernels ran while it recorded.")
    lowest = min(table["start_ns"].drop_nulls(), default=0)
    if timeless := table["start_ns"].null_count():
        warnings = [*warnings, timeless_launches(timeless, table.height)]
    derived = table.with_columns(
        pl.col("start_ns") - lowest, pl.col("name", "kind", "device", "grid", "op_type", "core").cast(NAME),
        pl.col("tensor").cast(pl.Float32),
    ).with_row_index("index")
    end = pl.col("start_ns") + pl.col("dur_ns")
    steps = (
        derived.drop_nulls(["step", "start_ns"]).group_by("step")
        .agg(pl.col("start_ns").min(), (end.max() - pl.col("start_ns").min()).alias("dur_ns"),
             pl.col("index").min().alias("first_index"), pl.col("index").max().alias("last_index"))
        .sort("start_ns").select(
            pl.col("step").alias("cycle"), "start_ns", "dur_ns", pl.col("first_index", "last_index").cast(pl.Int64),
            pl.format("step {}", "step").cast(NAME).alias("label"), kind=pl.lit("step", NAME),
            source=pl.lit("recorded", NAME), complete=True,
        )
    )  # fmt: skip
    devices = derived["device"].cast(pl.String).drop_nulls().unique().sort().to_list()
    info = Info(
        source=str(job.path), label=_label(job.path), format="ascend", tool=_TOOL, bytes=job.path.stat().st_size,
        devices=tuple(Device(device) for device in devices), epoch_ns=lowest if lowest > 10**18 else None,
        clock="wall clock" if lowest > 10**18 else None, warnings=tuple(warnings),
    )  # fmt: skip
    kernels = schema.conform("kernels", derived.lazy())
    return without_repeats(Trace(info, kernels=kernels, cycles=schema.conform("cycles", steps.lazy())), job)


def _placed(trace: Trace, job: Job) -> Trace:
    """The run with its rank, the profiler's own summaries, its allocations and its memory samples."""
    folder = job.path.parent
    facts: dict[str, Any] = {**trace.info.facts}
    for name in ("step_trace_time", "op_statistic"):
        if records := _table(folder / f"{name}.csv"):
            facts[name] = records
    if collectives := _collectives(folder / "communication.json"):
        facts["communication"] = collectives
    read_from = (folder / name for name in ("kernel_details.csv", "trace_view.json"))
    sizes = [file.stat().st_size for file in read_from if file.exists()]
    rank = _rank(folder)
    info = replace(
        trace.info, source=str(job.path), label=_label(job.path), format="ascend", tool=_TOOL, facts=facts,
        bytes=sum(sizes), ranks=trace.info.ranks if rank is None else (rank,),
    )  # fmt: skip
    trace, faults = replace(trace, info=info), Faults()
    record, operators = folder / "memory_record.csv", folder / "operator_memory.csv"
    if info.epoch_ns is not None and operators.is_file() and operators.stat().st_size <= _MOST_MEMORY_BYTES:
        allocations = _allocations(operators, info.epoch_ns, rank, faults)
        trace = trace.with_tables(allocations=allocations) if allocations is not None else trace.warn(
            "operator_memory.csv lacks expected columns: what held the memory is unknown")
    if info.epoch_ns is not None and record.is_file():
        trace = _with_samples(trace, _memory_samples(record, info.epoch_ns, rank, faults), job)
    facts["tables"] = _tables(job.path)
    return trace.warn(*faults.warnings())


def _tables(path: Path) -> list[tuple[str, int, bool]]:
    """The tables of the folder, read or not; the trace beside them is no table."""
    read = {one.name: rows_of(one) for one in (path, *(path.with_name(name) for name in BESIDE))
            if one.suffix == ".csv" and one.is_file()}
    return tables_of(read, unread_beside(path, [path.with_name(name) for name in BESIDE]))


def _with_samples(trace: Trace, more: pl.LazyFrame, job: Job) -> Trace:
    """The run with more samples appended; all samples are then in memory, and written metrics files are deleted."""
    rows = pl.concat([schema.conform("metrics", trace.metrics), more]).collect()
    for old in (*job.workspace.glob("metrics.arrow"), *job.workspace.glob("metrics-*.arrow")):
        old.unlink()
    return trace.with_tables(metrics=rows.lazy())


def _memory_samples(path: Path, zero: int, rank: int | None, faults: Faults) -> pl.LazyFrame:
    """The rows of ``metrics`` in ``memory_record.csv``: values in bytes, times in ns relative to ``zero``."""
    if path.stat().st_size > _MOST_MEMORY_BYTES:
        return schema.empty("metrics")
    table = _read_table(path.read_bytes(), path.name, faults)
    if not {"Component", "Timestamp(us)", "Device Type", *_COLUMNS.values()} <= set(table.columns):
        return schema.empty("metrics")
    samples = table.filter(pl.col("Component") == _ALLOCATOR)
    samples = samples.with_columns(
        (_numbers(samples, "Timestamp(us)", path.name, faults, "ns", 1000) - zero).alias("ts_ns"),
        *(_numbers(samples, column, path.name, faults, "real", _MEGABYTE) for column in _COLUMNS.values()),
    ).drop_nulls("ts_ns").sort("ts_ns", maintain_order=True)
    frames = [
        samples.select(
            "ts_ns", pl.lit(metric).alias("metric"), pl.col("Device Type").str.replace(":", " ").alias("device"),
            pl.col(column).alias("value"), unit=pl.lit("B"), rank=pl.lit(rank, pl.Int64),
        ).drop_nulls("value")
        for metric, column in _COLUMNS.items()
    ]
    return schema.conform("metrics", pl.concat(frames).lazy())


def _allocations(path: Path, zero: int, rank: int | None, faults: Faults) -> pl.LazyFrame | None:
    """The rows of ``allocations`` in ``operator_memory.csv``, with the operator as ``stack``; the duration is null if
    the release was not recorded. None if columns are missing."""
    table = _read_table(path.read_bytes(), path.name, faults)
    if not {"Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)"} <= set(table.columns):
        return None
    start, end = (
        _numbers(table, f"{what} Time(us)", path.name, faults, "ns", 1000) for what in ("Allocation", "Release"))
    frame = table.select(
        pl.col("Name").cast(NAME).alias("stack"), pl.lit(rank, pl.Int64).alias("rank"),
        _numbers(table, "Size(KB)", path.name, faults, "bytes", 1024).alias("bytes"),
        _text(table, "Device Type").str.replace(":", " ").cast(NAME).alias("device"),
        start.alias("start_ns") - zero, (end - start).alias("dur_ns"),
    ).filter(pl.col("bytes") > 0, pl.col("start_ns").is_not_null() | end.is_not_null())
    return schema.conform("allocations", frame.lazy())


def _rank(folder: Path) -> int | None:
    """The rank, from the content or the name of ``profiler_info_N.json`` above the folder; None if unknown."""
    for file in (found for pattern in RANK for found in sorted(folder.parent.glob(pattern))):
        try:
            document = orjson.loads(file.read_bytes())
        except (OSError, ValueError):
            document = None
        rank = document.get("rank_id") if isinstance(document, dict) else None
        if type(rank) is int and 0 <= rank < 1 << 31:
            return rank
        if found := re.search(r"_(\d{1,9})\.json$", file.name):
            return int(found[1])
    return None


_MOST_ROWS = 1000


def _table(path: Path) -> list[dict[str, Any]]:
    """The first rows of a small table, as texts by column; [] if it is missing or too large."""
    if not path.is_file() or path.stat().st_size > 8 << 20:
        return []
    return _read_table(path.read_bytes(), path.name).head(_MOST_ROWS).to_dicts()


def _collectives(path: Path) -> dict[str, Any]:
    """Step → collective → its times in ``communication.json`` (transfer, wait, …); {} if it cannot be read."""
    try:
        document = orjson.loads(path.read_bytes()) if path.is_file() and path.stat().st_size <= 32 << 20 else {}
    except (OSError, ValueError):
        return {}
    times: dict[str, Any] = {}
    for step, kinds in list(document.items())[:_MOST_ROWS] if isinstance(document, dict) else ():
        group = kinds.get("collective") if isinstance(kinds, dict) else None
        for name, one in list(group.items())[:_MOST_ROWS] if isinstance(group, dict) else ():
            if isinstance(one, dict) and isinstance(one.get("Communication Time Info"), dict):
                times.setdefault(str(step), {})[str(name)] = one["Communication Time Info"]
    return times


def _label(path: Path) -> str:
    """The name of the folder made by the profiler, else of the file."""
    above = path.resolve().parent
    if path.name != "kernel_details.csv":
        return path.name.split(".")[0]
    folder = above.parent if above.name == "ASCEND_PROFILER_OUTPUT" else above
    return folder.name or path.name


def _read_table(text: bytes, name: str, faults: Faults | None = None) -> pl.DataFrame:
    """A table of texts with stripped column names; of columns with the same name, the first."""
    table = csv_table.read(text, faults=faults, table=name)
    names: dict[str, str] = {}
    for name in table.columns:
        names.setdefault(name.strip(), name)
    return pl.DataFrame([table[name].alias(plain) for plain, name in names.items()])  # a name may look like a pattern


def _rows(text: bytes, name: str, faults: Faults) -> pl.DataFrame:
    """The rows in columns of ``kernels`` plus ``step``, by start, times absolute (ns), those without one last."""
    table = _read_table(text, name, faults)
    if not {"Name", "Start Time(us)", "Duration(us)"} <= set(table.columns):
        return pl.DataFrame(schema={**schema.polars_schema("kernels"), "step": pl.Int64})
    begin, end = "Start Time(us)", "Duration(us)"
    derived = table.with_columns(
        *(_numbers(table, column, name, faults, "ns", 1000) for column in (begin, end)),
        tensor=_tensor(table, name, faults),
        stream=_numbers(table, "Stream ID", name, faults), step=_numbers(table, "Step Id", name, faults),
        _device=_numbers(table, "Device_id", name, faults), blocks=_numbers(table, "Block Dim", name, faults),
    ).with_columns(pl.col(end) + pl.col(begin), device=pl.format("NPU {}", "_device"))
    sound = Clock(faults).timed(derived.drop_nulls("Name"), name, begin, end)
    if nameless := derived.height - sound.height:
        faults.left_out[name] = nameless
    is_hccl = (pl.col(_CORE) == "HCCL").fill_null(False) if _CORE in table.columns else pl.lit(False)
    collective = pl.col("Name").str.contains(_COLLECTIVE) | is_hccl
    return sound.sort("start_ns", nulls_last=True, maintain_order=True).select(
        "start_ns", "dur_ns", pl.col("Name").alias("name"),
        pl.when(collective).then(pl.lit("collective")).otherwise(pl.lit("kernel")).alias("kind"),
        "device", "stream", "tensor", "step",
        pl.when(pl.col("blocks") > 0).then(pl.format("{},1,1", "blocks")).alias("grid"),
        pl.when(~collective).then(_text(table, "Type")).alias("op_type"),
        pl.when(~collective).then(_text(table, _CORE)).alias("core"),
    )  # fmt: skip


def _numbers(
    table: pl.DataFrame, column: str, name: str, faults: Faults, kind: Kind = "id", factor: float = 1
) -> pl.Series:
    """A column of the table ``name``, recorded in a unit ``factor`` times larger; null where there is none."""
    if column not in table.columns:
        return pl.repeat(None, table.height, dtype=dtype_of(kind), eager=True)
    return numbers(table[column], kind, faults, name, factor=factor)


def _text(table: pl.DataFrame, name: str) -> pl.Expr:
    """A text column, with null for empty cells and N/A."""
    if name not in table.columns:
        return pl.lit(None, pl.String)
    words = pl.col(name).str.strip_chars()
    return pl.when(~words.is_in(["", "N/A"])).then(words)


def _tensor(table: pl.DataFrame, name: str, faults: Faults) -> pl.Series:
    column = next((column for column in _CUBE if column in table.columns), "")
    share = _numbers(table, column, name, faults, "real", 0.01 if column.endswith("(%)") else 1)
    impossible = (~share.is_between(0, 1)).fill_null(False)
    faults.wrong(name, column, OUT_OF_RANGE, int(impossible.sum()))
    return share.set(impossible, None)
