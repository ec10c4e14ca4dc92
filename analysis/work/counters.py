"""The roofline of a run with counters but no shapes: the share of the peaks that each kernel reached, as recorded.

Counters give shares of a peak, not FLOPs, so FLOPs, bytes and intensity stay null. The least time of a launch is its
duration times the utilisation of the busier of tensor cores and memory.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from .roofline import COMPUTE, MEMORY

COUNTERS = ("tensor", "dram")


def has_counters(run: Trace) -> bool:
    """Whether the utilisation of tensor cores or memory was recorded with launches."""
    return any(run.has(f"kernels.{name}") for name in COUNTERS)


def rows_of(run: Trace) -> pl.DataFrame:
    """One row per kernel and device in columns of the roofline, most time lost first: ``op device calls device_ns`` and
    the figures from the counters. Launches without a counter are left out."""
    took = pl.col("dur_ns")
    busier = pl.max_horizontal(*COUNTERS).clip(0, 1)
    launches = run.kernels.filter(pl.col("kind") == "kernel", took > 0).select(
        pl.col("name").cast(pl.String).alias("op"), pl.col("device").cast(pl.String), "dur_ns",
        *(pl.col(name).cast(pl.Float64).fill_nan(None) for name in COUNTERS),
    ).filter(pl.any_horizontal(pl.col(*COUNTERS).is_not_null()))
    measured = {name: took.filter(pl.col(name).is_not_null()).sum() for name in COUNTERS}
    rows = launches.group_by("op", "device").agg(
        pl.len().cast(pl.Int64).alias("calls"), took.sum().alias("device_ns"),
        (took * busier).sum().round().cast(pl.Int64).alias("least_ns"),
        *(pl.when(measured[name] > 0).then((pl.col(name) * took).sum() / measured[name]).alias(called)
          for name, called in zip(COUNTERS, ("compute_of_peak", "memory_of_peak"), strict=True)),
    ).collect(engine="streaming")
    compute, memory = pl.col("compute_of_peak").fill_null(0), pl.col("memory_of_peak").fill_null(0)
    return rows.with_columns(
        pl.col("op", "device").cast(NAME), lost_ns=(pl.col("device_ns") - pl.col("least_ns")).clip(0),
        bound=pl.when(compute > memory).then(pl.lit(COMPUTE)).otherwise(pl.lit(MEMORY)),
    ).sort("lost_ns", "device_ns", pl.col("op").cast(pl.String), "device", descending=[True, True, False, False])
