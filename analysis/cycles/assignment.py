"""The cycle that each activity belongs to, and the window of each cycle, which covers host and device.

The host runs ahead of the device, so an activity belongs to the cycle in which the call that *launched* it began,
whenever it ran. A cycle's window goes from its start to the later of its end and the end of the last activity launched
in it, and the next window begins no earlier. An activity without a recorded launch belongs to the window it ran in,
unless it precedes, on its stream, the first activity that has one: then it was launched before the recording began.
All others belong to no cycle. Where cycles were found on the device itself, their bounds are the windows; without
timestamps a cycle is a range of launch indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.batches import ABSENT, CALLS, batches, by_number, in_order, integer_arrays, match, numbered, values_at
from ..core.derived import derived
from ..core.intervals import union

Times = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
_BLOCK = 1 << 17
WINDOW = ("window_start_ns", "window_end_ns")
_NEVER, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def launched(run: Trace) -> pl.LazyFrame:
    """The kernels with ``launch_ns``, the start of the earliest call with their correlation (null: none recorded), and
    ``earlier``, whether they were launched before the recording began. A kernel without a process gets that of its
    call, so that both sides of a launch have the same one."""
    calls = run.remember("launches", (), lambda: derived(run, "launches", lambda: _launches_of_kernels(run))).lazy()
    joined = pl.concat([run.kernels, calls], how="horizontal")
    return joined.with_columns(pl.coalesce("pid", "launch_pid").alias("pid")).drop("launch_pid")


def _launches_of_kernels(run: Trace) -> pl.DataFrame:
    calls = integer_arrays(run.host.filter(pl.col("kind").is_in(CALLS), pl.col("correlation") > 0).select(
        "rank", "correlation", "start_ns", "pid"), "correlation")
    moments = calls["start_ns"]
    order = np.argsort(np.where(moments == ABSENT, _LAST, moments), kind="stable")
    rows = integer_arrays(run.kernels.select("rank", "correlation"), "correlation")
    earliest = in_order(calls["rank"], order), in_order(calls["correlation"], order)
    call = match((rows["rank"], rows["correlation"]), earliest)
    call = np.where(call >= 0, order[np.maximum(call, 0)], -1) if len(order) else call
    return pl.DataFrame({
        "launch_ns": values_at(moments, call), "launch_pid": values_at(calls["pid"], call),
        "earlier": _earlier(run, call >= 0),
    })


def _earlier(run: Trace, with_launch: Flags) -> Flags:
    """Which activities precede, on their stream, the first one with a recorded launch."""
    if with_launch.all() or not with_launch.any():
        return np.zeros(len(with_launch), dtype=bool)
    rows = integer_arrays(run.kernels.select(
        "start_ns", "rank", "stream", device=pl.col("device").to_physical().cast(pl.Int64)))
    stream, starts = numbered(rows["rank"], rows["device"], rows["stream"]), rows["start_ns"]
    first = np.full(int(stream.max()) + 1, _NEVER)  # stays so for a stream without any recorded launch: unknown
    order = np.flatnonzero(with_launch)[np.argsort(-starts[with_launch], kind="stable")]
    first[stream[order]] = starts[order]
    return ~with_launch & (starts < first[stream])


def with_windows(run: Trace, cycles: pl.DataFrame, device_time: bool) -> pl.DataFrame:
    """The cycles with their ``WINDOW`` (ns; null without timestamps); ``cycles`` comes from a cycle source."""
    start, end = WINDOW
    marked = cycles.with_columns(pl.col("start_ns").alias(start), (pl.col("start_ns") + pl.col("dur_ns")).alias(end))
    if device_time or cycles.is_empty() or cycles["start_ns"].null_count() or not run.has("kernels"):
        return marked
    last = marked[end].to_numpy().copy()
    for work in batches(launched(run).filter(pl.col("kind") != "sync").drop_nulls(["start_ns", "launch_ns"]).select(
        "launch_ns", "rank", (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).alias("end")
    )):
        at = row_at(work["launch_ns"], work["rank"], cycles, ("start_ns", "dur_ns"))
        np.maximum.at(last, at[at >= 0], work["end"].to_numpy()[at >= 0])
    order = ["rank", "start_ns", "dur_ns"]
    marked = marked.with_columns(pl.Series(end, last)).with_row_index("_row").sort(order, maintain_order=True)
    marked = marked.with_columns(pl.col(end).cum_max().over("rank"))
    before = pl.col(end).shift(1).over("rank")
    return marked.with_columns(pl.max_horizontal(start, before)).sort("_row").drop("_row")


def in_cycles(run: Trace, cycles: pl.DataFrame, device_time: bool, some: pl.Series | None = None) -> pl.LazyFrame:
    """The kernels that belong to a cycle, with its number in ``cycle`` (those outside all cycles are left out).
    ``some``: for each row of ``cycles``, whether its kernels are wanted."""
    if cycles["start_ns"].null_count():
        return _by_index(run, cycles if some is None else cycles.filter(some))
    # only the columns that decide are collected; the others stay lazy
    rows = launched(run).select("launch_ns", "start_ns", "rank", "pid", "earlier").collect(engine="streaming")
    at = _only(place(rows, cycles, device_time), some)
    number = pl.Series("cycle", cycles["cycle"].to_numpy()[at] if cycles.height else at)
    belongs = pl.Series("_row", np.flatnonzero(at >= 0).astype(np.uint32))
    members = pl.DataFrame([belongs, rows["pid"].gather(belongs), number.gather(belongs)])
    return run.kernels.with_row_index("_row").drop("pid").join(
        members.lazy(), on="_row", how="inner", maintain_order="left"
    ).drop("_row")


def begins_in(cycles: pl.DataFrame, some: pl.Series) -> pl.Expr:
    """Whether a host slice (``start_ns rank``) begins in one of the cycles that ``some`` selects."""

    def inside(slices: pl.Series) -> pl.Series:
        at = row_at(slices.struct.field("start_ns"), slices.struct.field("rank"), cycles, ("start_ns", "dur_ns"))
        return pl.Series(_only(at, some) >= 0)

    return pl.struct("start_ns", "rank").map_batches(inside, return_dtype=pl.Boolean, is_elementwise=True)


def _only(at: Times, some: pl.Series | None) -> Times:
    """The rows of cycles ``at``, with -1 for cycles that ``some`` does not select."""
    if some is None or not len(some):
        return at
    return np.where((at >= 0) & some.to_numpy()[np.maximum(at, 0)], at, -1)


def place(rows: pl.DataFrame, cycles: pl.DataFrame, device_time: bool) -> Times:
    """The row of ``cycles`` that each activity (``launch_ns start_ns rank earlier``) belongs to, -1 for none."""
    marks = ("start_ns", "dur_ns")
    if device_time:
        return row_at(rows["start_ns"], rows["rank"], cycles, marks)
    at = row_at(rows["launch_ns"], rows["rank"], cycles, marks)
    unknown = (rows["launch_ns"].is_null() & ~rows["earlier"]).to_numpy()
    if unknown.any():
        windows = WINDOW if WINDOW[0] in cycles.columns else marks
        some = rows.filter(pl.Series(unknown))
        at[unknown] = row_at(some["start_ns"], some["rank"], cycles, windows)
    return at


def activities_in_cycles(
    run: Trace, cycles: pl.DataFrame, device_time: bool, condition: pl.Expr
) -> Iterator[pl.DataFrame]:
    """``name kind device pid rank start_ns dur_ns`` of the kernels that meet the condition and belong to a cycle, with
    its number in ``cycle``: what ``in_cycles`` gives, but in blocks.
    """
    columns = ("name", "kind", "device", "pid", "rank", "start_ns", "dur_ns")
    if cycles["start_ns"].null_count():
        yield from batches(_by_index(run, cycles).filter(condition).select("cycle", *columns))
        return
    for rows in batches(launched(run).filter(condition).select("launch_ns", "earlier", *columns)):
        yield _numbered(rows, place(rows, cycles, device_time), cycles)


def host_in_cycles(run: Trace, cycles: pl.DataFrame, condition: pl.Expr) -> Iterator[pl.DataFrame]:
    """The host slices that meet the condition and begin in a cycle, with its number in ``cycle``; none without
    timestamps. In blocks, in the order of the table."""
    if cycles["start_ns"].null_count():
        return
    columns = ("name", "kind", "pid", "rank", "start_ns", "dur_ns")
    for rows in batches(run.host.filter(condition).select(columns).drop_nulls(["start_ns", "dur_ns"])):
        yield _numbered(rows, row_at(rows["start_ns"], rows["rank"], cycles, ("start_ns", "dur_ns")), cycles)


def _numbered(rows: pl.DataFrame, at: Times, cycles: pl.DataFrame) -> pl.DataFrame:
    """The rows that belong to a cycle, with its number; ``at`` is its row in ``cycles``, -1 for none."""
    number = pl.Series("cycle", cycles["cycle"].to_numpy()[at] if cycles.height else at)
    return rows.with_columns(number).filter(pl.Series(at >= 0))


def row_at(times: pl.Series, ranks: pl.Series, cycles: pl.DataFrame, bounds: tuple[str, str]) -> Times:
    """Row of the cycle each moment lies in, -1 outside all of them and for null; a rank's cycle holds only that rank's.
    ``bounds``: the columns of start and duration, or of start and end. Of overlapping cycles, the one that began last
    gets the moment. A moment without a rank may lie in any rank's cycle."""
    bounded = cycles.with_row_index("_row").drop_nulls(bounds).sort("rank", bounds[0], maintain_order=True)
    starts, ends, rows = (bounded[name].to_numpy() for name in (*bounds, "_row"))
    if bounds[1] == "dur_ns":
        ends = starts + ends
    groups = bounded.with_row_index("at").group_by("rank").agg(pl.col("at").min(), pl.len(), pl.col(bounds[0]).min())
    # sorted by first cycle: a moment without a rank that lies in cycles of several ranks goes to the last of these
    groups = groups.sort(bounds[0], "at").select("rank", "at", "len")
    # in blocks: finding the rows needs several times the memory of the result
    result = [
        _rows_at(times[at : at + _BLOCK], ranks[at : at + _BLOCK], starts, ends, rows, groups)
        for at in range(0, len(times), _BLOCK)
    ]
    return np.concatenate(result) if result else np.zeros(0, dtype=np.int64)


