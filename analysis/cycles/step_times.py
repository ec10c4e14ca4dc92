"""What each cycle took on each device: lead, device time and tail, and what ran in them.

A cycle's own work on a device is what was launched in its mark. Its window goes from the first start of its own work,
or the end of the window before, to the last end of its own work. The stretch between two windows belongs to the tail of
the cycle that the host was still in, else to the lead of the next one, except exceptional gaps between marks and marks
that launched nothing there: they lie between cycles. Step time is lead + device time + tail.

What must stay true, on every device: all steps and all that lies between them add up to the time from the start of the
first step to the end of the last one; nothing that a cycle did not launch is in its busy time; what was not recorded is
null, never 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME, is_work
from ...loaders.trace import Trace
from ..core.batches import ABSENT, Columns, batches, rows_by_device, values_at
from ..core.covered import per_owner
from ..core.device_pairs import natural
from ..core.intervals import EMPTY, Intervals, Ints, union
from . import assignment

FIGURES = (
    "host_ns", "device_ns", "lead_ns", "tail_ns", "step_ns", "period_ns", "busy_ns", "other_ns", "idle_ns", "comm_ns",
    "exposed_ns",
)
"""The times of a cycle, ns. ``host_ns`` is its mark; the others are of one device: ``device_ns`` its window,
``step_ns`` lead + window + tail, ``period_ns`` the time from the end of the window before to the end of this one,
``busy_ns`` own work in the window, ``other_ns`` what other work covers of the step beyond that, ``idle_ns`` the rest of
the step, ``comm_ns`` own collectives, ``exposed_ns`` their time in which nothing on the device was computed."""
BOUNDS = ("from_ns", "to_ns")
"""Begin and end of a cycle's window on a device, ns."""
PARTS = ("lead", "window", "tail", "between")
Mask = npt.NDArray[np.bool_]
SHORT_NS = 1_000_000
"""A gap between two marks is exceptional if it is longer than this, than a twentieth of the median mark and than three
times the median gap. Input loaded so long before the first mark belongs to the first step."""
_DEVICES: dict[str, Any] = {
    "row": pl.Int64, "rank": pl.Int64, "device": NAME, **dict.fromkeys((*FIGURES, *BOUNDS), pl.Int64)}
_PARTS: dict[str, Any] = {
    "rank": pl.Int64, "device": NAME, "from_ns": pl.Int64, "to_ns": pl.Int64, "row": pl.Int64, "part": NAME}


class StepTimes(Struct, frozen=True):
    """``devices``: per device and cycle that launched anything on it, ``row rank device``, ``FIGURES`` and ``BOUNDS``;
    ``row`` is the cycle's row among the run's cycles. ``parts``: the time from the first step to the end of the last
    one on each device, without a hole or an overlap: ``rank device from_ns to_ns row part`` (one of ``PARTS``; ``row``
    is null between cycles). ``unrecorded``: rows of first cycles whose work began after their mark, ``covered`` those
    whose work ran under work launched before them, and ``displaced`` those of cycles whose work ended before their mark
    began, which no clock allows: the times of the latter two are null."""

    devices: pl.DataFrame
    parts: pl.DataFrame
    unrecorded: tuple[int, ...] = ()
    covered: tuple[int, ...] = ()
    displaced: tuple[int, ...] = ()

    def main(self) -> pl.DataFrame:
        """Of ``devices`` the rows of each rank's main device: the one with most own work, of equals the first."""
        return self.devices.join(main_devices(self.devices), on=["rank", "device"], how="semi", nulls_equal=True)


NOTHING = StepTimes(pl.DataFrame(schema=_DEVICES), pl.DataFrame(schema=_PARTS))


def main_devices(devices: pl.DataFrame) -> pl.DataFrame:
    """``rank device`` of the device with most own work in each rank's cycles, of equals the one with the lower number;
    ``devices`` as in ``StepTimes``."""
    work = devices.group_by("rank", "device").agg(pl.col("busy_ns").sum())
    names = sorted(work["device"].cast(pl.String).drop_nulls().unique().to_list(), key=natural)
    order = {name: at for at, name in enumerate(names)}
    place = work["device"].cast(pl.String).replace_strict(order, default=-1, return_dtype=pl.Int64)
    return work.with_columns(place.alias("place")).sort(
        "rank", "busy_ns", "place", descending=[False, True, False]
    ).group_by("rank", maintain_order=True).first().select("rank", "device")


