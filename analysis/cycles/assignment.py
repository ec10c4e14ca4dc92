"""The cycle that each activity belongs to, and the window of each cycle, which covers host and device.

The host runs ahead of the device, so an activity belongs to the cycle in which the call that *launched* it began,
whenever it ran. A cycle's window goes from its start to the later of its end and the end of the last activity launched
in it, and the next window begins no earlier. An activity without a recorded launch belongs to the latest cycle whose
known work had begun on its device by then, unless it precedes, on its stream, the first activity that has one: then it
was launched before the recording began. On a device without any recorded launch it belongs to the cycle it began in.
All others belong to no cycle. Where cycles were found on the device itself, their bounds are the windows; without
timestamps a cycle is a range of launch indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.batches import ABSENT, batches, integer_arrays, numbered
from ..core.derived import derived

Times = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
_BLOCK = 1 << 17
WINDOW = ("window_start_ns", "window_end_ns")
_NEVER, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def launched(run: Trace) -> pl.LazyFrame:
    """The kernels with ``launch_ns``, the start of their launch call (null: none recorded),
    ``earlier``, whether they were launched before the recording began, and for the others without a launch
    ``assumed_ns``: the latest launch of what had begun on their device by then; where none was recorded on it, their
    start. A kernel without a process gets that of its call, so that both sides of a launch have the same one."""
    calls = run.remember("launches", (), lambda: derived(run, "launches", lambda: _launches_of_kernels(run))).lazy()
    joined = pl.concat([run.kernels, calls], how="horizontal")
    return joined.with_columns(pl.coalesce("pid", "launch_pid").alias("pid")).drop("launch_pid")


def _launches_of_kernels(run: Trace) -> pl.DataFrame:
    calls = run.account().activities.select("launch_ns", "launch_pid")
    assumed, earlier = _without_launch(run, calls["launch_ns"].is_not_null().to_numpy(), calls["launch_ns"])
    return calls.with_columns(assumed_ns=assumed, earlier=pl.Series(earlier))


def _without_launch(run: Trace, with_launch: Flags, launch: pl.Series) -> tuple[pl.Series, Flags]:
    """For the activities without a recorded launch: the latest launch among those that had begun on their device (null:
    none, or not needed), and whether they precede, on their stream, the first one with a recorded launch."""
    none = pl.repeat(None, len(with_launch), dtype=pl.Int64, eager=True)
    if with_launch.all():
        return none, np.zeros(len(with_launch), dtype=bool)
    rows = integer_arrays(run.kernels.select(
        "start_ns", "rank", "stream", device=pl.col("device").to_physical().cast(pl.Int64)))
    starts, device = rows["start_ns"], numbered(rows["rank"], rows["device"])
    stream = numbered(device, rows["stream"])
    has_launches = np.zeros(int(device.max()) + 1, dtype=bool)
    has_launches[device[with_launch]] = True
    first = np.full(int(stream.max()) + 1, _LAST)
    order = np.flatnonzero(with_launch)[np.argsort(-starts[with_launch], kind="stable")]
    first[stream[order]] = starts[order]
    unknown = ~with_launch & has_launches[device]
    earlier = unknown & (starts < first[stream])
    frame = pl.DataFrame({"device": device, "start": starts, "launch": launch}).with_row_index("row")
    latest = frame.sort("device", "start", pl.col("launch").is_null()).select(
        "row", latest=pl.col("launch").cum_max().forward_fill().over("device")).sort("row")["latest"]
    begun = pl.Series(np.where(has_launches[device], ABSENT, starts))
    assumed = pl.select(pl.when(pl.Series(unknown & ~earlier)).then(latest).when(pl.Series(~has_launches[device]))
                        .then(begun)).to_series()
    return assumed.set(assumed == ABSENT, None), earlier


def with_windows(cycles: pl.DataFrame, work: tuple[Times, Times] | None) -> pl.DataFrame:
    """The cycles with their ``WINDOW`` (ns; null without timestamps), the step of torch_tb_profiler's breakdown.
    ``work``: of each activity the row of its cycle (-1: none) and its end; None where marks are device times."""
    start, end = WINDOW
    marked = cycles.with_columns(pl.col("start_ns").alias(start), (pl.col("start_ns") + pl.col("dur_ns")).alias(end))
    if work is None or cycles.is_empty() or cycles["start_ns"].null_count():
        return marked
    last, (at, ends) = marked[end].to_numpy().copy(), work
    np.maximum.at(last, at[at >= 0], ends[at >= 0])
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
    rows = launched(run).select("launch_ns", "assumed_ns", "start_ns", "rank", "pid").collect(engine="streaming")
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
    """The row of ``cycles`` that each activity (``launch_ns assumed_ns start_ns rank``) belongs to, -1 for none."""
    marks = ("start_ns", "dur_ns")
    if device_time:
        return row_at(rows["start_ns"], rows["rank"], cycles, marks)
    at = row_at(rows["launch_ns"], rows["rank"], cycles, marks)
    unknown = rows["launch_ns"].is_null() & rows["assumed_ns"].is_not_null()
    if unknown.any():
        begun = cycles.select("start_ns", "rank", next_ns=pl.col("start_ns").sort().shift(-1, fill_value=_LAST)
                              .over(pl.col("rank"), order_by="start_ns"))
        some = rows.filter(unknown)
        latest = row_at(some["assumed_ns"], some["rank"], begun, ("start_ns", "next_ns"))
        inside = row_at(some["assumed_ns"], some["rank"], cycles, marks)
        no_launches = (some["assumed_ns"] == some["start_ns"]).to_numpy()
        at[unknown.to_numpy()] = np.where(no_launches, inside, latest)
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
    for rows in batches(launched(run).filter(condition).select("launch_ns", "assumed_ns", *columns)):
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
