"""What lies outside the steps of a run: start-up, pauses, validation, checkpoints, the end; the fact ``outside``.

On the main device of each rank, steps and what lies outside them add up to the recording, to the nanosecond. Each
stretch is named by what it ran and by what the host recorded in it; where nothing was recorded, that is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, to_builtins

from ...loaders.schema import is_work
from ...loaders.trace import REDUCED, Trace
from ..core.batches import CALLS, batches
from ..core.intervals import Intervals, Ints, union
from .detection import Cycles
from .step_times import main_devices

_VALIDATION, _CHECKPOINT = r"(?i)eval|valid|test", r"(?i)save|checkpoint|state_dict"
HALF, PAUSED = 0.5, 0.01
"""Shares of a stretch: slices or device work over half of it name it; a device busy less than this paused."""
NOTHING = "nothing recorded"


class OutsideSteps(Struct, frozen=True):
    """A stretch outside the steps: ``kind`` start-up, end, validation, checkpoint, pause or between; bounds, time in
    which the main device ran something, and the longest slice in it on the thread that launches (times in ns)."""

    kind: str
    from_ns: int
    to_ns: int
    busy_ns: int
    what: str
    what_ns: int
    rank: int | None


def outside(run: Trace, cycles: Cycles) -> list[dict[str, Any]]:
    """The stretches in order of time, per rank; empty without steps, or where they have no times."""
    if cycles.ignored is not None or cycles.times.parts.is_empty() or REDUCED in run.info.facts:
        return []
    main = main_devices(cycles.times.devices)
    result: list[OutsideSteps] = []
    for rank, device in main.rows():
        mine = pl.col("rank").eq_missing(pl.lit(rank, pl.Int64))
        parts = cycles.times.parts.filter(mine, pl.col("device").cast(pl.String).eq_missing(device)).sort("from_ns")
        result += _of_rank(run, rank, device, parts, set(cycles.frame["label"].cast(pl.String).drop_nulls().unique()))
    return [to_builtins(one) for one in sorted(result, key=lambda one: (one.rank or 0, one.from_ns))]


def _of_rank(
    run: Trace, rank: int | None, device: str | None, parts: pl.DataFrame, marks: set[str]
) -> list[OutsideSteps]:
    mine = pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank)
    host = run.host.filter(mine)
    spans = [table.select(pl.col("start_ns").min().alias("a"), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("b"))
             .collect(engine="streaming").row(0) for table in (host, run.kernels.filter(mine))]
    first, last = int(parts["from_ns"][0]), int(parts["to_ns"][-1])
    begin = min(first, *(a for a, _ in spans if a is not None))
    end = max(last, *(b for _, b in spans if b is not None))
    loose = parts.filter(pl.col("part") == "between")
    joined = union(loose["from_ns"].to_numpy(), loose["to_ns"].to_numpy())
    starts, ends = np.array([begin, *joined.starts, last]), np.array([first, *joined.ends, end])
    kinds = ["start-up", *[""] * len(joined.starts), "end"]
    real = np.flatnonzero(ends > starts)
    if not len(real):
        return []
    starts, ends, kinds = starts[real], ends[real], [kinds[at] for at in real]
    length = ends - starts
    busy = _busy(run, mine, device, starts, ends)
    annotations = host.filter(pl.col("kind") == "annotation")
    validation = _named(annotations, _VALIDATION, marks).within(starts, ends) > HALF * length
    checkpoint = _named(host, _CHECKPOINT, marks).within(starts, ends) > HALF * length
    names, spent = _longest(host, starts, ends, marks)
    for at, kind in enumerate(kinds):
        if not kind:
            kinds[at] = ("validation" if validation[at] or busy[at] >= HALF * length[at] else
                         "checkpoint" if checkpoint[at] else "pause" if busy[at] < PAUSED * length[at] else "between")
    return [OutsideSteps(kind, first, last, ran, what, what_ns, rank) for kind, first, last, ran, what, what_ns in zip(
        kinds, starts.tolist(), ends.tolist(), busy.tolist(), names, spent, strict=True)]


def _busy(run: Trace, mine: pl.Expr, device: str | None, starts: Ints, ends: Ints) -> Ints:
    """The time in each stretch in which the device ran something, ns."""
    stop = pl.col("start_ns") + pl.col("dur_ns")
    rows = run.kernels.filter(
        mine, is_work(), pl.col("device").cast(pl.String).eq_missing(device),
        stop > int(starts[0]), pl.col("start_ns") < int(ends[-1]),
    ).select("start_ns", end=stop).drop_nulls().collect(engine="streaming")
    return union(rows["start_ns"].to_numpy(), rows["end"].to_numpy()).within(starts, ends)


def _named(host: pl.LazyFrame, pattern: str, marks: set[str]) -> Intervals:
    """The time in slices whose name matches and that are no marks of cycles."""
    names = host.select(pl.col("name").unique()).collect(engine="streaming")["name"]
    texts = names.cast(pl.String)
    some = names.filter(texts.str.contains(pattern).fill_null(False) & ~texts.is_in(list(marks)).fill_null(False))
    if some.is_empty():
        return union(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    rows = host.filter(pl.col("name").is_in(some.implode())).select(
        "start_ns", end=pl.col("start_ns") + pl.col("dur_ns")).drop_nulls().collect(engine="streaming")
    return union(rows["start_ns"].to_numpy(), rows["end"].to_numpy())


def _longest(host: pl.LazyFrame, starts: Ints, ends: Ints, marks: set[str]) -> tuple[list[str], list[int]]:
    """Name and time within each stretch of the longest slice that lies in it on the thread that launches most; slices
    that reach over its ends, as frames around a training loop do, say nothing about it."""
    calls = host.filter(pl.col("kind").is_in(CALLS), pl.col("correlation").is_not_null()).group_by("pid", "tid").len()
    thread = calls.sort("len", "pid", "tid", descending=[True, False, False]).head(1).collect(engine="streaming")
    names, spent = [NOTHING] * len(starts), [0] * len(starts)
    on_it = pl.lit(True)
    if thread.height:
        pid, tid, _ = thread.row(0)
        on_it = pl.col("pid").eq_missing(pl.lit(pid, pl.Int64)) & pl.col("tid").eq_missing(pl.lit(tid, pl.Int64))
    rows = host.filter(on_it, pl.col("dur_ns") > 0, pl.col("start_ns") >= int(starts[0]) - _EDGE,
                       ~pl.col("name").cast(pl.String).is_in(list(marks))).select(
        pl.col("name").cast(pl.String), "start_ns", "dur_ns").drop_nulls()
    for batch in batches(rows):
        begin, span = batch["start_ns"].to_numpy(), batch["dur_ns"].to_numpy()
        at = np.searchsorted(starts, begin + _EDGE, side="right") - 1
        within = np.flatnonzero((at >= 0) & (begin + span <= ends[np.maximum(at, 0)] + _EDGE))
        best = pl.DataFrame({"at": at[within], "row": within, "span": span[within]}).sort(
            "span", "row", descending=[True, False]).unique("at", keep="first", maintain_order=True)
        for place, row, time in best.rows():
            if time > spent[place]:
                names[place], spent[place] = batch["name"][row], int(min(time, ends[place] - starts[place]))
    return names, spent


_EDGE = 1_000  # A slice may reach over the ends of a stretch by this many ns: recorders round.
