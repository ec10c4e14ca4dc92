"""The roofline of a run with counters but no shapes: the share of the peaks that each kernel reached, as recorded.

Counters give shares of a peak, not FLOPs, so FLOPs, bytes and intensity stay null. The least time of a launch is its
duration times the utilisation of the busier of tensor cores and memory; where one of the two was not collected there
is no least time, no bound and no loss.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.unknown import largest, total
from .roofline import COMPUTE, MEMORY

COUNTERS = ("tensor", "dram")


def has_counters(run: Trace) -> bool:
    """Whether the utilisation of tensor cores or memory was recorded with launches."""
    return any(run.has(f"kernels.{name}") for name in COUNTERS)


def rows_of(run: Trace) -> pl.DataFrame:
    """One row per kernel and device in columns of the roofline, most time lost first: ``op device calls device_ns`` and
    the figures from the counters. Launches without a counter are left out."""
    took = pl.col("dur_ns")
    busier = largest(*COUNTERS)
    launches = run.kernels.filter(pl.col("kind") == "kernel", took > 0).select(
        pl.col("name").cast(pl.String).alias("op"), pl.col("device").cast(pl.String), "dur_ns",
        *(pl.col(name).cast(pl.Float64).fill_nan(None) for name in COUNTERS),
    ).filter(pl.any_horizontal(pl.col(*COUNTERS).is_not_null()))
    measured = {name: took.filter(pl.col(name).is_not_null()).sum() for name in COUNTERS}
    rows = launches.group_by("op", "device").agg(
        pl.len().cast(pl.Int64).alias("calls"), took.sum().alias("device_ns"),
        total(took * busier).round().cast(pl.Int64).alias("least_ns"),
        *(pl.when(measured[name] > 0).then((pl.col(name) * took).sum() / measured[name]).alias(called)
          for name, called in zip(COUNTERS, ("compute_of_peak", "memory_of_peak"), strict=True)),
    ).collect(engine="streaming")
    return rows.with_columns(
        pl.col("op", "device").cast(NAME), lost_ns=(pl.col("device_ns") - pl.col("least_ns")).clip(0),
        bound=pl.when(pl.col("least_ns").is_not_null()).then(
            pl.when(pl.col("compute_of_peak") > pl.col("memory_of_peak")).then(pl.lit(COMPUTE)).otherwise(
                pl.lit(MEMORY))),
    ).sort("lost_ns", "device_ns", pl.col("op").cast(pl.String), "device", descending=[True, True, False, False],
           nulls_last=True)
