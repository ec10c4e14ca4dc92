"""Cycle profiles: ``result_perf_data.csv``, and ``result_counters_data.csv`` with the counters sampled alongside.

The perf file has one row per cycle, process, function, metric and device, with β and μ already computed; it has no
single launches. Its numbers go into ``profile`` unchanged, on the recorder's scale, because the reference comparison
must match them digit for digit. Cycles are taken from the anchor function recorded with each row. A cycle with no
device rows, or clearly fewer than usual for its process, was not recorded completely: ``complete`` is false.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from . import csv_table, schema
from .collective_names import COLLECTIVE
from .errors import Unreadable
from .ingest import stream
from .loader import FormatLoader, Job
from .recording.faults import OUT_OF_RANGE, Faults
from .recording.values import Kind, dtype_of, numbers
from .schema_limits import LATEST_NS
from .trace import Device, Info, Trace

PERF, COUNTERS = "result_perf_data.csv", "result_counters_data.csv"
PERF_COLUMNS = ("cycle", "pid", "beta_pct", "function_name", "metric_name", "device", "anchor_dur_us")
COUNTER_COLUMNS = ("counter_name", "timestamp", "value")

KINDS = {"gpu_compute": "kernel", "gpu_comm": "collective", "disk_read_and_write": "disk"}
"""Recorded function type → ``kind``. gpu_memcpy_* is memcpy or memset; any other type (oncpu, runq, …) is kept."""

FEWER_FUNCTIONS, FEWER_LAUNCHES = 0.9, 0.8
"""A cycle with less than these fractions of its process's median functions or launches was not recorded completely."""

UNITS: tuple[tuple[str, str, float], ...] = (
    (r"frequency|clock", "MHz", 1.0), (r"^process_gpu_mem_usage", "B", 1.0), (r"usage|util|occupancy", "%", 1.0),
    (r"transmit|receive|_rate$", "B/s", 1.0), (r"temperature", "C", 1.0), (r"power", "W", 1.0),
    (r"^host_mem_", "B", 1024.0), (r"mem_|disk_", "B", 1.0),
)  # fmt: skip
"""Counter name pattern, unit, factor from the recorded value: host memory is recorded in KiB, as in /proc/meminfo."""


def _read(
    path: Path, needed: tuple[str, ...], columns: Callable[[_Cells], pl.DataFrame], warnings: list[str]
) -> pl.DataFrame:
    """Read the file as text and convert it with ``columns``; the rows that drops are counted in a warning."""
    data, fault = stream.read_all(path)
    faults = Faults()
    text = csv_table.read(data, faults=faults, table=path.name)
    if missing := [column for column in needed if column not in text.columns]:
        raise Unreadable(path, f"lacks the column {missing[0]}", "A cycle profile has one row per cycle and function.")
    cells = _Cells(text, path.name)
    frame = columns(cells)
    if fault:
        warnings.append(f"{path.name}: {fault}")
    warnings += faults.warnings() + cells.faults.warnings()
    if lost := text.height - frame.height:
        warnings.append(f"{lost:,} of {text.height:,} rows of {path.name} could not be read and were left out.")
    return frame


class _Cells:
    """A file's text columns and, under their own names, the numbers in them; null where there is no such column."""

    def __init__(self, text: pl.DataFrame, name: str) -> None:
        self.text, self.name, self.faults = text, name, Faults()

    def number(self, column: str, kind: Kind = "real", factor: float = 1) -> pl.Series:
        """A column as numbers, recorded in a unit ``factor`` times larger."""
        if column not in self.text.columns:
            return pl.repeat(None, self.text.height, dtype=dtype_of(kind), eager=True)
        return numbers(self.text[column], kind, self.faults, self.name, factor=factor)

    def time(self, column: str) -> pl.Series:
        """Times in µs as ns; null beyond 2096."""
        times = self.number(column, "ns", 1000)
        beyond = (~times.is_between(-LATEST_NS, LATEST_NS)).fill_null(False)
        self.faults.wrong(self.name, column, OUT_OF_RANGE, int(beyond.sum()))
        return times.set(beyond, None)


def _kind() -> pl.Expr:
    """Function kind as in ``kernels.kind``; collectives and memsets are recognised by name, as in every format."""
    recorded = pl.col("func_type").replace(KINDS)
    recorded = pl.when(recorded.str.starts_with("gpu_memcpy")).then(pl.lit("memcpy")).otherwise(recorded)
    name = pl.col("function_name")
    return (
        pl.when((recorded == "memcpy") & name.str.starts_with("Memset")).then(pl.lit("memset"))
        .when((recorded == "kernel") & name.str.contains(f"(?i){COLLECTIVE.pattern}")).then(pl.lit("collective"))
        .otherwise(recorded)
    )  # fmt: skip