def _rows_at(
    times: pl.Series, ranks: pl.Series, starts: Times, ends: Times, rows: Times, groups: pl.DataFrame
) -> Times:
    """``row_at`` from the bounds of cycles and their rows; ``groups``: rank, first place and number of its cycles."""
    at_ns, rank_of = times.fill_null(_NEVER).to_numpy(), ranks.fill_null(_NEVER).to_numpy()
    result = np.full(len(at_ns), -1, dtype=np.int64)
    order = np.argsort(rank_of, kind="stable")
    ordered = rank_of[order]
    homeless = order[: np.searchsorted(ordered, _NEVER, side="right")]
    lows, highs = (np.searchsorted(ordered, groups["rank"].fill_null(_NEVER), side) for side in ("left", "right"))
    for (rank, first, count), low, high in zip(groups.rows(), lows.tolist(), highs.tolist(), strict=True):
        last = first + count
        own = np.arange(len(at_ns))
        if rank is not None:
            own = np.concatenate((order[low:high], homeless)) if len(homeless) else order[low:high]
        if not len(own):
            continue
        at = first + np.searchsorted(starts[first:last], at_ns[own], side="right") - 1
        inside = (at >= first) & (at_ns[own] < ends[np.maximum(at, first)])
        result[own[inside]] = rows[at[inside]]
    return result


