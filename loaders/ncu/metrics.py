"""Maps Nsight Compute's metrics to the columns of ``kernels``: names, units, and which metric is preferred.

A quantity has several names: metric names that changed between GPU generations and tool versions, and the label on a
details page. Each column lists them in order of preference. Units differ by row (a short kernel in ns next to a long
one in ms), so every value is scaled by its own unit, and kept in ns, B, B/s, Hz or % where it is one of these. ``n/a``
is null.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from ..recording.faults import OUT_OF_RANGE, Faults
from ..recording.values import numbers
from ..schema import NAME

KEY = ("segment", "pid", "id")
"""The key of a launch: the table in the file, the process, and the launch number in the process."""
LAUNCH = {
    "segment": pl.Int64(), "pid": pl.Int64(), "id": pl.Int64(), "name": NAME, "grid": NAME, "block": NAME,
    "device": NAME, "stream": pl.Int64(), "cc": NAME,
}  # fmt: skip
SAMPLE = {
    "segment": pl.Int64(), "pid": pl.Int64(), "id": pl.Int64(), "section": NAME, "metric": NAME, "unit": NAME,
    "value": pl.String(),
}  # fmt: skip
RULE = {
    "segment": pl.Int64(), "pid": pl.Int64(), "id": pl.Int64(), "section": NAME, "rule": NAME, "kind": NAME,
    "message": pl.String(), "speedup": pl.String(), "scope": NAME,
}  # fmt: skip
"""Columns of launches, samples and rule results (``speedup`` in percent as printed). Repeated texts are categorical, so
that a block's text need not be kept."""

PEAK = r"\.avg\.pct_of_peak_sustained_"
MEANINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dur_ns": ("time", (r"gpu__time_duration\.sum", r"gpu__time_duration\.(avg|max)", r"Duration")),
    "tensor": (
        "percent",
        (
            rf"sm__pipe_tensor_cycles_active{PEAK}elapsed",
            rf"sm__pipe_tensor\w*_cycles_active{PEAK}elapsed",
            rf"sm__inst_executed_pipe_tensor\w*{PEAK}elapsed",
            rf"sm__pipe_tensor\w*_cycles_active{PEAK}active",
            rf"sm__inst_executed_pipe_tensor\w*{PEAK}active",
        ),
    ),
    "dram": (
        "percent",
        (
            rf"gpu__dram_throughput{PEAK}elapsed",
            rf"dram__throughput{PEAK}elapsed",
            rf"(gpu__dram|dram__)_?throughput{PEAK}active",
            r"DRAM Throughput",
            r"SOL DRAM",
        ),
    ),
    "occupancy": ("percent", (rf"sm__warps_active{PEAK}active", r"Achieved Occupancy")),
    "registers": ("number", (r"launch__registers_per_thread", r"Registers Per Thread")),
    "shared_bytes": ("bytes", (r"launch__shared_mem_per_block",)),
    "shared_static": ("bytes", (r"launch__shared_mem_per_block_static", r"Static Shared Memory Per Block")),
    "shared_dynamic": ("bytes", (r"launch__shared_mem_per_block_dynamic", r"Dynamic Shared Memory Per Block")),
}
"""Column → the kind of quantity, and its metrics, best first. Of several metrics of the same rank the largest value
counts: a kernel that keeps one of the tensor pipes busy keeps the tensor cores busy."""

_MEASURED_IN = {"time": ("ns", ""), "bytes": ("B", "B/block", ""), "percent": ("%", ""), "number": None}
"""Kind of quantity → accepted natural units (DRAM throughput in B/s is not a percentage); None accepts any."""
_SCALED = re.compile(r"(?i)([num\u00b5kgt]?)(byte|b|hz|second|s)(/\w+)?")
_SECONDS = {"n": 1.0, "u": 1e3, "\u00b5": 1e3, "m": 1e6, "": 1e9}
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def natural(unit: str | None) -> tuple[str, float]:
    """The unit that values are kept in, and the factor from ``unit`` to it: ('B/s', 1e9) for Gbyte/second."""
    plain = (unit or "").strip()
    if rate := re.fullmatch(r"(?i)cycle/([nu\u00b5m]?)s(?:econd)?", plain):
        return "Hz", 1e9 / _SECONDS[rate[1].lower()]
    match = _SCALED.fullmatch(plain)
    if match is None:
        return plain, 1.0
    prefix, what, per = match[1].lower(), match[2].lower(), (match[3] or "").removesuffix("econd")
    if what in ("s", "second"):
        return ("ns", _SECONDS[prefix]) if prefix in _SECONDS and not per else (plain, 1.0)
    return ("Hz" if what == "hz" else f"B{per}", _PREFIXES[prefix]) if prefix in _PREFIXES else (plain, 1.0)


class MetricMeaning(Struct, frozen=True):
    """A metric's column, its kind of quantity, and its rank among the column's metrics (0 is best)."""

    column: str
    measure: str
    rank: int


def meaning_of(metric: str) -> MetricMeaning | None:
    """The column that a metric belongs to; None if it belongs to none."""
    for column, (measure, patterns) in MEANINGS.items():
        for rank, pattern in enumerate(patterns):
            if re.fullmatch(pattern, metric.strip()):
                return MetricMeaning(column, measure, rank)
    return None