def _profile(cells: _Cells) -> pl.DataFrame:
    """Rows with the columns of ``profile``, cycle_start_ns still absolute; rows without cycle or function dropped."""
    optional = ("hostname", "func_type", "interpolation_status", "anchor_name")
    perf = cells.text.with_columns(
        pl.lit(None, pl.String).alias(column) for column in optional if column not in cells.text.columns)
    metric = pl.col("metric_name").str.strip_chars()
    metric = pl.when(~metric.is_in(["N/A", "", "nan"])).then(metric)
    status = pl.col("interpolation_status")
    return perf.select(
        cells.number("cycle", "id").alias("cycle"),
        cells.time("anchor_dur_us").alias("cycle_ns"),
        cells.time("cycle_start_ts").alias("cycle_start_ns"),
        pl.col("anchor_name").alias("anchor"),
        cells.number("pid", "id").alias("pid"),
        pl.when(pl.col("hostname") != "").then(pl.col("hostname")).alias("host"),
        pl.col("function_name").alias("function"),
        _kind().alias("kind"),
        metric.alias("metric"),
        pl.col("device"),
        cells.number("beta_pct").alias("beta"),
        cells.number("mu_pct").alias("mu"),
        cells.number("sigma_pct").alias("sigma"),
        cells.time("duration").alias("dur_ns"),
        cells.number("instances_count", "count").alias("instances"),
        pl.when(metric.is_not_null() & status.is_not_null())
        .then(status.str.contains("*", literal=True))
        .alias("interpolated"),
    ).filter(pl.col("cycle").is_not_null() & pl.col("function").is_not_null() & (pl.col("cycle_ns") >= 0))


def _whole(profile: pl.DataFrame) -> pl.DataFrame:
    """``complete`` per (pid, cycle), from its number of device functions and launches. The norm is the median over the
    process's cycles that have device rows. A cycle below the norm is not truncated but of another kind (a prefill among
    decodes) if at least 20% of its functions occur in fewer than half of the cycles."""
    key = ["pid", "cycle"]
    distinct = profile.filter(pl.col("device") != "Host").unique([*key, "function", "device"], maintain_order=True)
    cycles = distinct.select(key).unique().group_by("pid").agg(pl.len().alias("cycles"))
    common = distinct.group_by("pid", "function").agg(pl.col("cycle").n_unique().alias("in"))
    common = common.join(cycles, "pid", nulls_equal=True).select(
        "pid", "function", own=2 * pl.col("in") < pl.col("cycles")
    )
    counts = (
        distinct.join(common, ["pid", "function"], nulls_equal=True).group_by(key)
        .agg(pl.len().alias("functions"), pl.col("instances").sum().alias("launches"), pl.col("own").mean())
    )  # fmt: skip
    usual = counts.group_by("pid").agg(
        pl.col("functions").median().alias("usual_functions"), pl.col("launches").median().alias("usual_launches")
    )
    fewer = (pl.col("functions").fill_null(0) < FEWER_FUNCTIONS * pl.col("usual_functions")) | (
        pl.col("launches").fill_null(0) < FEWER_LAUNCHES * pl.col("usual_launches")
    )
    other = pl.col("own").fill_null(0.0) >= 0.2
    return (
        profile.select(key).unique().join(counts, key, how="left", nulls_equal=True)
        .join(usual, "pid", how="left", nulls_equal=True).select(*key, complete=(~fewer | other).fill_null(True))
    )  # fmt: skip


def _cycles(profile: pl.DataFrame) -> pl.DataFrame:
    """One row per cycle in time order; processes with the same cycle share one row."""
    whole = profile.join(_whole(profile), ["pid", "cycle"], nulls_equal=True)
    return (
        whole.group_by(
            "cycle", pl.col("cycle_start_ns").alias("start_ns"), pl.col("cycle_ns").alias("dur_ns"), label="anchor"
        )
        .agg(pl.col("complete").all())
        .sort("start_ns", "cycle", "label", nulls_last=True)
        .with_columns(kind=pl.lit("step"), source=pl.lit("recorded"))
    )


def unit_of(metric: str) -> tuple[str, float]:
    """Unit of a counter and the factor from its recorded value to that unit; ('', 1) if the name does not say."""
    return next(((unit, scale) for pattern, unit, scale in UNITS if re.search(pattern, metric)), ("", 1.0))


