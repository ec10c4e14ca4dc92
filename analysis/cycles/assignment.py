"""Which launches belong to which cycle, and how busy the devices were in it.

The host runs ahead of the device, so an activity belongs to the cycle that *launched* it, told by the runtime call of
the same correlation; where that call was not recorded, or where cycles were found on the device itself, by its own
start. Where there are no timestamps a cycle is a range of launch indices. Busy time is another question: it is what a
device did between the two ends of the cycle, whoever launched it, so that busy and idle always add up to the cycle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace

Times = np.ndarray[Any, np.dtype[np.int64]]


def launched(run: Trace) -> pl.LazyFrame:
    """The kernels with ``launch_ns``: start of the call that launched each, its own start where none was recorded.

    A kernel that names no process gets the one of its call, so that both sides of a launch speak of one process.
    """
    calls = (
        run.host.filter(pl.col("kind").is_in(["runtime", "driver"]), pl.col("correlation") > 0)
        .group_by("rank", "correlation").agg(
            pl.col("start_ns").min().alias("launch_ns"), pl.col("pid").first().alias("launch_pid")
        )
    )
    joined = run.kernels.join(calls, on=["rank", "correlation"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(
        pl.min_horizontal("launch_ns", "start_ns").alias("launch_ns"), pl.coalesce("pid", "launch_pid").alias("pid")
    ).drop("launch_pid")


def in_cycles(run: Trace, cycles: pl.DataFrame, device_time: bool) -> pl.LazyFrame:
    """The kernels that belong to a cycle, with its number in ``cycle`` (those outside all cycles are left out).

    ``cycles`` as from a cycle source; overlapping cycles give an activity to the one that began last.
    """
    if cycles["start_ns"].null_count():
        return _by_index(run, cycles)
    numbered = run.with_tables(kernels=run.kernels.with_row_index("_row"))
    kernels = numbered.kernels.with_columns(launch_ns="start_ns") if device_time else launched(numbered)
    # only what decides is collected; the other columns stay lazy, for whoever needs them
    rows = kernels.select("_row", "launch_ns", "rank", "pid").collect()
    rows = rows.with_columns(cycle_at(rows["launch_ns"], rows["rank"], cycles)).drop_nulls("cycle")
    return numbered.kernels.drop("pid").join(
        rows.lazy().select("_row", "pid", "cycle"), on="_row", how="inner", maintain_order="left"
    ).drop("_row")


def host_in_cycles(run: Trace, cycles: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """The host slices that pass and begin in a cycle, with its number in ``cycle``; none without timestamps."""
    if cycles["start_ns"].null_count():
        return run.host.head(0).with_columns(pl.lit(None, pl.Int64).alias("cycle")).collect()
    columns = ("name", "kind", "pid", "rank", "start_ns", "dur_ns")
    rows = run.host.filter(condition).select(columns).drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    return rows.with_columns(cycle_at(rows["start_ns"], rows["rank"], cycles)).drop_nulls("cycle")


def cycle_at(times: pl.Series, ranks: pl.Series, cycles: pl.DataFrame) -> pl.Series:
    """Number of the cycle each moment lies in, null outside all of them; a cycle of a rank holds only that rank's."""
    at_ns = times.fill_null(-1).to_numpy()
    number = np.full(len(at_ns), -1, dtype=np.int64)
    outside = np.iinfo(np.int64).min
    rank_of = ranks.fill_null(outside).to_numpy()
    for (rank,), group in cycles.sort("start_ns").group_by("rank", maintain_order=True):
        starts = group["start_ns"].to_numpy()
        ends = starts + group["dur_ns"].to_numpy()
        at = np.searchsorted(starts, at_ns, side="right") - 1
        inside = (at >= 0) & (at_ns < ends[at])
        if rank is not None:
            inside &= (rank_of == rank) | (rank_of == outside)
        number[inside] = group["cycle"].to_numpy()[at[inside]]
    return pl.Series("cycle", number).replace(-1, None)


def _by_index(run: Trace, cycles: pl.DataFrame) -> pl.LazyFrame:
    bounds = cycles.filter(pl.col("first_index").is_not_null()).select("cycle", "first_index", "last_index")
    bounds = bounds.sort("first_index")
    return (
        run.kernels.sort("index")
        .join_asof(bounds.lazy(), left_on="index", right_on="first_index", strategy="backward", coalesce=False)
        .filter(pl.col("index") <= pl.col("last_index")).drop("first_index", "last_index")
    )


def merged(starts: Times, ends: Times) -> tuple[Times, Times]:
    """The union of intervals as disjoint ones, in order."""
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    opens = np.concatenate(([True], starts[1:] > ends[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return starts[opens], ends[closes]


def covered(starts: Times, ends: Times, begin: Times, end: Times) -> Times:
    """How much of each window ``begin``..``end`` the disjoint ordered intervals cover."""
    if not len(starts):
        return np.zeros(len(begin), dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(ends - starts)))

    def until(time: Times) -> Times:
        at = np.searchsorted(starts, time, side="right")
        within = np.where(at > 0, np.minimum(time - starts[at - 1], (ends - starts)[at - 1]), 0)
        done: Times = before[np.maximum(at - 1, 0)] + within
        return done

    return until(end) - until(begin)


def busy_ns(run: Trace, cycles: pl.DataFrame) -> list[int | None]:
    """Per cycle the time its devices were busy, the mean over the devices that did anything; None without times."""
    if cycles.is_empty():
        return []
    if cycles["start_ns"].null_count():
        return [None] * cycles.height
    work = run.kernels.filter(pl.col("kind") != "sync").select("start_ns", "dur_ns", "device", "rank")
    rows = work.drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    begin, end = cycles["start_ns"].to_numpy(), (cycles["start_ns"] + cycles["dur_ns"]).to_numpy()
    total, devices = np.zeros(cycles.height), np.zeros(cycles.height)
    rank_of = cycles["rank"].to_list()
    for (_, rank), group in rows.group_by("device", "rank", maintain_order=True):
        starts = group["start_ns"].to_numpy()
        mine = np.array([theirs is None or rank is None or theirs == rank for theirs in rank_of])
        union = merged(starts, starts + group["dur_ns"].to_numpy())
        total += np.where(mine, covered(*union, begin, end), 0)
        devices += mine
    return [int(busy / count) if count else None for busy, count in zip(total, devices, strict=True)]