def _by_index(run: Trace, cycles: pl.DataFrame) -> pl.LazyFrame:
    bounds = cycles.filter(pl.col("first_index").is_not_null()).select("cycle", "first_index", "last_index")
    bounds = bounds.sort("first_index")
    return (
        run.kernels.sort("index")
        .join_asof(bounds.lazy(), left_on="index", right_on="first_index", strategy="backward", coalesce=False)
        .filter(pl.col("index") <= pl.col("last_index")).drop("first_index", "last_index")
    )


def busy_and_idle_ns(run: Trace, cycles: pl.DataFrame) -> tuple[list[int | None], list[int | None]]:
    """Per cycle, the busy and the idle time of its devices within its window, as means over the devices that ran
    anything; idle from their first to their last activity of the recording. None without times."""
    if cycles.is_empty() or cycles["start_ns"].null_count():
        return [None] * cycles.height, [None] * cycles.height
    work = integer_arrays(run.kernels.filter(pl.col("kind") != "sync").drop_nulls(["start_ns", "dur_ns"]).select(
        "start_ns", "dur_ns", "rank", device=pl.col("device").to_physical().cast(pl.Int64)))
    starts, spans = work["start_ns"], work["dur_ns"]
    begin, end = (cycles[name].to_numpy() for name in WINDOW)
    total, idle, devices = np.zeros((3, cycles.height))
    rank_of = cycles["rank"].fill_null(_NEVER).to_numpy()
    by_rank = {rank: np.flatnonzero(rank_of == rank) for rank in np.unique(rank_of)}
    everywhere, nobody = by_rank.get(_NEVER, np.empty(0, np.int64)), np.empty(0, np.int64)
    for rows in by_number(numbered(work["rank"], work["device"])):
        rank = int(work["rank"][rows[0]])
        own = np.arange(cycles.height)
        if rank != ABSENT:
            own = np.concatenate((everywhere, by_rank.get(rank, nobody)))
        busy = union(starts[rows], starts[rows] + spans[rows])
        inside = busy.within(begin[own], end[own])
        if len(busy.starts):  # not of activities of no length alone
            first, last = np.clip((begin[own], end[own]), busy.starts[0], busy.ends[-1])
            idle[own] += last - first - inside
        total[own] += inside
        devices[own] += 1
    spent, spared = (
        [int(time / count) if count else None for time, count in zip(of, devices, strict=True)] for of in (total, idle))
    return spent, spared