def _metrics(cells: _Cells) -> pl.DataFrame:
    """Samples with the columns of ``metrics``, ts_ns still absolute; a pid or GPU number in the name is split off."""
    suffix = pl.col("counter_name").str.extract(r"^(?:process|gpu)_.*_(\d[\d.]*(?:e\+?\d+)?)$")
    number = numbers(cells.text.select(suffix).to_series(), "id", cells.faults, cells.name)
    of_process = pl.col("counter_name").str.starts_with("process_")
    samples = cells.text.select(
        cells.time("timestamp").alias("ts_ns"),
        pl.when(suffix.is_null())
        .then(pl.col("counter_name"))
        .otherwise(pl.col("counter_name").str.replace(r"_\d[\d.]*(?:e\+?\d+)?$", ""))
        .alias("metric"),
        pl.when(of_process).then(number).alias("pid"),
        pl.when(pl.lit(number.is_not_null()) & ~of_process)
        .then(pl.format("GPU {}", number))
        .when(~pl.col("counter_name").str.contains("gpu"))
        .then(pl.lit("Host"))
        .alias("device"),
        cells.number("value").alias("value"),
    ).drop_nulls(["ts_ns", "metric", "value"])
    names = samples["metric"].unique().to_list()
    units = pl.DataFrame(
        [(name, *unit_of(name)) for name in names],
        schema={"metric": pl.String, "unit": pl.String, "scale": pl.Float64},
        orient="row",
    )
    return (
        samples.join(units, "metric", maintain_order="left").with_columns(pl.col("value") * pl.col("scale"))
        .sort("ts_ns", maintain_order=True)
    )  # fmt: skip


class CycleProfile(FormatLoader):
    """Loader for cycle profiles."""

    name = "cycle-profile"
    title = "Cycle profile: β and μ per cycle, function and metric (result_perf_data.csv), and its counter file"
    suffixes = (".csv",)
    version = 4
    fills = ("metrics", "cycles", "profile")
    is_sidecar = True
    directory_file = PERF
    """A directory with this file is of this format: the perf and counters files are one recording."""

    def sniff(self, head: bytes) -> bool:
        """Accept the header of the perf file, or of a counters file by itself."""
        first = head.split(b"\n", 1)[0].decode("utf-8", "replace")
        columns = [column.strip().strip('"') for column in first.split(",")]
        return set(PERF_COLUMNS) <= set(columns) or columns[:3] == list(COUNTER_COLUMNS)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The counters file read with a perf file: in the same folder, 'perf' in its name replaced by 'counters'."""
        counters = path.with_name(path.name.replace("perf", "counters"))
        return (counters,) if counters != path and counters.is_file() else ()

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``profile``, ``cycles`` and ``metrics``; the format has no kernel launches or host slices."""
        path = job.path / PERF if job.path.is_dir() else job.path
        files = (path, *self.companions(path))
        warnings: list[str] = []
        profile = pl.DataFrame(schema=schema.polars_schema("profile"))
        metrics = pl.DataFrame(schema=schema.polars_schema("metrics"))
        if stream.head(path, 64).startswith(b"counter_name"):
            metrics = _read(path, COUNTER_COLUMNS, _metrics, warnings)
        else:
            profile = _read(path, PERF_COLUMNS, _profile, warnings)
            for counters in files[1:]:
                try:
                    metrics = _read(counters, COUNTER_COLUMNS, _metrics, warnings)
                except (Unreadable, OSError) as error:
                    warnings.append(f"The counter file next to it could not be used: {error}")
        starts = [t for t in (profile["cycle_start_ns"].min(), metrics["ts_ns"].min()) if isinstance(t, int)]
        epoch = min(starts, default=0)
        profile = profile.with_columns(pl.col("cycle_start_ns") - epoch)
        metrics = metrics.with_columns(pl.col("ts_ns") - epoch)
        total = sum(file.stat().st_size for file in files)
        job.progress(total, total, profile.height + metrics.height)
        info = Info(
            source=str(job.path),
            label=(path.resolve().parent.name if path.name.startswith(PERF) else "") or path.stem,
            format=self.name,
            bytes=total,
            devices=tuple(Device(name) for name in _devices(profile)),
            epoch_ns=epoch or None,
            clock="recorder's, µs since 1970",
            warnings=tuple(warnings),
            facts={
                "pids": profile["pid"].drop_nulls().unique().sort().to_list(),
                "anchors": profile["anchor"].drop_nulls().unique().sort().cast(pl.String).to_list(),
                "counters": not metrics.is_empty(),
            },
        )
        trace = Trace(
            info,
            profile=schema.conform("profile", profile.lazy()),
            cycles=schema.conform("cycles", _cycles(profile).lazy()),
            metrics=schema.conform("metrics", metrics.lazy()),
        )
        return (trace,)


def _devices(profile: pl.DataFrame) -> list[str]:
    """GPU names sorted by number."""
    names = [str(name) for name in profile["device"].drop_nulls().unique() if name != "Host"]
    return sorted(names, key=lambda name: (int(digits[0]) if (digits := re.findall(r"\d+", name)) else -1, name))


LOADER = CycleProfile()
