"""Each counter of each device in one row: how many samples, their range, mean and median, and its course in brief."""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.metrics import display_unit

KEYS = ("metric", "device", "unit")
OWNERS = ("pid", "rank")
"""Whose a sample is, where several processes or ranks have the same counter."""
PARTS = 24
"""Numbers a counter's course is made of."""
SCHEMA: dict[str, Any] = {
    "metric": NAME, "device": NAME, "unit": NAME, "pid": pl.Int64, "rank": pl.Int64, "samples": pl.Int64,
    "min": pl.Float64, "mean": pl.Float64, "p50": pl.Float64, "max": pl.Float64, "first_ns": pl.Int64,
    "last_ns": pl.Int64, "trend": pl.List(pl.Float64),
}


def summarised(run: Trace, owners: tuple[str, ...] = OWNERS) -> pl.DataFrame:
    """Rows in ``SCHEMA``, by counter and device; ``owners`` that are not asked for are pooled and null.

    ``samples`` counts what was measured: a counter that was asked for and never read has 0, and null values. The unit
    is that of the samples or, where they have none, what the counter's name says.
    """
    keys = [*KEYS, *owners]
    measured = pl.col("value").is_finite()
    value = pl.when(measured).then(pl.col("value"))
    timed = pl.when(measured).then(pl.col("ts_ns"))
    frame = run.metrics.group_by(keys).agg(
        measured.fill_null(False).sum().cast(pl.Int64).alias("samples"), value.min().alias("min"),
        value.mean().alias("mean"), value.quantile(0.5, "lower").alias("p50"), value.max().alias("max"),
        timed.min().alias("first_ns"), timed.max().alias("last_ns"),
    ).collect(engine="streaming")
    made = frame.join(_trends(run, keys), on=keys, how="left", nulls_equal=True)
    made = made.with_columns(
        pl.struct("metric", "unit", "max").map_elements(_unit, return_dtype=pl.String, skip_nulls=False).alias("unit"),
        *(pl.lit(None, pl.Int64).alias(name) for name in OWNERS if name not in owners),
    )
    texts = [pl.col(name).cast(pl.String) for name in ("metric", "device")]
    number = pl.col("device").cast(pl.String).str.extract(r"(\d+)$").cast(pl.Int64, strict=False)
    ordered = made.sort(texts[0], number, texts[1], *OWNERS, nulls_last=True)
    return ordered.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _unit(row: dict[str, Any]) -> str:
    return display_unit(str(row["metric"]), row["unit"], row["max"])


def _trends(run: Trace, keys: list[str]) -> pl.DataFrame:
    """The mean of each counter in ``PARTS`` equal parts of the time in which anything was sampled; null in empty ones.

    Samples without times are parts of their order instead.
    """
    bounds = run.metrics.select(first=pl.col("ts_ns").min(), last=pl.col("ts_ns").max()).collect().row(0)
    first, last = (value or 0 for value in bounds)
    if bounds[0] is None:
        order = pl.int_range(pl.len()).over(keys)
        place = order * PARTS // pl.len().over(keys)
    else:
        place = (pl.col("ts_ns") - first) * PARTS // (last - first + 1)
    parts = (
        run.metrics.filter(pl.col("value").is_finite()).with_columns(place.cast(pl.Int64).alias("part"))
        .filter(pl.col("part").is_between(0, PARTS - 1))
        .group_by(*keys, "part").agg(pl.col("value").mean()).collect(engine="streaming")
    )
    every = pl.DataFrame({"part": range(PARTS)}, schema={"part": pl.Int64})
    whole = parts.select(keys).unique().join(every, how="cross")
    full = whole.join(parts, on=[*keys, "part"], how="left", nulls_equal=True).sort("part")
    return full.group_by(keys, maintain_order=True).agg(pl.col("value").alias("trend"))
