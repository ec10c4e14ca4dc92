"""Adds the device time of operators in graph replays, which were recorded when the graph was captured.

A replay dispatches no operators, so its time is listed under the operators of the capture, as in the roofline, and one
replay counts as one call of each. These calls have no host time: they never ran on the host.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ...loaders.schema import NAME, is_work
from ...loaders.trace import Trace
from ..core.call_tree import slices_of
from ..core.callers import callers_of, operator_rows
from ..kernels.tensor_cores import by_tensor_cores, share_on_tensor_cores
from ..work.attribution import attribution_of
from .tree import Operators

_SUMS = ("calls", "device_self_ns", "device_total_ns", "host_self_ns", "host_total_ns")
_RATIOS = {"tc_self_ratio": "device_self_ns", "tc_total_ratio": "device_total_ns"}


def with_captures(run: Trace, own: Operators | None) -> Operators | None:
    """The operators including those of the run's captures; unchanged if no capture matches."""
    callers = callers_of(run) if run.captures is not None else None
    attribution = attribution_of(run) if callers is not None and callers.joined is not None else None
    if callers is None or callers.joined is None or attribution is None:
        return own
    rows = np.flatnonzero(callers.joined.named)
    if not len(rows):
        return own
    replayed = run.kernels.select("name", "dur_ns").collect(engine="streaming")[pl.Series(rows)]
    names = callers.frame["op"][pl.Series(rows)].cast(pl.String)
    on, unsure = by_tensor_cores(replayed["name"])
    of_captures = _sums(pl.DataFrame({
        "name": names, "call": attribution.owner[rows], "ns": replayed["dur_ns"], "on": on, "unsure": unsure}))
    if own is None:
        total = run.kernels.filter(is_work()).select(pl.col("dur_ns").sum())
        return Operators(_ordered(of_captures), int(total.collect(engine="streaming").item() or 0))
    around = slices_of(run).names_of(operator_rows(run)[rows])  # these have the time so far: those of the replays
    launching = replayed.select("dur_ns", name=around.cast(pl.String)).drop_nulls()
    taken = launching.group_by("name").agg(pl.col("dur_ns").sum().alias("taken"))
    before = own.frame.with_columns(pl.col("name").cast(pl.String)).join(taken, on="name", how="left").with_columns(
        pl.col("device_self_ns") - pl.col("taken").fill_null(0)).drop("taken")
    both = pl.concat([before, of_captures.select(before.columns)]).group_by("name").agg(
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in _SUMS),
        pl.col("tc_eligible").any(ignore_nulls=False),
        *(_weighted(ratio, weight) for ratio, weight in _RATIOS.items()),
    )
    return Operators(_ordered(both.select(before.columns)), own.device_ns, own.crossing)


def _sums(activities: pl.DataFrame) -> pl.DataFrame:
    """Calls and time of each operator, in the columns of ``Operators.frame``."""
    on, unsure = (pl.col("ns").filter(name).sum() for name in ("on", "unsure"))
    tensor = share_on_tensor_cores(on, unsure, pl.col("ns").sum())
    host = (pl.lit(None, pl.Int64).alias(name) for name in ("host_self_ns", "host_total_ns"))
    return activities.group_by("name").agg(
        pl.col("call").n_unique().cast(pl.Int64).alias("calls"),
        *(pl.col("ns").sum().cast(pl.Int64).alias(name) for name in ("device_self_ns", "device_total_ns")), *host,
        pl.when((on > 0) | (unsure == 0)).then(on > 0).alias("tc_eligible"),
        tensor.alias("tc_self_ratio"), tensor.alias("tc_total_ratio"),
    )


def _weighted(ratio: str, weight: str) -> pl.Expr:
    """Time-weighted mean of the shares; null if one of them is unknown."""
    unknown = (pl.col(ratio).is_null() & (pl.col(weight) > 0)).any()
    whole = pl.col(weight).sum()
    mean = pl.when(whole > 0).then((pl.col(ratio) * pl.col(weight)).sum() / whole).otherwise(0.0)
    return pl.when(~unknown).then(mean).alias(ratio)


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("name").cast(NAME)).sort(
        "device_self_ns", "host_self_ns", pl.col("name").cast(pl.String), descending=[True, True, False],
        nulls_last=True)
