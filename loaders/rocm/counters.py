"""Hardware counters of dispatches: what they say of a kernel's utilisation, and all of them as samples.

A counter is a sample at the start of the dispatch it was collected over, so that its mean over a kernel's launches is
what a view of metrics shows. ``MfmaUtil`` is the time the matrix cores were busy, in percent, and ``OccupancyPercent``
that of wave slots in use (counter definitions of rocprofiler-sdk). What a byte counter is of the peak cannot be told
without the device's bandwidth, so ``dram`` stays null.
"""

from __future__ import annotations

import polars as pl

from .recording import Recording, one_axis

_DISPATCH = ("run", "dispatch_id", "start")
_FRACTIONS = {"MfmaUtil": "tensor", "OccupancyPercent": "occupancy"}


def add(recording: Recording, rows: pl.DataFrame, has_trace: bool) -> None:
    """Add rows of (dispatch, counter); without a trace of kernels beside them, their dispatches are the kernels."""
    rows = rows.with_columns(pl.col("name", "metric", "device").cast(pl.String))
    summed = rows.drop_nulls(["metric", "value"]).group_by(*_DISPATCH, "metric", maintain_order=True).agg(
        pl.col("value").sum(), pl.col("device", "pid").first()
    )
    if not has_trace:
        launches = rows.group_by(*_DISPATCH, maintain_order=True).agg(pl.all().first()).drop("metric", "value")
        for counter, column in _FRACTIONS.items():
            share = fraction(pl.col("value") / 100, column)
            values = summed.filter(pl.col("metric") == counter).select(*_DISPATCH, share)
            launches = launches.join(values, on=_DISPATCH, how="left", nulls_equal=True, maintain_order="left")
        grid, block = one_axis("grid_size"), one_axis("workgroup_size")
        recording.activities(launches.with_columns(grid=grid, block=block), "counters")
    recording.samples(summed.with_columns(ts_ns="start", unit=pl.lit("")), "counters")


def fraction(value: pl.Expr, name: str) -> pl.Expr:
    """A fraction of peak; what cannot be one (negative, or half as much again as the peak) is null."""
    return pl.when((value >= 0) & (value <= 1.5)).then(value).alias(name)
