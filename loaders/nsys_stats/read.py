"""Builds Traces from ``nsys stats`` reports: launches, calls and ranges from trace reports, totals from summaries."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from .. import csv_table, schema
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..ingest import stream
from ..loader import Job
from ..schema import NAME
from ..schema_limits import LATEST_NS, LONGEST_NS
from ..trace import Device, Info, Trace
from .reports import COUNTS, StatsReport, printed_rows, recordings, reports_in

_TIMES = {"ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_DRIVER, _RUNTIME = re.compile(r"cu[A-Z]"), re.compile(r"cuda|hip|nv|cudnn|cublas|nccl")
_IO = re.compile(r"f?(read|write|open|close|puts|gets|flush|seek|stat|sync)|p(read|write)|(send|recv|connect|accept)")


def _lost(warnings: list[str], what: str, read: int, usable: int, why: str) -> None:
    """Add a warning with the number of unusable rows of a report, if there are any."""
    if read > usable:
        warnings.append(f"{read - usable:,} of {read:,} rows of {what} were left out: they {why}")


def load(job: Job) -> tuple[Trace, ...]:
    """One Trace per recording in the file. Raises Unreadable if no row can be read."""
    text, fault = stream.read_all(job.path)
    job.progress(len(text) // 2, len(text), 0)
    runs = recordings(reports_in(text))
    traces = []
    for number, reports in enumerate(runs):
        label = job.path.name.split(".")[0] + (f" {number}" if len(runs) > 1 else "")
        if (trace := _recording(job, label, text, reports)) is not None:
            traces.append(trace.warn(fault) if fault else trace)
    if not traces:
        raise Unreadable(job.path, "is an nsys stats report without rows", "Check that the recording has any.")
    job.progress(len(text), len(text), len(runs))
    return tuple(traces)


def _recording(job: Job, label: str, text: bytes, reports: list[StatsReport]) -> Trace | None:
    """The Trace of one recording; None if none of its reports has a usable row."""
    faults = list[str]()

    def of(kind: str) -> list[tuple[StatsReport, pl.DataFrame]]:
        return [(report, _rows(text, report)) for report in reports if report.kind == kind]

    launches = _together([_launches(*one, faults) for one in of("launches")])
    calls = _together([_calls(*one, faults) for one in of("calls")] + [_ranges(*one, faults) for one in of("ranges")])
    sums = [_sums(*one, faults) for one in of("sums")]
    host = [_host_sums(*one, "name", faults) for one in of("call sums")]
    host += [_host_sums(*one, "range", faults) for one in of("range sums")]
    for report, rows in of("mixed sums"):
        category = pl.col("category").str.to_uppercase()
        device = category.str.contains("KERNEL|MEMORY|MEMCPY|MEMSET").fill_null(False)
        if not sums:
            sums.append(_sums(report, rows.filter(device), faults))
        if not host:
            host.append(_host_sums(report, rows.filter(~device), "operation", faults))
    totals, hosts = _together(sums), _together(host)
    sizes = _together([_sizes(*one) for one in of("size sums")])
    if not any(frame.height for frame in (launches, calls, totals, hosts, sizes)):
        return None
    if unread := sorted({one.title or next(iter(one.columns), "?") for one in reports if not one.kind}):
        faults.append(f"not shown: {len(unread)} reports that no table of warplens holds ({', '.join(unread[:6])})")
    if sizes.height:
        totals = _with_sizes(totals, sizes)
    zero = min((frame["start_ns"].to_numpy().min() for frame in (launches, calls) if frame.height), default=0)
    devices = launches.select("device", "_device").unique().drop_nulls("device").sort("device") if (
        launches.height) else pl.DataFrame(schema={"device": NAME, "_device": pl.String})
    info = Info(
        source=str(job.path), label=label, format="nsys-stats", tool="nsys stats", bytes=job.path.stat().st_size,
        warnings=tuple(faults), clock="session, ns" if launches.height or calls.height else None,
        devices=tuple(Device(str(device), name or None) for device, name in devices.rows()),
    )
    return Trace(
        info, kernels=_table("kernels", launches, zero, "index"), host=_table("host", calls, zero),
        kernel_stats=schema.conform("kernel_stats", totals.lazy()),
        host_stats=schema.conform("host_stats", hosts.lazy()),
    )


def _together(frames: list[pl.DataFrame]) -> pl.DataFrame:
    filled = [frame for frame in frames if frame.height]
    return pl.concat(filled, how="diagonal") if filled else pl.DataFrame()


def _table(name: str, rows: pl.DataFrame, zero: int, index: str = "") -> pl.LazyFrame:
    if not rows.height:
        return schema.empty(name)
    rows = rows.sort("start_ns", maintain_order=True).with_columns(pl.col("start_ns") - int(zero))
    return schema.conform(name, (rows.with_row_index(index) if index else rows).lazy())


def _rows(text: bytes, report: StatsReport) -> pl.DataFrame:
    """The rows as text, under plain column names; a column whose name is damaged is all null."""
    if report.spans:
        cells = printed_rows(text, report)
        dtypes = dict.fromkeys(report.columns, pl.String)
        width = len(dtypes)
        return pl.DataFrame([row[:width] for row in cells if len(row) >= width], schema=dtypes, orient="row")
    frame = csv_table.read(text[report.start : report.end])
    present = {column.strip(): column for column in reversed(frame.columns)}
    return frame.select(
        pl.col(present[written]).alias(plain) if written in present else pl.lit(None, dtype=pl.String).alias(plain)
        for plain, (written, _) in report.columns.items()
    )


def _number(report: StatsReport, column: str, units: dict[str, int]) -> pl.Expr:
    """A column as a number in its smallest unit (ns, bytes); null where it is missing or not a number."""
    if column not in report.columns:
        return pl.lit(None, dtype=pl.Float64)
    plain = pl.col(column).str.strip_chars().str.replace_all(",", "", literal=True)
    return plain.cast(pl.Float64, strict=False) * units.get(report.columns[column][1], 1)


def _integer(report: StatsReport, column: str, units: dict[str, int] | None = None) -> pl.Expr:
    """A column as an integer in its smallest unit; exact if the text is an integer that needs no unit conversion."""
    scale = (units or {}).get(report.columns.get(column, ("", ""))[1], 1)
    rounded = _number(report, column, units or {}).round().cast(pl.Int64, strict=False)
    if column in report.columns and scale == 1:
        plain = pl.col(column).str.strip_chars().str.replace_all(",", "", literal=True)
        return pl.coalesce(plain.cast(pl.Int64, strict=False), rounded)
    return rounded


def _kinds(rows: pl.DataFrame, name: str, kind: Callable[[str], str]) -> pl.DataFrame:
    """Add the ``kind`` of each name, as a categorical."""
    distinct = rows.select(pl.col(name).unique()).drop_nulls()
    distinct = distinct.with_columns(pl.col(name).map_elements(kind, return_dtype=pl.String).cast(NAME).alias("kind"))
    return rows.join(distinct, on=name, how="left", maintain_order="left")


def _activity(name: str) -> str:
    if name.startswith("[CUDA") or name.startswith("[HIP"):
        return "memset" if "memset" in name.lower() else "memcpy"
    return kernel_kind(name)


def _call(name: str) -> str:
    """'runtime' or 'driver' for calls of a device API, 'io' or 'sched' for calls of the operating system."""
    if _RUNTIME.match(name):
        return "runtime"
    return "driver" if _DRIVER.match(name) else _system(name)


def _timed(report: StatsReport, rows: pl.DataFrame, what: str, faults: list[str]) -> pl.DataFrame:
    """The rows with a name and plausible times, with ``start_ns`` and ``dur_ns`` added."""
    valid = rows.with_columns(
        start_ns=_integer(report, "start", _TIMES), dur_ns=_integer(report, "duration", _TIMES),
    ).drop_nulls(["start_ns", "dur_ns", "name"]).filter(
        pl.col("start_ns").is_between(-LATEST_NS, LATEST_NS), pl.col("dur_ns") <= LONGEST_NS, pl.col("name") != "",
    ).with_columns(pl.col("dur_ns").clip(lower_bound=0))
    _lost(faults, what, rows.height, valid.height, "are not activities")
    return valid


def _launches(report: StatsReport, rows: pl.DataFrame, faults: list[str]) -> pl.DataFrame:
    rows = _kinds(_timed(report, rows, "the trace", faults), "name", _activity)
    device = pl.col("device") if "device" in report.columns else pl.lit(None, dtype=pl.String)
    rows = rows.with_columns(
        _number=device.str.extract(r"(?:\(|^GPU ?)(\d+)\)?\s*$"), _device=device.str.replace(r"\s*\(\d+\)\s*$", ""),
    )
    return rows.select(
        "start_ns", "dur_ns", pl.col("name").cast(NAME), "kind",
        pl.format("GPU {}", "_number").cast(NAME).alias("device"), "_device",
        _integer(report, "strm").alias("stream"), _integer(report, "corrid").alias("correlation"),
        _shape(report, "grd").alias("grid"), _shape(report, "blk").alias("block"),
        _integer(report, "reg/trd").cast(pl.Int32, strict=False).alias("registers"),
        (_integer(report, "stcsmem", _SIZES) + _integer(report, "dymsmem", _SIZES)).alias("shared_bytes"),
        _integer(report, "bytes", _SIZES).alias("bytes"),
    )


def _shape(report: StatsReport, start: str) -> pl.Expr:
    columns = [f"{start}{axis}" for axis in "xyz"]
    if not set(columns) <= report.columns.keys():
        return pl.lit(None, dtype=NAME)
    return pl.format("{},{},{}", *(_integer(report, column) for column in columns)).cast(NAME)


def _calls(report: StatsReport, rows: pl.DataFrame, faults: list[str]) -> pl.DataFrame:
    return _kinds(_timed(report, rows, "the calls", faults), "name", _call).select(
        "start_ns", "dur_ns", pl.col("name").cast(NAME), "kind", _integer(report, "pid").alias("pid"),
        _integer(report, "tid").alias("tid"), _integer(report, "corrid").alias("correlation"),
    )


def _ranges(report: StatsReport, rows: pl.DataFrame, faults: list[str]) -> pl.DataFrame:
    return _timed(report, rows, "the ranges", faults).select(
        "start_ns", "dur_ns", pl.col("name").cast(NAME), pl.lit("annotation", NAME).alias("kind"),
        _integer(report, "pid").alias("pid"), _integer(report, "tid").alias("tid"),
    )


def _statistics(report: StatsReport, count: str) -> list[pl.Expr]:
    """Count, total, mean, median, minimum and maximum of a summary."""
    def time(*names: str) -> pl.Expr:
        return _number(report, next((name for name in names if name in report.columns), names[0]), _TIMES)

    def whole(*names: str) -> pl.Expr:
        return time(*names).round().cast(pl.Int64, strict=False)

    return [
        _integer(report, count).alias("count"), _integer(report, "total time", _TIMES).alias("total_ns"),
        time("avg", "average").alias("mean_ns"), whole("med", "median").alias("p50_ns"),
        whole("min", "minimum").alias("min_ns"), whole("max", "maximum").alias("max_ns"),
    ]


def _sums(report: StatsReport, rows: pl.DataFrame, faults: list[str]) -> pl.DataFrame:
    name = "name" if "name" in report.columns else "operation"
    count = next(column for column in COUNTS if column in report.columns)
    derived = _kinds(rows, name, _activity).select(
        pl.col(name).cast(NAME).alias("name"), "kind", *_statistics(report, count)
    ).drop_nulls(["name", "count", "total_ns"])
    _lost(faults, "a summary", rows.height, derived.height, "could not be read")
    return derived


def _host_sums(report: StatsReport, rows: pl.DataFrame, name: str, faults: list[str]) -> pl.DataFrame:
    """A summary of calls or ranges, in the columns of ``host_stats``."""
    kind: Callable[[str], str] = _call
    if name == "range":
        kind = lambda _: "annotation"  # noqa: E731
    elif report.title.startswith("osrt"):
        kind = _system
    count = "num calls" if "num calls" in report.columns else "instances"
    derived = _kinds(rows, name, kind).select(
        pl.col(name).str.strip_prefix(":").cast(NAME).alias("name"), "kind", *_statistics(report, count)
    ).drop_nulls(["name", "count", "total_ns"])
    _lost(faults, "a summary", rows.height, derived.height, "could not be read")
    return derived


def _system(name: str) -> str:
    return "io" if _IO.match(name) else "sched"


def _sizes(report: StatsReport, rows: pl.DataFrame) -> pl.DataFrame:
    """Bytes per kind of copy. Sizes are printed in MB with three decimals: one printed as 0 is unknown (null)."""
    sizes = _integer(report, "total", _SIZES)
    return rows.select(
        pl.col("operation").cast(NAME).alias("name"), _integer(report, "count").alias("count"),
        pl.when(sizes > 0).then(sizes).alias("bytes"),
    ).drop_nulls("name").unique("name", keep="first", maintain_order=True)


def _with_sizes(totals: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """The totals with the bytes of copies; without any totals, the sizes alone, which have no times."""
    if not totals.height:
        return _kinds(sizes.with_columns(pl.col("name").cast(pl.String)), "name", _activity).with_columns(
            pl.col("name").cast(NAME))
    return totals.join(sizes.select("name", "bytes"), on="name", how="left", maintain_order="left")
