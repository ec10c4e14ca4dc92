"""Builds Traces from ``nsys stats`` reports: launches, calls and ranges from trace reports, totals from summaries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import polars as pl

from .. import csv_table, schema
from ..account.repeats import without_repeats
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..ingest import stream
from ..loader import Job
from ..recording.database import tables_of
from ..recording.faults import Faults, timeless_calls, timeless_launches
from ..recording.values import UNNAMED, Clock, Kind, dtype_of, numbers
from ..schema import NAME
from ..trace import Device, Info, Trace
from .reports import COUNTS, HOST_SUMS, StatsReport, printed_rows, recordings, reports_in

_TIMES = {"ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_DRIVER, _RUNTIME = re.compile(r"cu[A-Z]"), re.compile(r"cuda|hip|nv|cudnn|cublas|nccl")
_IO = re.compile(r"f?(read|write|open|close|puts|gets|flush|seek|stat|sync)|p(read|write)|(send|recv|connect|accept)")


def load(job: Job) -> tuple[Trace, ...]:
    """One Trace per recording in the file. Raises Unreadable if no row can be read."""
    text, fault = stream.read_all(job.path)
    job.progress(len(text) // 2, len(text), 0)
    runs = recordings(reports_in(text, job.path.name))
    traces = []
    for number, reports in enumerate(runs):
        label = job.path.name.split(".")[0] + (f" {number}" if len(runs) > 1 else "")
        if (trace := _recording(job, label, text, reports)) is not None:
            traces.append(trace.warn(fault) if fault else trace)
    if not traces:
        unread = sorted({_title(report, job.path.name) for one in runs for report in one if not report.kind})
        if unread and not any(report.kind for one in runs for report in one):
            raise Unreadable(
                job.path, f"is the report {', '.join(unread[:6])} of nsys stats, which warplens does not use",
                "Print another (`nsys stats --report cuda_gpu_trace,cuda_api_sum --format csv FILE`) or open the "
                "report's export: `nsys export --type sqlite FILE`.")
        raise Unreadable(job.path, "is an nsys stats report without rows", "Check that the recording has any.")
    job.progress(len(text), len(text), len(runs))
    return tuple(traces)


def _recording(job: Job, label: str, text: bytes, reports: list[StatsReport]) -> Trace | None:
    """The Trace of one recording; None if none of its reports has a usable row."""
    faults = Faults()

    read, unread = Counter[str](), Counter[str]()
    for report in reports:
        (read if report.kind else unread)[_title(report, job.path.name)] += _rows(text, report).height

    def of(kind: str) -> list[tuple[StatsReport, pl.DataFrame]]:
        return [(report, _rows(text, report, faults)) for report in reports if report.kind == kind]

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
    sizes = _together([_sizes(*one, faults) for one in of("size sums")])
    if not any(frame.height for frame in (launches, calls, totals, hosts, sizes)):
        return None
    if unread:
        names = ", ".join(sorted(unread)[:6])
        faults.sentences.append(f"not shown: {len(unread)} reports that no table of warplens holds ({names})")
    for frame, say in ((launches, timeless_launches), (calls, timeless_calls)):
        if timeless := frame["start_ns"].null_count() if frame.height else 0:
            faults.sentences.append(say(timeless, frame.height))
    if sizes.height:
        totals = _with_sizes(totals, sizes)
    starts = [frame["start_ns"].min() for frame in (launches, calls) if frame.height]
    zero = min((start for start in starts if isinstance(start, int)), default=0)
    devices = launches.select("device", "_device").unique().drop_nulls("device").sort("device") if (
        launches.height) else pl.DataFrame(schema={"device": NAME, "_device": pl.String})
    info = Info(
        source=str(job.path), label=label, format="nsys-stats", tool="nsys stats", bytes=job.path.stat().st_size,
        warnings=tuple(faults.warnings()), clock="session, ns" if launches.height or calls.height else None,
        devices=tuple(Device(str(device), name or None) for device, name in devices.rows()),
        facts={"tables": tables_of(read, +unread)},
    )
    return without_repeats(Trace(
        info, kernels=_table("kernels", launches, zero, "index"), host=_table("host", calls, zero),
        kernel_stats=schema.conform("kernel_stats", totals.lazy()),
        host_stats=schema.conform("host_stats", hosts.lazy()),
    ), job)


def _title(report: StatsReport, file: str) -> str:
    """What a report is called: its own title, else the file's name and its kind or first column."""
    return report.title or f"{file} ({report.kind or next(iter(report.columns), '?')})"


