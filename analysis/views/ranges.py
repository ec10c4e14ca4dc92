"""Ranges (NVTX, ROCTX, record_function, step marks): host time of each range and the device time launched inside.

An activity belongs to a range when its launch call (its operator, if the work went through a queue or the call was
recorded apart from the thread that made it) began inside the range on the same thread. Work launched meanwhile by
threads of the process that are in no range, such as a backward pass, is counted separately. Sums over devices and
streams count overlapping activities twice; ``busy_ns`` does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import CannotAnswer, Runs, View
from ..core import units
from ..core.batches import ABSENT, ids, integer_arrays, numbered
from ..core.call_tree import HostSlices, Ints, nearest, numbers_among, pack, parent_within, slices_of
from ..core.callers import callers_of
from ..core.intervals import union_per_owner
from ..core.quantiles import codes, combined, dense, duration_columns, timeless_note
from ..core.stretches import LaunchStretches, busy_of, summed
from ..core.unknown import total
from ..cycles.paired import OneRun, answered_by, launched_in
from ..cycles.scope import with_host_of_parent
from ..details.event_arguments import longest_calls
from ..details.listed import Row, kernel, row_section, sides, span, sums_by

COLUMNS = (
    Column("name", "range", "text", "range name as recorded", width=34, order=0, elastic=True, pinned=True,
           role="label", pairs="key"),
    Column("count", "count", "count", "ranges of that name", width=7, order=2, role="count", pairs="sum"),
    Column("device_ns", "device", "ns", "device time of the activities launched inside it on its thread (empty where "
           "launches are not recorded)", width=10, order=0, role="time", pairs="sum", nests="device_self_ns"),
    Column("share", "of GPU time", "fraction", "share of all device time", width=11, order=3, role="share",
           pairs="sum", of="of all device time"),
    Column("busy_ns", "busy", "ns", "time with at least one of these activities running, summed over devices", width=10,
           order=3, pairs="sum"),
    Column("projected_ns", "projected", "ns", "first start to last end of the activities launched in each range on its "
           "thread, summed over ranges (nsys: projected duration)", width=10, order=3, pairs="sum"),
    Column("device_self_ns", "device self", "ns", "device time excluding launches in nested ranges", width=11, order=4,
           pairs="sum"),
    Column("elsewhere_ns", "meanwhile", "ns", "device time launched meanwhile by threads of the process outside any "
           "range, such as a backward pass", width=10, order=5, pairs="sum"),
    Column("launches", "launches", "count", "activities launched inside it", width=8, order=5, pairs="sum"),
    Column("total_ns", "host", "ns", "summed duration on the host", width=10, order=0, role="time", pairs="sum",
           nests="self_ns", pair_order=(1, 0)),
    Column("self_ns", "host self", "ns", "host time outside nested ranges", width=10, order=4, pairs="sum"),
    Column("p50_ns", "p50", "ns", "median duration on the host (nearest rank)", width=9, order=6, pairs="single"),
    Column("max_ns", "max", "ns", "longest duration on the host", width=9, order=7, pairs="single"),
    Column("trend", "host time", "trend", "histogram of host durations, log axis from shortest to longest", width=12,
           order=8, pairs="single"),
    Column("threads", "threads", "count", "number of threads with that range", width=7, order=8),
    Column("domain", "domain", "text", "NVTX domain; empty for the default domain", width=12, order=7, pairs="key"),
    Column("category", "category", "text", "NVTX category; empty where none was given", width=12, order=8,
           pairs="key"),
)
DEVICE_COLUMNS = ("device_ns", "device_self_ns", "busy_ns", "elsewhere_ns", "launches", "projected_ns")
"""The columns that sum the activities launched in the ranges."""


def table(run: Trace, options: Options, side: Side) -> OneRun:
    """The ranges of one run, their totals, and notes. Raises CannotAnswer."""
    ranges = _launched(run)
    if ranges is None:
        raise CannotAnswer(
            f"{run.info.label} holds no ranges; NVTX or ROCTX ranges and record_function marks are such."
        )
    counts = ranges.frame["count"]
    facts = {"ranges": ranges.frame.height, "count": int(counts.sum()) if counts.count() else None,
             "device_ns": ranges.device_ns, "unlaunched_device_ns": ranges.unlaunched_ns}
    notes = timeless_note(int(ranges.frame["timeless"].sum()), int(ranges.frame["count"].sum()), "range", "ranges")
    if ranges.device_ns and ranges.unlaunched_ns == ranges.device_ns:
        notes += ("No launch call is recorded for any device activity, so device time belongs to no range.",)
    elif ranges.device_ns and ranges.unlaunched_ns:
        lost = units.percent(100 * ranges.unlaunched_ns / ranges.device_ns)
        notes += (f"{lost} of the device time has no recorded launch and belongs to no range.",)
    summary: tuple[str, ...] = ()
    if not run.has("kernels"):
        from ..findings.device import lanes_sentence
        from ..findings.evidence.measured import slow_lanes_of  # only of recordings without device work

        summary = (lanes_sentence(lanes),) if (lanes := slow_lanes_of(run)) else ()
    frame = ranges.frame.select(column.name for column in COLUMNS)
    return OneRun(frame, facts, summary, notes, sums=(_sentence(facts),))


def _launched(run: Trace) -> Ranges | None:
    """The ranges of a run, most device time first; of cycles found on the device those that launched their work."""
    found, every = ranges_of(run), with_host_of_parent(run)
    of_all = ranges_of(every) if every is not None else None
    if found is None or of_all is None:
        return found
    frame = launched_in(found.frame, of_all.frame, COLUMNS, (*DEVICE_COLUMNS, "share"))
    return replace(of_all, frame=_in_order(frame))


def _sentence(facts: dict[str, Any]) -> str:
    names = units.counted(facts["ranges"], "name", "names")
    text = (f"ranges of {names}, not counted" if facts["count"] is None else
            f"{units.counted(facts['count'], 'range', 'ranges')} of {names}")
    return text + (f" · device time of the run {units.duration(facts['device_ns'])}" if facts["device_ns"] else "")



RANGE_KINDS = ("annotation", "dataloader")  # Host-slice kinds that count as ranges.
_KEYS = ("rank", "pid", "tid")
_NAMES = ("name", "domain", "category")
Mask = npt.NDArray[np.bool_]


class Ranges(Struct, frozen=True):
    """One row per range name; device time of the run in ns, total (None: no activities) and without a launch call."""

    frame: pl.DataFrame
    device_ns: int | None
    unlaunched_ns: int


class Launched(Struct, frozen=True):
    """Activities with a recorded launch, sorted by thread and launch time. ``row``: row of ``run.kernels``; ``thread``,
    ``process``: those of the launch call; ``inner``: number of the innermost range around the call (-1: none);
    ``launched``: start of the call; ``start``, ``dur``: of the activity; all in ns. Per range: ``range_thread`` and
    ``range_process``, numbered alike."""

    row: Ints
    thread: Ints
    process: Ints
    inner: Ints
    launched: Ints
    start: Ints
    dur: Ints
    device: Ints
    range_thread: Ints
    range_process: Ints


class Marked(Struct, frozen=True):
    """The ranges in recorded order: ``name`` codes into ``names`` (name, domain and category), ``rows`` of the host
    table, times in ns: ``dur`` 0 and ``recorded`` −1 for an unknown duration. ``keys``: rank, pid and tid of each."""

    names: pl.DataFrame
    name: Ints
    rows: Ints
    keys: tuple[Ints, ...]
    start: Ints
    dur: Ints
    recorded: Ints

    @property
    def thread(self) -> Ints:
        """A thread number for each range."""
        return numbered(*self.keys)

    def among(self, slices: int) -> Mask:
        """Mask over that many host slices: which of them are ranges."""
        mask = np.zeros(slices, dtype=bool)
        mask[self.rows] = True
        return mask


def ranges_of(run: Trace) -> Ranges | None:
    """The ranges of the run, most device time first; None without any. Reads ``host_stats`` if only sums exist."""
    if not run.has("host") and run.has("host_stats"):
        return _from_sums(run)
    slices = slices_of(run)
    marked = _marked(run)
    if not len(marked.rows):
        return None
    is_range = marked.among(len(slices.parent))
    work, total, unlaunched = _work(run, slices, marked, is_range)
    count = marked.names.height
    parent = parent_within(slices.parent, is_range)
    inside = np.bincount(parent[parent >= 0], weights=marked.dur[parent >= 0], minlength=len(marked.dur))
    threads = np.bincount(np.unique(np.stack((marked.name, marked.thread)), axis=1)[0], minlength=count)
    frame = pl.DataFrame({
        **marked.names.to_dict(), **duration_columns(marked.name, marked.recorded, count),
        "self_ns": summed(marked.name, np.maximum(marked.dur - inside, 0), count), "threads": threads,
    }).with_columns(**_device_time(marked, work, count)).with_columns(
        pl.when(pl.col("total_ns").is_not_null()).then("self_ns"),
        share=pl.when(pl.lit(bool(total))).then(pl.col("device_ns") / (total or 1))
    )
    return Ranges(_in_order(frame), total, unlaunched)


def _in_order(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("device_ns", "total_ns", pl.col("name").cast(pl.String), descending=[True, True, False],
                      nulls_last=True)


def _from_sums(run: Trace) -> Ranges | None:
    """Ranges from recorded sums; device columns are null."""
    frame = run.host_stats.filter(pl.col("kind").is_in(RANGE_KINDS)).group_by("name", maintain_order=True).agg(
        total(pl.col("count")), total(pl.col("total_ns")), pl.col("max_ns").max(),
        pl.when(pl.len() == 1).then(pl.col("p50_ns").first()).alias("p50_ns")).collect()
    if frame.is_empty():
        return None
    unknown = ("timeless", "self_ns", "threads", "device_ns", "projected_ns", "device_self_ns", "busy_ns",
               "elsewhere_ns", "launches")
    frame = frame.with_columns(
        *(pl.lit(None, pl.Int64).alias(name) for name in unknown), share=pl.lit(None, pl.Float64),
        trend=pl.lit(None, pl.List(pl.Int64)),
    )
    by_name = pl.col("name").cast(pl.String)
    frame = frame.with_columns(domain=pl.lit(None, NAME), category=pl.lit(None, NAME))
    return Ranges(frame.sort(pl.col("total_ns"), by_name, descending=[True, False], nulls_last=True), None, 0)


def activities_in(run: Trace, name: str) -> pl.DataFrame:
    """``row`` of each activity in ``run.kernels`` launched inside a range of that name, once each; may be empty."""
    slices, marked = slices_of(run), _marked(run)
    work, _, _ = _work(run, slices, marked, marked.among(len(slices.parent)))
    wanted = np.flatnonzero((marked.names["name"].cast(pl.String) == name).to_numpy())
    if work is None or not len(wanted):
        return pl.DataFrame({"row": pl.Series([], dtype=pl.UInt32)})
    inside = _inside(marked, work, work.range_thread, work.thread)
    _, at = inside.pairs(np.isin(inside.owner, wanted))
    return pl.DataFrame({"row": pl.Series(np.unique(work.row[at])).cast(pl.UInt32)})


def _marked(run: Trace) -> Marked:
    ranges = run.host.with_row_index("row").filter(pl.col("kind").is_in(RANGE_KINDS), pl.col("name").is_not_null())
    result = integer_arrays(ranges.select("row", "start_ns", "dur_ns", *_KEYS))
    named = ranges.select(_NAMES).collect(engine="streaming")
    nothing = np.zeros(0, dtype=np.int64)
    code, seen = dense(combined([codes(named[name]) for name in _NAMES])) if named.height else (nothing, nothing)
    return Marked(
        named[pl.Series(seen)], code.astype(np.int64), result["row"],
        tuple(result[key] for key in _KEYS), np.where(result["start_ns"] == ABSENT, 0, result["start_ns"]),
        np.maximum(result["dur_ns"], 0), np.where(result["dur_ns"] == ABSENT, -1, np.maximum(result["dur_ns"], 0)),
    )


def _work(run: Trace, slices: HostSlices, marked: Marked, is_range: Mask) -> tuple[Launched | None, int | None, int]:
    """Activities with a launch (None: no launches recorded), total device time, and device time without a launch."""
    rows = run.kernels.select("kind", "start_ns", "dur_ns", "device", "rank", "op_id").collect(engine="streaming")
    counts = (rows["kind"] != "sync").fill_null(True).to_numpy() & rows["dur_ns"].is_not_null().to_numpy()
    dur = np.maximum(ids(rows["dur_ns"]), 0)
    if not counts.any():
        return None, None, 0
    total = int(dur[counts].sum())
    callers = callers_of(run)
    if callers is None or not (callers.call >= 0).any():
        return None, total, total
    # op_id < 0: a flow arrow names the operator, because the launch call was made by the thread that drains its queue;
    # XLA on ROCm records calls under threads of their own, in no range, with the operator that made them
    queued = (rows["op_id"] < 0).fill_null(False).to_numpy() & (callers.operator >= 0)
    alone = np.flatnonzero((callers.call >= 0) & (callers.operator >= 0))
    alone = alone[nearest(slices.parent, callers.call[alone], is_range) < 0]
    queued[alone] |= slices.at(callers.call[alone], "tid") != slices.at(callers.operator[alone], "tid")
    launched = np.where(queued, callers.operator, callers.call)
    chosen = np.flatnonzero(counts & (launched >= 0) & rows["start_ns"].is_not_null().to_numpy())
    call = launched[chosen]
    inner = nearest(slices.parent, call.astype(np.int32), is_range)
    device = numbered(ids(rows["rank"]), ids(rows["device"].to_physical().cast(pl.Int64)))
    starts = slices.at(call, "start_ns", 0)
    both = [np.concatenate((slices.at(call, key), marks)) for key, marks in zip(_KEYS, marked.keys, strict=True)]
    (thread, range_thread), (process, range_process) = (
        np.split(numbered(*some), [len(call)]) for some in (both, both[:2]))
    order = np.lexsort((starts, thread))
    chosen, inner = chosen[order], inner[order]
    work = Launched(
        chosen, thread[order], process[order], np.where(inner >= 0, numbers_among(is_range)[inner], -1), starts[order],
        ids(rows["start_ns"])[chosen], dur[chosen], device[chosen],
        range_thread, range_process,
    )
    return work, total, total - int(dur[chosen].sum())


def _device_time(marked: Marked, work: Launched | None, count: int) -> dict[str, pl.Series]:
    """The device columns per range name; all null where no launches are recorded."""
    if work is None:
        return {name: pl.Series(name, [None] * count, dtype=pl.Int64) for name in DEVICE_COLUMNS}
    inside = _inside(marked, work, work.range_thread, work.thread)
    own = work.inner >= 0
    rows = np.flatnonzero(~own)
    rows = rows[np.lexsort((work.launched[rows], work.process[rows]))]
    ours = {name: getattr(work, name)[rows] for name in Launched.__struct_fields__ if not name.startswith("range_")}
    strays = replace(work, **ours)
    meanwhile = _inside(marked, strays, work.range_process, strays.process)
    result = (
        inside.sums(work.dur, count), summed(marked.name[work.inner[own]], work.dur[own], count),
        busy_of(inside, work.start, work.dur, work.device, count), meanwhile.sums(strays.dur, count),
        summed(inside.owner, inside.last - inside.first, count), summed(marked.name, _projected(marked, work), count),
    )
    return {name: pl.Series(name, values) for name, values in zip(DEVICE_COLUMNS, result, strict=True)}


def _projected(marked: Marked, work: Launched) -> Ints:
    """Per range: time from the first start to the last end of the activities launched in it on its thread; 0 for none.
    ``work`` is sorted by thread and launch."""
    thread, times = np.concatenate((work.thread, np.tile(work.range_thread, 2))), np.concatenate(
        (work.launched, marked.start, marked.start + marked.dur))
    at, first, last = np.split(pack(thread, times), [len(work.row), len(work.row) + len(marked.start)])
    low, high = np.searchsorted(at, first), np.searchsorted(at, last)
    some = np.flatnonzero(high > low)
    result = np.zeros(len(low), dtype=np.int64)
    if len(some):
        edges = np.stack((low[some], high[some]), axis=1).ravel()  # reduceat: every second segment is a range
        starts, ends = np.append(work.start, 0), np.append(work.start + work.dur, 0)
        result[some] = np.maximum.reduceat(ends, edges)[::2] - np.minimum.reduceat(starts, edges)[::2]
    return result


def _inside(marked: Marked, work: Launched, place: Ints, where: Ints) -> LaunchStretches:
    """The activities launched in ranges of each name. ``place`` of a range and ``where`` of a launch (thread or
    process) must match; ``work`` is sorted by ``where``. Overlapping ranges of one name are merged."""
    spread = int(marked.name.max(initial=0)) + 1
    starts, ends, owner = union_per_owner(marked.start, marked.start + marked.dur, place * spread + marked.name)
    first, last = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
    edges = np.searchsorted(where, np.arange(int(where.max(initial=-1)) + 2))
    of = owner // spread
    order = np.argsort(of, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
        if not len(group) or of[group[0]] + 1 >= len(edges):
            continue
        low, high = edges[of[group[0]]], edges[of[group[0]] + 1]
        times = work.launched[low:high]
        first[group] = low + np.searchsorted(times, starts[group], side="left")
        last[group] = low + np.searchsorted(times, ends[group], side="left")
    some = last > first
    return LaunchStretches(owner[some] % spread, first[some], last[some])


def sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The kernels launched inside ranges of the name, and the longest ranges."""
    result: list[Section] = []
    for number, run, tail in sides(runs, options):
        inside = activities_in(run, str(row["name"]))
        if not inside.is_empty():
            rows = run.kernels.select("name", "dur_ns").with_row_index("row").collect(engine="streaming")
            result += row_section(
                f"Launched inside{tail}", sums_by(rows.join(inside, on="row", how="semi"), "name"),
                (kernel, units.count, span), ("kernel", "launches", "total"))
        result += longest_calls(run, str(row["name"]), number, tail, RANGE_KINDS)
    return result


VIEW = View(
    "ranges", COLUMNS, answered_by(COLUMNS, table, launched=True), pair_columns(COLUMNS), noun="ranges",
    details=sections,
)