def printed_numbers(cells: pl.Series, faults: Faults, numeric: pl.Series | None = None) -> pl.Series:
    """Printed numbers as floats; texts among them, which some metrics are, are null, and wrong where ``numeric``. If a
    comma precedes the last one or two digits, commas are decimal and dots group thousands, unless another value has a
    dot in that place: lists of two numbers contain such a comma, too."""
    text = cells.str.strip_chars()
    if text.str.contains(r"^-?[\d.]+,\d{1,2}$").any() and not text.str.contains(r"^-?\d+\.\d{1,2}$").any():
        text = text.str.replace_all(".", "", literal=True).str.replace_all(",", ".", literal=True)
    else:
        text = text.str.replace_all(",", "", literal=True)
    is_number = text.str.contains(r"^[+-]?[\d.,']|(?i)^[+-]?(?:inf|nan)")
    is_number = is_number.fill_null(False)
    is_number = is_number if numeric is None else is_number | numeric
    return numbers(text.set(~is_number, None), "real", faults, "metrics", "Metric Value")


def measured(launches: pl.DataFrame, samples: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """The launches (``LAUNCH``) with a float column for each of MEANINGS, from their samples (``SAMPLE``)."""
    means = {name: meaning_of(name) is not None for name in samples["metric"].unique().drop_nulls()}
    numeric = samples["metric"].cast(pl.String).replace_strict(means, default=False, return_dtype=pl.Boolean)
    number = printed_numbers(samples["value"], faults, numeric)
    values = (
        samples.select(*KEY, "metric", pl.col("unit").fill_null(""), number=number)
        .drop_nulls("number")
        .join(_meanings(samples), ["metric", "unit"])
        .select(*KEY, "column", "rank", number=pl.col("number") * pl.col("times") / pl.col("over"))
    )
    below = values.filter(pl.col("number") < 0)
    for column, count in below["column"].value_counts().rows():
        faults.wrong("metrics", column, OUT_OF_RANGE, count)
    values = values.filter(pl.col("number") >= 0)
    for column, (measure, _) in MEANINGS.items():
        best = (
            values.filter(pl.col("column") == column)
            .sort("rank", "number", descending=[False, True])
            .unique(list(KEY), keep="first")
            .select(*KEY, pl.col("number").alias(column))
        )
        launches = launches.join(best, list(KEY), how="left", nulls_equal=True, maintain_order="left")
        if measure == "percent":
            launches = launches.with_columns(numbers(launches[column], "share", faults, "metrics"))
    return launches


def listed(index: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """The samples as rows of ``launch_metrics``, without duplicates: pages of one profile repeat each other. ``index``
    has the launches' numbers by ``KEY``."""
    number = printed_numbers(samples["value"], Faults())
    scales = {unit: natural(unit) for unit in samples["unit"].unique().drop_nulls()}
    unit, text = pl.col("unit").cast(pl.String), pl.when(number.is_null()).then(pl.col("value").str.strip_chars())
    rows = samples.with_columns(
        value=number * unit.replace_strict({name: size for name, (_, size) in scales.items()}, default=1.0),
        unit=unit.replace_strict({name: kept for name, (kept, _) in scales.items()}, default=None,
                                 return_dtype=pl.String),
        text=text,
    )
    return _once(rows, index, "section", "metric")


def rule_rows(index: pl.DataFrame, rules: pl.DataFrame) -> pl.DataFrame:
    """Rule results as rows of ``launch_rules``, without duplicates."""
    speedup = printed_numbers(rules["speedup"].str.strip_chars_end("% "), Faults()) / 100.0
    return _once(rules.with_columns(speedup=speedup), index, "section", "rule", "message")


def _once(rows: pl.DataFrame, index: pl.DataFrame, *columns: str) -> pl.DataFrame:
    joined = rows.join(index, list(KEY), nulls_equal=True, maintain_order="left")
    return joined.unique(["index", *columns], keep="first", maintain_order=True).sort("index", maintain_order=True)


def _meanings(samples: pl.DataFrame) -> pl.DataFrame:
    """(metric, unit) in the samples → column, rank, factor and divisor.

    A percentage is divided by a column of hundreds: for a constant divisor, polars multiplies by the reciprocal, which
    is off by one in the last place (17.5% would be 0.17500000000000002 and print as 0.18).
    """
    metrics = {name: records for name in samples["metric"].unique().drop_nulls() if (records := meaning_of(name))}
    units = samples["unit"].fill_null("").unique().to_list()
    return pl.DataFrame(
        [
            (name, unit, records.column, records.rank, scale, 100.0 if records.measure == "percent" else 1.0)
            for name, records in metrics.items()
            for unit, (kept, scale) in ((unit, natural(unit)) for unit in units)
            if (accepted := _MEASURED_IN[records.measure]) is None or kept in accepted
        ],
        schema={
            "metric": NAME,
            "unit": NAME,
            "column": NAME,
            "rank": pl.Int8,
            "times": pl.Float64,
            "over": pl.Float64,
        },
        orient="row",
    )


def printable(fractions: pl.Series) -> pl.Series:
    """Float32 fractions that print the same two decimals as the Float64 ones: where a tie would round the other way
    (0.5% is 0.01 in double precision and 0.00 in single), the neighbour on the right side of the tie is taken."""
    single = fractions.cast(pl.Float32)
    pairs = pl.DataFrame({"double": fractions, "single": single}).unique().drop_nulls()
    moved = {}
    for double, near in pairs.rows():
        if f"{double:.2f}" != f"{near:.2f}":
            moved[double] = float(np.nextafter(np.float32(near), np.float32(np.inf if near < double else -np.inf)))
    if not moved:
        return single
    replaced = fractions.replace_strict(list(moved), list(moved.values()), default=None, return_dtype=pl.Float32)
    return pl.select(pl.coalesce(replaced, single)).to_series()
