"""From Nsight Compute's metrics to the columns of ``kernels``: which metric means what, in which unit, and which wins.

The same quantity goes by several names: a metric name that changed between GPU generations and tool versions, and the
label of a details page. Each column has them in order of preference. Units differ by row (a short kernel in ns beside a
long one in ms), so every value is scaled by its own. ``n/a`` is null.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from ..schema import NAME

KEY = ("segment", "pid", "id")
"""What tells one launch from another: the table in the file, the process, the number in it."""
LAUNCH = {
    "segment": pl.Int64(), "pid": pl.Int64(), "id": pl.Int64(), "name": NAME, "grid": NAME, "block": NAME,
    "device": NAME, "stream": pl.Int64(), "cc": NAME,
}  # fmt: skip
SAMPLE = {
    "segment": pl.Int64(), "pid": pl.Int64(), "id": pl.Int64(), "metric": NAME, "unit": NAME, "value": pl.String(),
}  # fmt: skip
"""Columns of launches and of samples; what repeats is categorical, so that a block's text need not be kept."""

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
"""Column → what it measures, and the metrics that mean it, the best first. Of several equally good ones the largest
counts: a kernel that keeps one of the tensor pipes busy keeps the tensor cores busy."""

SCALES: dict[str, dict[str, float]] = {
    "time": {
        "": 1.0, "ns": 1.0, "nsecond": 1.0, "us": 1e3, "µs": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6,
        "s": 1e9, "second": 1e9,
    },
    "bytes": {"": 1.0, "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "kb": 1e3, "b": 1.0},
    "percent": {"": 1.0, "%": 1.0},
    "number": {},
}  # fmt: skip
"""Unit → what one is worth in the column's unit (in percent, where that is a fraction). DRAM throughput in Gbyte/s is
no percentage."""


class MetricMeaning(Struct, frozen=True):
    """A metric's column, what it measures, and its rank among the column's metrics (0 is best)."""

    column: str
    measure: str
    rank: int


def meaning_of(metric: str) -> MetricMeaning | None:
    """What a metric tells about a launch, None for one no column has a place for."""
    for column, (measure, patterns) in MEANINGS.items():
        for rank, pattern in enumerate(patterns):
            if re.fullmatch(pattern, metric.strip()):
                return MetricMeaning(column, measure, rank)
    return None


def scale_of(measure: str, unit: str) -> float | None:
    """What one ``unit`` is worth, as in SCALES; None where it measures something else."""
    plain = unit.strip().lower().removesuffix("/block")
    return 1.0 if measure == "number" else SCALES[measure].get(plain)


def numbers(values: pl.Series) -> pl.Series:
    """Printed numbers as floats. A comma before one or two last digits can only be a decimal one: then dots group."""
    text = values.str.strip_chars()
    if text.str.contains(r"^-?[\d.]+,\d{1,2}$").any():
        text = text.str.replace_all(".", "", literal=True).str.replace_all(",", ".", literal=True)
    else:
        text = text.str.replace_all(",", "", literal=True)
    return text.cast(pl.Float64, strict=False).fill_nan(None)


def measured(launches: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """The launches (``LAUNCH``) with a float column for each of MEANINGS, from the samples (``SAMPLE``) of them."""
    values = (
        samples.select(*KEY, "metric", pl.col("unit").fill_null(""), number=numbers(samples["value"]))
        .drop_nulls("number")
        .join(_meanings(samples), ["metric", "unit"])
        .select(*KEY, "column", "rank", number=pl.col("number") * pl.col("times") / pl.col("over"))
        .filter(pl.col("number") >= 0)
    )
    for column in MEANINGS:
        best = (
            values.filter(pl.col("column") == column)
            .sort("rank", "number", descending=[False, True])
            .unique(list(KEY), keep="first")
            .select(*KEY, pl.col("number").alias(column))
        )
        launches = launches.join(best, list(KEY), how="left", nulls_equal=True, maintain_order="left")
    return launches


def _meanings(samples: pl.DataFrame) -> pl.DataFrame:
    """(metric, unit) among the samples → column, rank, factor and divisor.

    A percentage is divided by a column of hundreds: by a constant, the engine multiplies with the reciprocal, which is
    off by one in the last place (17.5% would be 0.17500000000000002 and print as 0.18).
    """
    metrics = {name: records for name in samples["metric"].unique().drop_nulls() if (records := meaning_of(name))}
    units = samples["unit"].fill_null("").unique().to_list()
    return pl.DataFrame(
        [
            (name, unit, records.column, records.rank, scale, 100.0 if records.measure == "percent" else 1.0)
            for name, records in metrics.items()
            for unit in units
            if (scale := scale_of(records.measure, unit)) is not None
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
    """Float32 fractions that print with two decimals as the Float64 ones do: where a tie would fall the other way (0.5%
    is 0.01 in double precision and 0.00 in single), the neighbour on the right side of the tie is taken."""
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
