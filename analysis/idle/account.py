"""The account of a run's idle time: every gap of every device with its causes, and what drained the queue.

The causes of a gap sum to its length, and those of a device to its idle time, to the nanosecond.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import Ints, crossing_notes, crossings, nearest, pack
from ..core.callers import Callers, callers_of, places_of
from ..core.derived import derived_rows, derived_value
from ..core.host_slices import HostSlices
from ..core.intervals import EMPTY, Intervals, union
from ..core.launch_calls import CALLS, ids
from ..core.names.short_name import short_name
from .causes import BY_SLICE, CAUSES, DISPATCH_NS, blocking, causes_of
from .gaps import DeviceGaps, activities_of, gaps_of
from .thread_time import ThreadTimeline, ThreadWindows, time_by_cause

_NAMES = tuple(CAUSES)


class DeviceIdle(Struct, frozen=True):
    """One device: first start to last end, busy and idle time in ns, idle time by cause (those above 0), gaps."""

    device: str | None
    rank: int | None
    window_ns: int
    busy_ns: int
    idle_ns: int
    causes: dict[str, int]
    gaps: int


class Idle(Struct, frozen=True):
    """Every gap as a row of ``gaps``, longest first, sums per device, and notes on what could not be known.

    Gaps of a big recording are on disk: 60 bytes each in memory, of which most questions need a few or some columns.

    ``gaps``: ``device rank start_ns dur_ns cause cause_ns before after call op frame drained_by drain_ns index``, where
    ``cause`` is the one that most of the gap had, for ``cause_ns``, and ``index`` the launch that ended it.
    """

    gaps: pl.LazyFrame
    devices: tuple[DeviceIdle, ...]
    notes: tuple[str, ...]


_known: deque[tuple[Trace, Trace, Idle]] = deque(maxlen=4)


def idle_of(run: Trace, piece: Trace) -> Idle | None:
    """Idle time between the activities of ``piece``, which is the run or a part of it; None without any times."""
    for trace, part, known in _known:
        if trace is run and part is piece:
            return known
    idle = _kept(run) if piece is run else _account(run, activities_of(piece))
    if idle is not None:
        _known.append((run, piece, idle))
    return idle


def _kept(run: Trace) -> Idle | None:
    """The account of the whole run."""
    made = list[Idle | None]()

    def found() -> Idle | None:
        if not made:
            made.append(_account(run, activities_of(run)))
        return made[0]

    def about() -> _About | None:
        idle = found()
        return None if idle is None else _About(idle.devices, idle.notes)

    def gaps() -> pl.DataFrame:
        idle = found()
        return pl.DataFrame() if idle is None else idle.gaps.collect()

    told = derived_value(run, "gaps-about", _About | None, about)
    return None if told is None else Idle(derived_rows(run, "gaps", gaps), told.devices, told.notes)


class _About(Struct, frozen=True):
    """What is kept of the account beside its gaps."""

    devices: tuple[DeviceIdle, ...]
    notes: tuple[str, ...]


class _Host(Struct, frozen=True):
    """What was recorded of the host: slices, their threads and callers, and when profilers were at work, by rank."""

    slices: HostSlices
    thread: Ints
    callers: Callers
    overhead: dict[int, Intervals]


def _host(run: Trace) -> _Host | None:
    if not run.has("host"):
        return None
    slices = HostSlices(run)
    callers = callers_of(run, slices)
    if callers is None:
        return None
    at_work = np.flatnonzero(slices.of_kind("overhead"))
    rank, starts, ends = (values[at_work] for values in (slices.rank, slices.start, slices.start + slices.dur))
    overhead = {int(one): union(starts[rank == one], ends[rank == one]) for one in np.unique(rank)}
    return _Host(slices, slices.thread, callers, overhead)


def _account(run: Trace, activities: pl.DataFrame) -> Idle | None:
    if activities.is_empty():
        return None
    host, found = _host(run), gaps_of(activities)
    frames, devices = [], []
    for device in found:
        frame, sums = _of_device(run, host, activities, device)
        frames.append(frame)
        devices.append(sums)
    gaps = pl.concat(frames).sort("dur_ns", "start_ns", "rank", descending=[True, False, False], maintain_order=True)
    return Idle(gaps.lazy(), tuple(devices), tuple(_notes(run, host, devices)))


def _of_device(
    run: Trace, host: _Host | None, activities: pl.DataFrame, gaps: DeviceGaps
) -> tuple[pl.DataFrame, DeviceIdle]:
    count = len(gaps.starts)
    parts = np.zeros((len(_NAMES), count), dtype=np.int64)
    index = activities["index"].gather(pl.Series(gaps.after))
    none = pl.Series([None] * count, dtype=NAME)
    told = {"call": none, "op": none, "frame": none, "drained_by": none,
            "drain_ns": pl.Series([None] * count, dtype=pl.Int64)}
    if host is None:
        parts[_NAMES.index("unknown")] = gaps.ends - gaps.starts
    else:
        rows = _rows_of(run, index)
        call = host.callers.call[rows]
        _fill(parts, host, activities, gaps, call)
        told = {
            "call": host.slices.names_of(call), "op": host.callers.frame["op"].gather(pl.Series(rows)),
            "frame": host.callers.frame["frame"].gather(pl.Series(rows)),
            **_drained_by(host, gaps, call),
        }
    most = parts.argmax(axis=0) if count else np.zeros(0, dtype=np.int64)
    names = activities["name"]
    frame = pl.DataFrame({
        "device": pl.Series([gaps.device] * count, dtype=NAME), "rank": pl.Series([gaps.rank] * count, dtype=pl.Int64),
        "start_ns": gaps.starts, "dur_ns": gaps.ends - gaps.starts,
        "cause": pl.Series(_NAMES, dtype=NAME).gather(pl.Series(most)),
        "cause_ns": parts[most, np.arange(count)], "before": names.gather(pl.Series(gaps.before)),
        "after": names.gather(pl.Series(gaps.after)), **told, "index": index,
    })
    sums = {name: int(total) for name, total in zip(_NAMES, parts.sum(axis=1), strict=True) if total}
    return frame, DeviceIdle(gaps.device, gaps.rank, gaps.window_ns, gaps.busy_ns, gaps.idle_ns, sums, count)


def _rows_of(run: Trace, index: pl.Series) -> Ints:
    """The rows of ``run.kernels`` with these launch numbers."""
    every = run.kernels.select("index").collect(engine="streaming")["index"].to_numpy()
    wanted = index.to_numpy()
    if len(every) and every[0] == 0 and every[-1] == len(every) - 1 and bool((np.diff(every) == 1).all()):
        return wanted
    order = np.argsort(every, kind="stable")
    return order[np.searchsorted(every[order], wanted)]


def _fill(parts: Ints, host: _Host, activities: pl.DataFrame, gaps: DeviceGaps, call: Ints) -> None:
    """Give every nanosecond of the gaps its cause; ``call`` is the launch call of what ended each, -1 for none."""
    slices, length = host.slices, gaps.ends - gaps.starts
    correlation = ids(activities["correlation"])
    known = call >= 0
    graph = known & (correlation[gaps.before] == correlation[gaps.after])
    parts[_NAMES.index("unknown")] = np.where(known, 0, length)
    parts[_NAMES.index("graph")] = np.where(graph, length, 0)
    some = np.flatnonzero(known & ~graph)
    if not len(some):
        return
    launch, begin, end = call[some], gaps.starts[some], gaps.ends[some]
    called = np.clip(slices.start[launch], begin, end)
    returned = np.clip(slices.start[launch] + slices.dur[launch], begin, end)
    overhead = host.overhead.get(int(slices.rank[launch[0]]), EMPTY)
    windows = ThreadWindows(host.thread[launch], begin, called)
    inside = time_by_cause(_timeline(host, windows), windows, overhead)
    for number, cause in enumerate(BY_SLICE):
        parts[_NAMES.index(cause), some] = inside[number]
    before, during = overhead.within(begin, called), overhead.within(called, returned)
    parts[_NAMES.index("untraced"), some] = called - begin - before - inside.sum(axis=0)
    parts[_NAMES.index("profiler"), some] = before + during
    parts[_NAMES.index("launch"), some] = returned - called - during
    waited = end - returned
    parts[_NAMES.index("dispatch"), some] = np.minimum(waited, DISPATCH_NS)
    parts[_NAMES.index("queued"), some] = np.maximum(waited - DISPATCH_NS, 0)


def _timeline(host: _Host, windows: ThreadWindows) -> ThreadTimeline:
    """The slices of the windows' threads that are of use to them: those that overlap one, and what encloses those."""
    slices = host.slices
    real = windows.ends > windows.starts
    threads = np.zeros(int(host.thread.max(initial=0)) + 1, dtype=bool)
    threads[windows.thread[real]] = True
    causes, is_input = causes_of(slices)
    ends = slices.start + slices.dur
    use = threads[host.thread] & (causes >= 0) & (ends > slices.start)
    if real.any():
        use &= (slices.start < windows.ends[real].max()) & (ends > windows.starts[real].min())
    number = np.cumsum(use) - 1
    rows = np.flatnonzero(use)
    above = nearest(slices.parent, slices.parent[rows].astype(np.int64), use)
    return ThreadTimeline(
        host.thread[rows], slices.start[rows], ends[rows], np.where(above >= 0, number[above], -1), causes[rows],
        is_input[rows],
    )