class PlacedWork(Struct, frozen=True):
    """The timed activities of a run as arrays, in recorded order: times in ns, rank and device code, the ``row`` of the
    cycle that each belongs to (-1: none), whether it ``computes`` or ``communicates``, whether it was launched
    ``before`` the first cycle, and whether (``unlaunched``) that was before the recording."""

    start: Ints
    end: Ints
    rank: Ints
    device: Ints
    row: Ints
    computes: Ints
    communicates: Ints
    before: Ints
    unlaunched: Ints


def work_of(run: Trace, cycles: pl.DataFrame, device_time: bool) -> PlacedWork:
    """The activities of the run with the cycle that each belongs to; ``cycles`` as for ``assignment.place``."""
    columns = Columns(("row",))
    rows = assignment.launched(run).filter(is_work()).drop_nulls(["start_ns"]).select(
        "launch_ns", "assumed_ns", "earlier", "start_ns", "rank",
        end=pl.col("start_ns") + pl.col("dur_ns").fill_null(0).clip(lower_bound=0),
        device=pl.col("device").to_physical().cast(pl.Int64), computes=(pl.col("kind") == "kernel").cast(pl.Int64),
        communicates=(pl.col("kind") == "collective").cast(pl.Int64))
    first = cycles["start_ns"].min()
    for batch in batches(rows):
        launch = batch["start_ns"] if device_time else batch.select(pl.coalesce("launch_ns", "assumed_ns")).to_series()
        at = pl.Series(assignment.place(batch, cycles, device_time))
        unlaunched = batch["earlier"] & (at < 0)
        early = unlaunched | (launch < first).fill_null(False)
        columns.add(batch.select("start_ns", "end", "rank", "device", "computes", "communicates").with_columns(
            row=at, before=early.cast(pl.Int64), unlaunched=unlaunched.cast(pl.Int64)))
    names = ("start_ns", "end", "rank", "device", "row", "computes", "communicates", "before", "unlaunched")
    return PlacedWork(*(columns.numbers(name) for name in names))


def step_times(run: Trace, cycles: pl.DataFrame, work: PlacedWork, device_time: bool) -> StepTimes:
    """The times of every cycle on every device. ``cycles`` are those of the run in their table's columns; recorded
    marks of one rank do not overlap."""
    marks = cycles.select("start_ns", "dur_ns", "rank").with_row_index("row")
    if marks.is_empty() or marks["start_ns"].null_count() or not len(work.start):
        return NOTHING
    marks = marks.with_columns(pl.col("row").cast(pl.Int64)).sort("start_ns", "row")
    several = marks["rank"].n_unique() > 1
    made = []
    for device, rank, rows in rows_by_device(work.rank, work.device):
        if rank is None and several:
            continue  # whose steps these were is unknown
        own = marks.filter(pl.col("rank").is_null() | (pl.col("rank") == rank)) if rank is not None else marks
        if not own.is_empty():
            inputs = EMPTY if device_time else _inputs(run, rank)
            made.append(_of_device(own, device, rank, work, rows, inputs, device_time))
    if not made:
        return NOTHING
    return StepTimes(
        pl.concat([one.devices for one in made]), pl.concat([one.parts for one in made]),
        tuple(sorted({row for one in made for row in one.unrecorded})),
        tuple(sorted({row for one in made for row in one.covered})),
        tuple(sorted({row for one in made for row in one.displaced})),
    )


def _inputs(run: Trace, rank: int | None) -> Intervals:
    """The time in DataLoader slices of a rank's host threads."""
    def find() -> Intervals:
        slices = run.host.filter(
            pl.col("kind").is_in(["op", "annotation", "dataloader", "python"]),
            pl.col("name").cast(pl.String).str.contains("DataLoader", literal=True),
            pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank),
        ).select("start_ns", "dur_ns").drop_nulls().collect(engine="streaming")
        starts = slices["start_ns"].to_numpy()
        return union(starts, starts + slices["dur_ns"].to_numpy())

    return run.remember("inputs", (rank,), find)