def _together(frames: list[pl.DataFrame]) -> pl.DataFrame:
    filled = [frame for frame in frames if frame.height]
    return pl.concat(filled, how="diagonal") if filled else pl.DataFrame()


def _table(name: str, rows: pl.DataFrame, zero: int, index: str = "") -> pl.LazyFrame:
    if not rows.height:
        return schema.empty(name)
    rows = rows.sort("start_ns", maintain_order=True, nulls_last=True).with_columns(pl.col("start_ns") - zero)
    return schema.conform(name, (rows.with_row_index(index) if index else rows).lazy())


def _rows(text: bytes, report: StatsReport, faults: Faults | None = None) -> pl.DataFrame:
    """The rows as text, under plain column names; a column whose name is damaged is all null."""
    if report.spans:
        cells = printed_rows(text, report)
        dtypes = dict.fromkeys(report.columns, pl.String)
        width = len(dtypes)
        return pl.DataFrame([row[:width] for row in cells if len(row) >= width], schema=dtypes, orient="row")
    frame = csv_table.read(text[report.start : report.end], faults=faults, table=report.title or "the report")
    present = {column.strip(): column for column in reversed(frame.columns)}
    return frame.select(
        pl.col(present[written]).alias(plain) if written in present else pl.lit(None, dtype=pl.String).alias(plain)
        for plain, (written, _) in report.columns.items()
    )


class _Cells:
    """The columns of one report as numbers in their smallest unit (ns, bytes); null where one is missing."""

    def __init__(self, report: StatsReport, rows: pl.DataFrame, faults: Faults) -> None:
        self._report, self._rows, self._faults = report, rows, faults
        self._table = report.title or "the report"

    def of(self, column: str, kind: Kind = "id") -> pl.Series:
        """A column; ``ns`` and ``bytes`` by the unit in its heading."""
        if column not in self._report.columns:
            return pl.repeat(None, self._rows.height, dtype=dtype_of(kind), eager=True)
        written, unit = self._report.columns[column]
        factor = 1 if kind in ("id", "count") else (_SIZES if kind == "bytes" else _TIMES).get(unit, 1)
        return numbers(self._rows[column], kind, self._faults, self._table, written, factor)

    def first(self, kind: Kind, *columns: str) -> pl.Series:
        """The first of these columns that the report has."""
        return self.of(next((name for name in columns if name in self._report.columns), columns[0]), kind)


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


def _timed(report: StatsReport, rows: pl.DataFrame, what: str, faults: Faults) -> pl.DataFrame:
    """The rows with a name or a start, with ``start_ns`` and ``dur_ns`` added."""
    cells = _Cells(report, rows, faults)
    start, dur = cells.of("start", "ns"), cells.of("duration", "ns")
    placed = Clock(faults).timed(rows.with_columns(start=start, end=start + dur), report.title or "the report")
    valid = _named(placed, "name", pl.col("start_ns").is_not_null())
    if lost := rows.height - valid.height:
        faults.left_out[what] += lost
    return valid


def _named(rows: pl.DataFrame, column: str, known: pl.Expr) -> pl.DataFrame:
    """The rows with a name, and those without one of which something is ``known``."""
    named = pl.when(pl.col(column) != "").then(column)
    return rows.filter(named.is_not_null() | known).with_columns(named.fill_null(UNNAMED).alias(column))