def _drained_by(host: _Host, gaps: DeviceGaps, call: Ints) -> dict[str, pl.Series]:
    """The last call before each launch, on its thread, that waited for the device until after the gap began.

    ``drained_by`` is where it was made, and ``drain_ns`` how long it waited.
    """
    slices = host.slices
    waits = np.flatnonzero(blocking(slices))
    launch = np.maximum(call, 0)
    found = np.full(len(call), -1, dtype=np.int64)
    if len(waits) and len(call):
        ends = slices.start[waits] + slices.dur[waits]
        packed = pack(
            np.concatenate((host.thread[waits], host.thread[launch])), np.concatenate((ends, slices.start[launch]))
        )
        order = np.argsort(packed[: len(waits)], kind="stable")
        place = np.searchsorted(packed[: len(waits)][order], packed[len(waits) :], side="right") - 1
        known = order[np.maximum(place, 0)]
        same = (call >= 0) & (place >= 0) & (host.thread[waits[known]] == host.thread[launch])
        found = np.where(same & (ends[known] > gaps.starts), waits[known], -1)
    operator = nearest(slices.parent, found, slices.of_kind("op"))
    _, frame = places_of(slices).around(slices, found)
    rows = pl.DataFrame({
        "who": slices.names_of(np.where(operator >= 0, operator, found)), "frame": frame,
    })
    lines = {line: short_name(line) for line in frame.cast(pl.String).unique().drop_nulls()}
    text = pl.concat_str(
        pl.col("who").cast(pl.String), pl.col("frame").cast(pl.String).replace(lines), separator=", ", ignore_nulls=True
    )
    waited = pl.Series(slices.dur[np.maximum(found, 0)] if len(slices.dur) else np.zeros(len(found), dtype=np.int64))
    return {
        "drained_by": rows.select(pl.when(pl.col("who").is_not_null()).then(text).cast(NAME).alias("by"))["by"],
        "drain_ns": waited.set(pl.Series(found < 0), None),
    }