def _of_device(
    marks: pl.DataFrame, device: str | None, rank: int | None, work: PlacedWork, rows: Ints, inputs: Intervals,
    device_time: bool,
) -> StepTimes:
    """The times of the cycles ``marks`` (``row start_ns dur_ns``, in order) on one device, whose activities are at
    ``rows`` of ``work``."""
    place = np.full(int(marks["row"].max()) + 2, -1, dtype=np.int64)  # type: ignore[arg-type]
    place[marks["row"].to_numpy()] = np.arange(marks.height)
    begin, host = marks["start_ns"].to_numpy(), marks["dur_ns"].to_numpy()
    end = begin + host
    starts, ends, at = work.start[rows], work.end[rows], place[work.row[rows]]
    owned = np.flatnonzero(at >= 0)
    count = np.bincount(at[owned], minlength=marks.height)
    live = np.flatnonzero(count)
    if not len(live):
        return NOTHING
    of = np.full(marks.height, -1, dtype=np.int64)
    of[live] = np.arange(len(live))
    step = of[at[owned]]  # place among the live cycles
    first, last = np.full(len(live), np.iinfo(np.int64).max), np.full(len(live), np.iinfo(np.int64).min)
    np.minimum.at(first, step, starts[owned])
    np.maximum.at(last, step, ends[owned])

    reach, unrecorded = _before_first(begin[live[0]], end[live[0]], first[0], last[0], starts, ends,
                                      work.before[rows] > 0, inputs)
    displaced = (last <= begin[live]) & (first < last) & (not device_time)
    covered = bool(reach >= last[0] and reach > first[0]) and not displaced[0]
    until = np.maximum.accumulate(np.maximum(np.maximum(first, last), reach))
    opened = np.append(min(reach, int(first[0])) if reach <= begin[live[0]] else reach, until[:-1])
    since = np.maximum(first, opened)
    parts, owner, kind = _divided(begin, end, live, opened, since, until, inputs)

    # what lies in each step: the pieces are disjoint, so sums over them are exact
    busy = union(starts, ends)
    inside, length = busy.within(parts.starts, parts.ends), parts.ends - parts.starts
    spent = {name: _summed(length, owner, kind == at, len(live)) for at, name in enumerate(PARTS[:3])}
    step_ns = spent["lead"] + spent["window"] + spent["tail"]
    everything = _summed(inside, owner, owner >= 0, len(live))
    cut = np.maximum(starts[owned], since[step])
    own = per_owner(cut, ends[owned], step, len(live))
    talks = work.communicates[rows][owned] > 0
    computing = np.flatnonzero(work.computes[rows] > 0) if talks.any() else np.zeros(0, dtype=np.int64)
    comm = cut[talks], ends[owned][talks], step[talks], len(live)
    exposed = per_owner(*comm, without=union(starts[computing], ends[computing]))
    end_of_all = max(int(until[-1]), int(end[live[-1]]))
    assert int(length.sum()) == end_of_all - int(opened[0]), "steps and what lies between them are not the whole"

    period = np.append(ABSENT, np.diff(until))
    figures: dict[str, Ints] = {
        "host_ns": host[live], "device_ns": until - since, "lead_ns": spent["lead"], "tail_ns": spent["tail"],
        "step_ns": step_ns, "period_ns": period, "busy_ns": own, "other_ns": everything - own,
        "idle_ns": step_ns - everything, "comm_ns": per_owner(*comm), "exposed_ns": exposed,
        "from_ns": since, "to_ns": until,
    }
    absent = displaced.copy()
    absent[0] |= covered
    if absent.any():
        for name in FIGURES[1:]:
            figures[name] = np.where(absent, ABSENT, figures[name])
    if device_time:  # the host's part of it is unknown
        figures["host_ns"] = np.full(len(live), ABSENT)
    row = marks["row"].to_numpy()[live]
    every = np.arange(len(live))
    frame = pl.DataFrame({
        "row": row, "rank": pl.Series([rank] * len(live), dtype=pl.Int64),
        "device": pl.Series([device] * len(live), dtype=NAME),
        **{name: values_at(values, every) for name, values in figures.items()},
    }, schema=_DEVICES)
    pieces = pl.DataFrame({
        "rank": pl.Series([rank] * len(owner), dtype=pl.Int64), "device": pl.Series([device] * len(owner), dtype=NAME),
        "from_ns": parts.starts, "to_ns": parts.ends,
        "row": values_at(np.where(owner >= 0, row[np.maximum(owner, 0)], ABSENT), np.arange(len(owner))),
        "part": pl.Series(PARTS, dtype=NAME).gather(pl.Series(kind)),
    }, schema=_PARTS)
    at_first = (int(row[0]),)
    return StepTimes(frame, pieces, at_first if unrecorded and not displaced[0] else (), at_first if covered else (),
                     tuple(row[displaced].tolist()))