def _launches(report: StatsReport, rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    rows = _kinds(_timed(report, rows, "the trace", faults), "name", _activity)
    cells = _Cells(report, rows, faults)
    device = pl.col("device") if "device" in report.columns else pl.lit(None, dtype=pl.String)
    rows = rows.with_columns(
        _number=device.str.extract(r"(?:\(|^GPU ?)(\d+)\)?\s*$"), _device=device.str.replace(r"\s*\(\d+\)\s*$", ""),
    )
    return rows.select(
        "start_ns", "dur_ns", pl.col("name").cast(NAME), "kind",
        pl.format("GPU {}", "_number").cast(NAME).alias("device"), "_device",
        cells.of("strm").alias("stream"), cells.of("corrid").alias("correlation"),
        _shape(cells, "grd").alias("grid"), _shape(cells, "blk").alias("block"),
        cells.of("reg/trd", "count").alias("registers"),
        (cells.of("stcsmem", "bytes") + cells.of("dymsmem", "bytes")).alias("shared_bytes"),
        cells.of("bytes", "bytes").alias("bytes"),
    )


def _shape(cells: _Cells, start: str) -> pl.Series:
    sides = [cells.of(f"{start}{axis}", "count").alias(axis) for axis in "xyz"]
    return pl.DataFrame(sides).select(pl.format("{},{},{}", *"xyz").cast(NAME)).to_series()


def _calls(report: StatsReport, rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    rows = _kinds(_timed(report, rows, "the calls", faults), "name", _call)
    cells = _Cells(report, rows, faults)
    return rows.select(
        "start_ns", "dur_ns", pl.col("name").cast(NAME), "kind", cells.of("pid").alias("pid"),
        cells.of("tid").alias("tid"), cells.of("corrid").alias("correlation"),
    )


def _ranges(report: StatsReport, rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    rows = _timed(report, rows, "the ranges", faults)
    cells = _Cells(report, rows, faults)
    return rows.select(
        "start_ns", "dur_ns", pl.col("name").cast(NAME), pl.lit("annotation", NAME).alias("kind"),
        cells.of("pid").alias("pid"), cells.of("tid").alias("tid"),
    )


def _statistics(cells: _Cells, count: str) -> list[pl.Series]:
    """Count, total, mean, median, minimum and maximum of a summary."""
    return [
        cells.of(count, "count").alias("count"), cells.of("total time", "total").alias("total_ns"),
        cells.first("mean", "avg", "average").alias("mean_ns"), cells.first("total", "med", "median").alias("p50_ns"),
        cells.first("total", "min", "minimum").alias("min_ns"), cells.first("total", "max", "maximum").alias("max_ns"),
    ]


def _sums(report: StatsReport, rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    name = "name" if "name" in report.columns else "operation"
    count = next(column for column in COUNTS if column in report.columns)
    return _summed(report, rows, name, count, _activity, faults)


def _summed(
    report: StatsReport, rows: pl.DataFrame, name: str, count: str, kind: Callable[[str], str], faults: Faults
) -> pl.DataFrame:
    """The rows of a summary; one without a name of which neither count nor total is known is left out."""
    cells = _Cells(report, rows, faults)
    statistics = pl.DataFrame(_statistics(cells, count))
    known = pl.any_horizontal(pl.col("count", "total_ns").is_not_null())
    named = _named(rows.select(name).hstack(statistics), name, known)
    if lost := rows.height - named.height:
        faults.left_out["a summary"] += lost
    return _kinds(named, name, kind).select(
        pl.col(name).cast(NAME).alias("name"), "kind", *statistics.columns)


def _host_sums(report: StatsReport, rows: pl.DataFrame, name: str, faults: Faults) -> pl.DataFrame:
    """A summary of calls or ranges, in the columns of ``host_stats``."""
    kind: Callable[[str], str] = _call
    if name == "range":
        kind = lambda _: "annotation"  # noqa: E731
    elif report.title in HOST_SUMS:
        host_kind = HOST_SUMS[report.title]
        kind = _system if host_kind == "os" else lambda _: host_kind
    counts = ("num calls", *COUNTS)
    count = next(column for column in counts if column in report.columns)
    return _summed(report, rows.with_columns(pl.col(name).str.strip_prefix(":")), name, count, kind, faults)


def _system(name: str) -> str:
    return "io" if _IO.match(name) else "sched"


def _sizes(report: StatsReport, rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Bytes per kind of copy. Sizes are printed in MB with three decimals: one printed as 0 is unknown (null)."""
    cells = _Cells(report, rows, faults)
    sizes = cells.of("total", "bytes")
    return rows.select(
        pl.col("operation").cast(NAME).alias("name"), cells.of("count", "count").alias("count"),
        sizes.set((sizes <= 0).fill_null(False), None).alias("bytes"),
    ).drop_nulls("name").unique("name", keep="first", maintain_order=True)


def _with_sizes(totals: pl.DataFrame, sizes: pl.DataFrame) -> pl.DataFrame:
    """The totals with the bytes of copies; without any totals, the sizes alone, which have no times."""
    if not totals.height:
        return _kinds(sizes.with_columns(pl.col("name").cast(pl.String)), "name", _activity).with_columns(
            pl.col("name").cast(NAME))
    return totals.join(sizes.select("name", "bytes"), on="name", how="left", maintain_order="left")