def _notes(run: Trace, host: _Host | None, devices: list[DeviceIdle]) -> list[str]:
    idle, unknown = (sum(d.idle_ns for d in devices), sum(d.causes.get("unknown", 0) for d in devices))
    notes = []
    if host is None or (idle and unknown == idle):
        notes.append(
            "No launch calls were recorded for these activities: the gaps are times in which nothing was recorded on "
            "the device; the cause is unknown."
        )
    elif unknown:
        share = 100 * unknown / idle
        notes.append(f"{share:.1f}% of the idle time ended with an activity whose launch is not recorded.")
    if host is not None:
        notes += crossing_notes(crossings(run.host))
    if host is not None and (bare := _bare_graphs(run, host.slices)):
        notes.append(
            f"{bare:,} graph launches have no kernels recorded: the device may have run them in what counts as idle."
        )
    return notes


def _bare_graphs(run: Trace, slices: HostSlices) -> int:
    """How many graph launches no device activity belongs to."""
    launches = slices.named(lambda name: "GraphLaunch" in name, slices.of_kind(*CALLS))
    if not launches.any():
        return 0
    known = run.kernels.select(pl.col("correlation").unique()).collect(engine="streaming")["correlation"].drop_nulls()
    rows = run.host.select("correlation").collect(engine="streaming")["correlation"].filter(pl.Series(launches))
    return int((~rows.is_in(known.implode()).fill_null(False)).sum())
