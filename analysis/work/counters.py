"""The roofline of a run with counters but no shapes: the share of the peaks that each kernel reached, as recorded.

Counters give shares of a peak, not FLOPs, so FLOPs and intensity stay null; bytes are what the memory moved, where the
tool counted reads and writes. The least time of a launch is its duration times the utilisation of the busier of tensor
cores and memory; where one of the two was not collected there is no least time, no bound and no loss.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.unknown import largest, total
from .roofline import COMPUTE, MEMORY, peaks_of

COUNTERS = ("tensor", "dram")
_TRAFFIC = (("FETCH_SIZE", "WRITE_SIZE", 1024), ("dram__bytes_read.sum", "dram__bytes_write.sum", 1))
"""Counters of bytes that a launch read from and wrote to device memory, and the bytes of one unit: rocprof counts KiB
(its derived counters), Nsight Compute bytes."""


def has_counters(run: Trace) -> bool:
    """Whether utilisation of tensor cores or memory, or traffic of the memory, was recorded with launches."""
    return any(run.has(f"kernels.{name}") for name in COUNTERS) or _traffic(run) is not None


def _traffic(run: Trace) -> pl.DataFrame | None:
    """Bytes moved by each launch whose reads and writes were counted: ``index moved``; None if there is none."""
    if not run.has("launch_metrics"):
        return None
    metric = pl.col("metric").cast(pl.String)
    rows = run.launch_metrics.filter(metric.is_in([name for pair in _TRAFFIC for name in pair[:2]])).select(
        "index", "value", metric).drop_nulls("value").collect()
    for read, written, unit in _TRAFFIC:
        sums = rows.filter(pl.col("metric").is_in([read, written])).group_by("index").agg(
            (pl.col("value").sum() * unit).alias("moved"), pl.col("metric").n_unique().alias("directions"))
        both = sums.filter(pl.col("directions") == 2).select("index", "moved")
        if both.height:
            return both
    return None


def rows_of(run: Trace) -> pl.DataFrame:
    """One row per kernel and device in columns of the roofline, most time lost first: ``op device calls device_ns`` and
    the figures from the counters. Launches without a counter are left out."""
    took = pl.col("dur_ns")
    busier = largest(*COUNTERS)
    launches = run.kernels.filter(pl.col("kind") == "kernel", took > 0).select(
        pl.col("name").cast(pl.String).alias("op"), pl.col("device").cast(pl.String), "dur_ns",
        "index", *(pl.col(name).cast(pl.Float64).fill_nan(None) for name in COUNTERS),
    )
    traffic = _traffic(run)
    launches = launches.with_columns(moved=pl.lit(None, pl.Float64)) if traffic is None else launches.join(
        traffic.lazy(), on="index", how="left")
    launches = launches.filter(pl.any_horizontal(pl.col(*COUNTERS, "moved").is_not_null()))
    measured = {name: took.filter(pl.col(name).is_not_null()).sum() for name in COUNTERS}
    rows = launches.group_by("op", "device").agg(
        pl.len().cast(pl.Int64).alias("calls"), took.sum().alias("device_ns"),
        total(took * busier).round().cast(pl.Int64).alias("least_ns"),
        *(pl.when(measured[name] > 0).then((pl.col(name) * took).sum() / measured[name]).alias(called)
          for name, called in zip(COUNTERS, ("compute_of_peak", "memory_of_peak"), strict=True)),
        bytes=pl.col("moved").mean(),
        bytes_per_s=pl.when(took.filter(pl.col("moved").is_not_null()).sum() > 0).then(
            1e9 * pl.col("moved").sum() / took.filter(pl.col("moved").is_not_null()).sum()),
    ).collect(engine="streaming")
    most = {device: peak.bytes_per_s for device, peak in peaks_of(run).items() if peak is not None}
    if most:
        peak = pl.col("device").replace_strict(most, default=None, return_dtype=pl.Float64)
        rows = rows.with_columns(memory_of_peak=pl.coalesce("memory_of_peak", pl.col("bytes_per_s") / peak))
    return rows.with_columns(
        pl.col("op", "device").cast(NAME), lost_ns=(pl.col("device_ns") - pl.col("least_ns")).clip(0),
        bound=pl.when(pl.col("least_ns").is_not_null()).then(
            pl.when(pl.col("compute_of_peak") > pl.col("memory_of_peak")).then(pl.lit(COMPUTE)).otherwise(
                pl.lit(MEMORY))),
    ).sort("lost_ns", "device_ns", pl.col("op").cast(pl.String), "device", descending=[True, True, False, False],
           nulls_last=True)