def _before_first(
    begin: int, end: int, first: int, last: int, starts: Ints, ends: Ints, before: Mask, inputs: Intervals
) -> tuple[int, bool]:
    """When the first cycle's lead begins, or the work before it ends, whichever is later; and whether its own work
    began only after its mark: then the device was at work that was not recorded, and there is no lead."""
    reach = int(begin)
    near = np.flatnonzero((inputs.ends <= begin) & (inputs.ends >= begin - SHORT_NS))
    if len(near):
        reach = min(reach, int(inputs.starts[near].min()))
    earlier = before & (starts < last)
    if earlier.any():
        reach = max(reach, int(ends[earlier].max()))
    unrecorded = bool(first > end)
    return max(reach, int(first)) if unrecorded else reach, unrecorded


def _divided(
    begin: Ints, end: Ints, live: Ints, opened: Ints, since: Ints, until: Ints, inputs: Intervals
) -> tuple[Intervals, Ints, Ints]:
    """The time from the first step to the end of the last one in pieces, in order: their bounds, the live cycle of each
    (-1: between) and its part. ``begin end`` of all marks; of the ``live`` ones the end of the window before, the begin
    and the end of their own."""
    stretch = since > opened
    stretches = Intervals(opened[stretch], since[stretch])
    of_stretch = np.flatnonzero(stretch)
    behind = live[:-1]
    tail_from = np.append(np.maximum(opened[1:], begin[behind]), until[-1])
    tail_to = np.append(np.minimum(since[1:], end[behind]), max(int(until[-1]), int(end[live[-1]])))
    real = tail_to > tail_from
    tails, of_tail = Intervals(tail_from[real], tail_to[real]), np.flatnonzero(real)
    between = _exceptional(begin, end, live, stretches, inputs) - tails
    leads = stretches - tails - between
    windows = until > since
    pieces = (
        (leads, of_stretch[np.searchsorted(stretches.starts, leads.starts, side="right") - 1] if len(of_stretch)
         else of_stretch, 0),
        (Intervals(since[windows], until[windows]), np.flatnonzero(windows), 1),
        (tails, of_tail, 2),
        (between, np.full(len(between.starts), -1), 3),
    )
    starts, ends = (np.concatenate([getattr(one, name) for one, _, _ in pieces]) for name in ("starts", "ends"))
    owner = np.concatenate([whose for _, whose, _ in pieces])
    kind = np.concatenate([np.full(len(one.starts), number) for one, _, number in pieces])
    order = np.argsort(starts, kind="stable")
    return Intervals(starts[order], ends[order]), owner[order], kind[order]


def _exceptional(begin: Ints, end: Ints, live: Ints, stretches: Intervals, inputs: Intervals) -> Intervals:
    """What of the stretches between windows lies between cycles: exceptional gaps between marks, less input, and marks
    that launched nothing. The stretch before the first window holds neither."""
    gaps = np.maximum(begin[1:] - end[:-1], 0)
    if not len(gaps):
        return EMPTY
    host = end - begin
    limit = max(SHORT_NS, int(np.sort(host)[len(host) // 2]) // 20, 3 * int(np.sort(gaps)[len(gaps) // 2]))
    wide = np.flatnonzero(gaps > limit)
    loose = Intervals(end[:-1][wide], begin[1:][wide]) & stretches
    loose = loose - inputs
    long = loose.ends - loose.starts > limit
    idle = np.ones(len(begin), dtype=bool)
    idle[live] = False
    idle[: live[0]] = False
    empty = union(begin[idle], end[idle]) & stretches
    return union(np.concatenate((loose.starts[long], empty.starts)), np.concatenate((loose.ends[long], empty.ends)))


def _summed(values: Ints, owner: Ints, some: Mask, count: int) -> Ints:
    return np.bincount(owner[some], weights=values[some], minlength=count).astype(np.int64)
