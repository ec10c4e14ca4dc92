"""CSV reports of ``nsys stats``: ``cuda_gpu_trace`` as launches, the summaries of kernels and copies as aggregates.

A report may follow notices of the tool, and one file may hold several reports, each with a header of its own. Times and
sizes carry their unit in the header (``--timeunit``), and headers changed over the years (``Start(nsec)`` in 2020,
``Start (ns)`` now), so columns are found by their words. Reports of other things (API calls, NVTX) are left alone.
"""

from __future__ import annotations

import re

import polars as pl
from msgspec import Struct

from . import csv_table, schema
from .collective_names import kernel_kind
from .errors import Unreadable
from .ingest import stream
from .loader import FormatLoader, Job
from .schema import NAME
from .schema_limits import LATEST_NS, LONGEST_NS
from .trace import Device, Info, Trace

_HEADER = re.compile(rb'(?m)^"?(?:Start ?\(|Time ?\(%\))[^\r\n]*')
_UNIT = re.compile(r"\(([^()]*)\)\s*$")
_TIMES = {"ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_COUNTS = ("instances", "count", "operations")


class _Report(Struct, frozen=True):
    """One report of the file: what it is ('trace' or 'summary'), its columns, and where its text lies."""

    kind: str
    columns: dict[str, tuple[str, str]]
    start: int
    end: int


def _reports(text: bytes) -> list[_Report]:
    """The reports we read, in file order."""
    found = list(_HEADER.finditer(text))
    reports = []
    for number, header in enumerate(found):
        columns = _columns(header.group().decode("utf-8", "replace"))
        if kind := _kind(columns):
            limit = found[number + 1].start() if number + 1 < len(found) else len(text)
            blank = re.compile(rb"\r?\n\s*\n").search(text, header.end(), limit)
            reports.append(_Report(kind, columns, header.start(), blank.start() if blank else limit))
    return reports


def _columns(header: str) -> dict[str, tuple[str, str]]:
    """Plain name ('start', 'total time') → the column as written and its unit."""
    found: dict[str, tuple[str, str]] = {}
    for written in header.split(","):
        written = written.strip().strip('"')
        unit = _UNIT.search(written)
        plain = _UNIT.sub("", written).strip().lower()
        found.setdefault(plain, (written, unit[1].lower() if unit else ""))
    return found


def _kind(columns: dict[str, tuple[str, str]]) -> str | None:
    if {"start", "duration", "name", "strm"} <= columns.keys():
        return "trace"
    if "total time" not in columns or {"style", "range", "category", "num calls"} & columns.keys():
        return None
    return "summary" if any(c in columns for c in _COUNTS) and {"name", "operation"} & columns.keys() else None


class NsysStats(FormatLoader):
    """The loader of CSV reports of ``nsys stats``."""

    name = "nsys-stats"
    title = "nsys stats CSV: cuda_gpu_trace (launches), cuda_gpu_kern_sum and cuda_gpu_mem_time_sum (aggregates)"
    suffixes = (".csv",)
    version = 1

    def sniff(self, head: bytes) -> bool:
        """The header of one of the reports we read, at the start of a line."""
        return bool(_reports(head))

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels`` or ``kernel_stats``. Raises Unreadable where no row can be read."""
        text, ended = stream.whole(job.path)
        job.progress(len(text) // 2, len(text), 0)
        reports = _reports(text)
        warnings = [f"truncated: {ended}"] if ended else []
        launches = _launches(text, [r for r in reports if r.kind == "trace"][:1], warnings)
        totals = _totals(text, [r for r in reports if r.kind == "summary"], warnings)
        if not (launches.height or totals.height):
            raise Unreadable(job.path, "is a report of nsys stats without a row", "Check what was recorded.")
        devices = launches.select(pl.col("device"), "_device").unique().drop_nulls("device").sort("device")
        info = Info(
            source=str(job.path), label=job.path.name.split(".")[0], format=self.name, tool="nsys stats",
            bytes=job.path.stat().st_size, warnings=tuple(warnings), clock="session, ns" if launches.height else None,
            devices=tuple(Device(str(device), name or None) for device, name in devices.rows()),
        )
        job.progress(len(text), len(text), launches.height + totals.height)
        return (
            Trace(
                info,
                kernels=schema.conform("kernels", launches.lazy()),
                kernel_stats=schema.conform("kernel_stats", totals.lazy()),
            ),
        )


def _read(text: bytes, report: _Report) -> pl.DataFrame:
    """The rows as text, under the plain names of their columns; a column whose name is damaged is one of nulls."""
    frame = csv_table.read(text[report.start : report.end])
    present = {column.strip(): column for column in reversed(frame.columns)}
    return frame.select(
        pl.col(present[written]).alias(plain) if written in present else pl.lit(None, dtype=pl.String).alias(plain)
        for plain, (written, _) in report.columns.items()
    )


def _number(report: _Report, column: str, units: dict[str, int]) -> pl.Expr:
    """A column as a number in the smallest unit; null where it is missing or no number."""
    if column not in report.columns:
        return pl.lit(None, dtype=pl.Float64)
    return pl.col(column).str.strip_chars().cast(pl.Float64, strict=False) * units.get(report.columns[column][1], 1)


def _integer(report: _Report, column: str, units: dict[str, int] | None = None) -> pl.Expr:
    """The same as an integer: exactly the text's where it is one and needs no conversion."""
    scale = (units or {}).get(report.columns.get(column, ("", ""))[1], 1)
    if column in report.columns and scale == 1:
        exact = pl.col(column).str.strip_chars().cast(pl.Int64, strict=False)
        return pl.coalesce(exact, _number(report, column, units or {}).round().cast(pl.Int64, strict=False))
    return _number(report, column, units or {}).round().cast(pl.Int64, strict=False)


def _activity_kind(names: pl.DataFrame, name: str) -> pl.DataFrame:
    """Each name with the ``kind`` of activity it stands for, as categories."""
    def kind(text: str) -> str:
        if text.startswith("[CUDA"):
            return "memset" if "memset" in text else "memcpy"
        return kernel_kind(text)

    few = names.select(pl.col(name).unique()).drop_nulls()
    return few.with_columns(
        pl.col(name).map_elements(kind, return_dtype=pl.String).cast(NAME).alias("kind")
    )


def _launches(text: bytes, reports: list[_Report], warnings: list[str]) -> pl.DataFrame:
    empty = pl.DataFrame(schema={**schema.polars_schema("kernels"), "_device": pl.String})
    for report in reports:
        rows = _read(text, report)
        read = rows.height
        rows = rows.with_columns(
            start_ns=_integer(report, "start", _TIMES), dur_ns=_integer(report, "duration", _TIMES),
        ).drop_nulls(["start_ns", "dur_ns", "name"]).filter(
            pl.col("start_ns").is_between(-LATEST_NS, LATEST_NS), pl.col("dur_ns") <= LONGEST_NS
        ).sort("start_ns", maintain_order=True)
        if lost := read - rows.height:
            warnings.append(f"left out of the trace: {lost:,} of {read:,} rows, which are not activities")
        rows = rows.join(_activity_kind(rows, "name"), on="name", how="left", maintain_order="left")
        device = pl.col("device") if "device" in report.columns else pl.lit(None, dtype=pl.String)
        rows = rows.with_columns(
            _number=device.str.extract(r"(?:\(|^GPU ?)(\d+)\)?\s*$"),
            _device=device.str.replace(r"\s*\(\d+\)\s*$", ""),
        )
        return rows.select(
            pl.col("start_ns") - pl.col("start_ns").min(), pl.col("dur_ns").clip(lower_bound=0),
            pl.col("name").cast(NAME), "kind", pl.format("GPU {}", "_number").cast(NAME).alias("device"), "_device",
            _integer(report, "strm").alias("stream"), _integer(report, "corrid").alias("correlation"),
            _shape(report, "grd").alias("grid"), _shape(report, "blk").alias("block"),
            _integer(report, "reg/trd").cast(pl.Int32, strict=False).alias("registers"),
            (_integer(report, "stcsmem", _SIZES) + _integer(report, "dymsmem", _SIZES)).alias("shared_bytes"),
            _integer(report, "bytes", _SIZES).alias("bytes"),
        ).with_row_index("index")
    return empty


def _shape(report: _Report, start: str) -> pl.Expr:
    columns = [f"{start}{axis}" for axis in "xyz"]
    if not set(columns) <= report.columns.keys():
        return pl.lit(None, dtype=NAME)
    sizes = [pl.col(column).str.strip_chars().cast(pl.Int64, strict=False) for column in columns]
    return pl.format("{},{},{}", *sizes).cast(NAME)


def _totals(text: bytes, reports: list[_Report], warnings: list[str]) -> pl.DataFrame:
    frames = []
    for report in reports:
        rows = _read(text, report)
        name = "name" if "name" in report.columns else "operation"
        count = next(column for column in _COUNTS if column in report.columns)

        def time(*names: str, report: _Report = report) -> pl.Expr:
            found = next((column for column in names if column in report.columns), names[0])
            return _number(report, found, _TIMES)

        made = rows.join(_activity_kind(rows, name), on=name, how="left", maintain_order="left").select(
            pl.col(name).cast(NAME).alias("name"), "kind", _integer(report, count).alias("count"),
            _integer(report, "total time", _TIMES).alias("total_ns"), time("avg", "average").alias("mean_ns"),
            time("min", "minimum").round().cast(pl.Int64, strict=False).alias("min_ns"),
            time("max", "maximum").round().cast(pl.Int64, strict=False).alias("max_ns"),
        ).drop_nulls(["name", "count", "total_ns"])
        if lost := rows.height - made.height:
            warnings.append(f"left out of a summary: {lost:,} of {rows.height:,} rows, which could not be read")
        frames.append(made)
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema.polars_schema("kernel_stats"))


LOADER = NsysStats()
