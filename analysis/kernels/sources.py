"""The kernel table of one run, from whichever table has it: launches, recorded statistics, or a profile.

All three give the same columns; what a source does not have is null. Each row is one (name, kind, device) of a device
activity; in a job one per rank, since every rank may call its device GPU 0. A ``sync`` is no activity.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct, field

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.derived import derived_value
from ..core.quantiles import Codes, Ints, Latencies, codes, combined, dense, latencies, timeless_note
from . import launch_groups

ACTIVITIES = ("kernel", "collective", "memcpy", "memset")
"""Kinds of device activity that do work; a ``sync`` only waits."""
KEYS = ("name", "kind", "device", "rank")
Grain = Literal["rank", "device", "name"]
"""Grouping of rows besides name and kind: a device of one rank, a device of any rank, or all devices together."""
COLUMNS: dict[str, pl.DataType] = {
    "name": NAME, "kind": NAME, "device": NAME, "rank": pl.Int64(), "count": pl.Int64(), "total_ns": pl.Int64(),
    "mean_ns": pl.Float64(), "min_ns": pl.Int64(), "p50_ns": pl.Int64(), "p99_ns": pl.Int64(), "max_ns": pl.Int64(),
    "tensor": pl.Float64(), "dram": pl.Float64(), "trend": pl.List(pl.Int64()), "groups": pl.Int64(),
}
_PER_LAUNCH = pl.col("total_ns") / pl.col("count")


class Kernels(Struct, frozen=True):
    """Statistics per kernel (``COLUMNS``), the table they come from, and notes. ``operators`` has ``KEYS`` and ``op``,
    the operator that launched each kernel most often, if a table of sums has it."""

    frame: pl.DataFrame
    source: str
    notes: tuple[str, ...] = field(default=())
    operators: pl.DataFrame | None = None


def places(grain: Grain) -> list[pl.Expr]:
    """Device and rank of a row; null if it covers several."""
    return [
        pl.lit(None, NAME).alias("device") if grain == "name" else pl.col("device"),
        pl.col("rank") if grain == "rank" else pl.lit(None, pl.Int64).alias("rank"),
    ]


def kernels_of(run: Trace, grain: Grain = "device") -> Kernels | None:
    """The kernel table of the run, None if it has no device activity in any form."""
    launched = derived_value(run, f"kernels-by-{grain}", Kernels | None, lambda: from_launches(run.kernels, grain))
    if launched is not None:
        return launched
    if run.has("kernel_stats"):
        return from_statistics(run.kernel_stats, grain)
    if run.has("profile"):
        return from_profile(run.profile, grain)
    return None


def from_launches(launches: pl.LazyFrame, grain: Grain = "device") -> Kernels | None:
    """Statistics per name, kind and place over the launches; None if there are none."""
    columns: list[str | pl.Expr] = ["name", "kind", *places(grain), "dur_ns", "tensor", "dram", "grid"]
    rows = launches.select(columns).collect(engine="streaming")
    if rows.is_empty():
        return None
    waits = rows["kind"] == "sync"
    if waits.any():
        rows = rows.filter(~waits)
    if not rows["dur_ns"].null_count():
        return Kernels(_ordered(_measured(rows)), "kernels")
    timed = _measured(rows.filter(pl.col("dur_ns").is_not_null()))
    bare = rows.filter(pl.col("dur_ns").is_null()).group_by(KEYS).agg(
        pl.col("tensor", "dram").cast(pl.Float64).mean(), count=pl.len().cast(pl.Int64))
    more = timed.select(KEYS).join(bare.select(*KEYS, "count"), on=KEYS, how="left", nulls_equal=True,
                                   maintain_order="left")["count"]
    timed = timed.with_columns(pl.col("count") + more.fill_null(0))  # launches without a time count, and nothing else
    unknown = bare.join(timed.select(KEYS), on=KEYS, how="anti", nulls_equal=True)
    note = timeless_note(rows["dur_ns"].null_count(), rows.height, "launch", "launches")
    return Kernels(_ordered(pl.concat([_complete(timed), _complete(unknown)])), "kernels", note)


def _measured(rows: pl.DataFrame) -> pl.DataFrame:
    """The kernel table of launches that all have a duration."""
    if rows.is_empty():
        return pl.DataFrame(schema=COLUMNS)
    group_of, first = dense(combined([codes(rows[key]) for key in KEYS]))
    durations = rows["dur_ns"].to_numpy()
    if durations.min() < 0:
        durations = np.maximum(durations, 0)
    stats = latencies(group_of, durations, len(first))
    counts, totals = stats.counts, stats.totals
    return rows[first].select(KEYS).with_columns(
        count=pl.Series(counts), total_ns=pl.Series(totals), mean_ns=pl.Series(totals / counts),
        min_ns=pl.Series(stats.shortest), p50_ns=pl.Series(stats.percentile(50)),
        p99_ns=pl.Series(stats.percentile(99)), max_ns=pl.Series(stats.longest),
        tensor=weighted(rows["tensor"], durations, group_of, len(first)),
        dram=weighted(rows["dram"], durations, group_of, len(first)),
        trend=pl.Series(stats.histograms()).arr.to_list(),
        groups=pl.Series(_kinds(rows, stats, group_of, durations)),
    )


def _kinds(rows: pl.DataFrame, stats: Latencies, group_of: Codes, durations: Ints) -> Ints:
    """Number of clearly different kinds of launches per group: by grid if grids differ clearly, else by duration."""
    groups = len(stats.starts)
    kinds = launch_groups.per_group(launch_groups.by_duration(stats), stats.starts)
    if rows["grid"].null_count() == rows.height:
        return kinds
    of_grids = launch_groups.by_grid(group_of, codes(rows["grid"]), durations, groups).per_group
    return np.where(of_grids > 1, of_grids, kinds)


def weighted(values: pl.Series, weights: Ints, group_of: Codes, groups: int) -> pl.Series:
    """Duration-weighted mean per group; null if no launch of the group was measured."""
    if values.null_count() == len(values):
        return pl.Series([None] * groups, dtype=pl.Float64)
    measured = values.is_not_null().to_numpy()
    weight = np.where(measured, np.maximum(weights, 1), 0)
    summed = np.bincount(group_of, weights=values.fill_null(0).cast(pl.Float64).to_numpy() * weight, minlength=groups)
    total = np.bincount(group_of, weights=weight, minlength=groups)
    means = np.divide(summed, total, out=np.full(groups, np.nan), where=total > 0)
    return pl.Series(means).fill_nan(None)


def from_statistics(recorded: pl.LazyFrame, grain: Grain = "device") -> Kernels:
    """From a report that has only sums, or a reduced dataset; what it lacks stays null."""
    of_grids = ["rank", "p50_ns", "p99_ns", "tensor", "dram", "trend", "groups", "op"]
    frame = recorded.select(
        "name", "kind", "device", "count", "total_ns", "mean_ns", "min_ns", "max_ns", *of_grids
    ).collect(engine="streaming")
    many = {"rank": 0, "device": frame["rank"].n_unique(), "name": frame.select("device", "rank").n_unique()}[grain]
    if many > 1:
        frame = frame.group_by("name", "kind", *places(grain)).agg(
            pl.col("count", "total_ns").sum(), pl.col("min_ns").min(), pl.col("max_ns").max()
        )
        each = "rank" if grain == "device" else "device"
        note = f"Percentiles, distributions and utilisation are available per {each} only."
        return Kernels(_ordered(_complete(frame.with_columns(mean_ns=_PER_LAUNCH))), "kernel_stats", (note,))
    frame = frame.with_columns(places(grain), mean_ns=pl.coalesce("mean_ns", _PER_LAUNCH))
    if frame["p99_ns"].count():
        return Kernels(_ordered(_complete(frame)), "kernel_stats", operators=frame.select(*KEYS, "op"))
    lacking = "" if frame["p50_ns"].count() else "no percentiles, "
    note = f"The input holds sums per kernel, not launches: {lacking}no distribution, no utilisation."
    return Kernels(_ordered(_complete(frame)), "kernel_stats", (note,))


def from_profile(profile: pl.LazyFrame, grain: Grain = "device") -> Kernels:
    """From a profile per cycle: launches and durations summed over cycles, each counted once, not once per metric."""
    once = (
        profile.filter(pl.col("kind").is_in(ACTIVITIES))
        .group_by("cycle", "pid", "rank", "function", "kind", "device")
        .agg(pl.col("instances").first(), pl.col("dur_ns").first())
    )
    summed = once.group_by(pl.col("function").alias("name"), "kind", *places(grain)).agg(
        count=pl.col("instances").sum(), total_ns=pl.col("dur_ns").sum()
    )
    frame = summed.with_columns(mean_ns=_PER_LAUNCH).collect(engine="streaming")
    note = "The input holds sums per cycle, not launches: no percentiles, no distribution, no utilisation."
    return Kernels(_ordered(_complete(frame)), "profile", (note,))


def _complete(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in COLUMNS.items()
    )


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """Most time first; ties by name, so that the order never depends on how the rows were read."""
    by_name = [pl.col(key).cast(pl.String) for key in KEYS[:-1]]
    return frame.sort(
        pl.col("total_ns"), *by_name, "rank", descending=[True, False, False, False, False], nulls_last=True
    )
