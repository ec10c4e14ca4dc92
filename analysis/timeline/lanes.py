"""The lanes of a run: one per stream of each device and per nesting depth of each host thread, slices sorted by time.

A stream whose activities overlap is spread over several lanes, so that none hides another. Everything is arrays: five
million slices take 33 bytes each, and names are looked up only for slices wide enough to show one.
"""

from __future__ import annotations

from collections import Counter as Counting
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, structs

from ...loaders.trace import Trace
from ..communication.rank_clocks import clocks_of, on_first_clock
from ..contract.options import Options
from ..core.batches import SCHEDULED
from ..core.intervals import union
from ..core.thread_names import thread_name
from ..cycles.detection import cycles_of
from .classes import CODES, call_class, device_class, host_class, kernel_class
from .counters import Counter, counters_of
from .coverage import ClassTimes, Coverage, Ints, class_times, coverage_of
from .rows import levels
from .slices import Key, Slices, by_lane, drawn_slices

MOST_DEPTHS = 1024
"""Most nesting depths of a thread with a lane each, close to CPython's recursion limit; the last lane takes all deeper
slices and says how many are hidden."""
BLOCK = 4096
"""Slices per block whose longest is precomputed, so that slices wide enough for a name are found among millions."""
MOST_ROWS = 8
"""Most rows for the overlapping slices of one stream; the last takes the rest and says how many it hides."""


class Lane(Struct, frozen=True):
    """A stream (``tid`` is None) or one depth of a thread (``tid`` set): its slices and when it was busy. ``main`` is
    the most common class, ``by_class`` the time per class (None if all slices have the class ``main``), ``longest`` the
    length (ns) of the longest slice in each ``BLOCK``. A stream whose slices overlap has several lanes, numbered by
    ``depth``, and the first has ``stream_busy``, when any of them was busy. ``hidden``: number of slices that begin
    under another slice of the lane; ``thread``: the thread's name.
    """

    slices: Slices
    busy: Coverage
    main: int
    by_class: ClassTimes | None
    longest: Ints
    device: str | None = None
    stream: int | None = None
    pid: int | None = None
    tid: int | None = None
    rank: int | None = None
    depth: int | None = None
    hidden: int = 0
    title: str = ""
    thread: str = ""
    stream_busy: Coverage | None = None

    @property
    def name(self) -> str:
        """Name of the lane: 'GPU 0 stream 7', 'thread 1234 depth 2', or its title if it has one."""
        if self.title:
            return self.title
        if self.thread:
            return self.thread + (f" depth {self.depth}" if self.depth else "")
        of = "" if self.rank is None else f"rank {self.rank} "
        return f"{of}{self.device or 'device'} stream {'?' if self.stream is None else self.stream}"


class Marks(Struct, frozen=True):
    """Cycles as marks over the lanes: starts, ends (ns), labels and numbers."""

    starts: Ints
    ends: Ints
    labels: tuple[str, ...]
    numbers: tuple[int, ...] = ()


class Extent(Struct, frozen=True):
    """Start and end of a timeline, ns. ``first_cycle``: start of the first cycle (None without timed cycles);
    ``first_activity``: start of the first device activity (``start`` if there is none)."""

    start: int
    end: int
    first_cycle: int | None
    first_activity: int


class Timeline(Struct, frozen=True, dict=True):
    """All lanes of one run, device lanes first; ``names`` by code; ``start``..``end`` (ns) spans everything recorded.
    ``drawn``: the lanes as drawn, streams with overlapping slices spread over several. ``devices``: when any device was
    busy. ``clocks``: per rank, how far its clock is ahead of the first rank's (ns); all lanes use the first rank's
    clock. ``path``: the critical path of a cycle, once requested."""

    label: str
    drawn: tuple[Lane, ...]
    counters: tuple[Counter, ...]
    names: Mapping[int, str]
    start: int
    end: int
    devices: Coverage
    marks: Marks
    clocks: Mapping[int, int] = {}
    path: Lane | None = None

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes with one lane per stream, built on each access."""
        grouped: dict[tuple[object, ...], list[Lane]] = {}
        for lane in self.drawn:
            own = (lane.depth,) if lane.tid is not None else ()
            grouped.setdefault((lane.rank, lane.device, lane.stream, lane.pid, lane.tid, *own), []).append(lane)
        return tuple(_joined(parts) for parts in grouped.values())

    @property
    def streams(self) -> int:
        """The number of streams."""
        return len({(lane.rank, lane.device, lane.stream) for lane in self.drawn if lane.tid is None})

    @cached_property
    def codes(self) -> dict[str, int]:
        """The code of each name."""
        return {text: code for code, text in self.names.items()}

    @property
    def device(self) -> str | None:
        """The only device that has lanes; None where there are several."""
        devices = {lane.device for lane in self.drawn if lane.tid is None}
        return devices.pop() if len(devices) == 1 else None

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The ranks that have a lane."""
        return tuple(dict.fromkeys(lane.rank for lane in self.drawn))

    @property
    def extent(self) -> Extent:
        """Start, end, and the moments by which it is aligned with another timeline."""
        return _extent(self.start, self.end, self.devices, self.marks)


NO_MARKS = Marks(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


def timeline_of(run: Trace, options: Options, marks: bool = True) -> Timeline:
    """The timeline of a run; without lanes if nothing has a timestamp. ``marks`` False leaves out the cycles: if none
    are recorded, detecting them takes longer than all the rest."""
    names: dict[int, str] = {}
    clocks = clocks_of(run)
    lanes, busy = _streams(run, names, clocks)
    lanes += _threads(run, names, clocks)
    first = min((int(lane.slices.starts[0]) for lane in lanes), default=0)
    last = max((int(lane.slices.ends.max()) for lane in lanes), default=0)
    return Timeline(
        run.info.label, tuple(lanes), counters_of(on_first_clock(run, clocks)), names, first, max(last, first + 1),
        busy, cycle_marks(run, options) if marks else NO_MARKS, clocks,
    )


def extent_of(run: Trace, options: Options) -> Extent | None:
    """The extent ``timeline_of`` would give, in a tenth of the time and memory; None if the run has no lanes."""
    clocks = clocks_of(run)
    if any(clocks.values()):
        timeline = timeline_of(run, options)
        return timeline.extent if timeline.drawn else None
    devices = drawn_slices(run.kernels, device_class)
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    first, ended = run.host.select(pl.col("start_ns").min(), end.max().alias("end")).collect(engine="streaming").row(0)
    if len(devices.starts):
        starts, ends = int(devices.starts.min()), int(devices.ends.max())
        first, ended = (starts, ends) if first is None else (min(first, starts), max(ended, ends))
    if first is None:
        return None
    return _extent(first, max(ended, first + 1), devices.together(), cycle_marks(run, options))


def _extent(start: int, end: int, devices: Coverage, marks: Marks) -> Extent:
    first = int(devices.starts[0]) if len(devices.starts) else start
    return Extent(start, end, int(marks.starts[0]) if len(marks.starts) else None, first)


def _streams(run: Trace, names: dict[int, str], clocks: Mapping[int, int]) -> tuple[list[Lane], Coverage]:
    """The device lanes, and when any device was busy."""
    drawn = drawn_slices(run.kernels, device_class, clocks)
    slices = by_lane(run.kernels, ("rank", "device", "stream"), drawn, names, kernel_class)
    return [lane for key, some in slices for lane in _stream(key, some)], drawn.together()


def _threads(run: Trace, names: dict[int, str], clocks: Mapping[int, int]) -> list[Lane]:
    """The host lanes, busiest thread first. A thread's slices are freed once its lanes are made: saves 100 MB for five
    million slices."""
    drawn = drawn_slices(run.host, host_class, clocks)
    threads = by_lane(run.host, ("rank", "pid", "tid"), drawn, names, call_class)
    threads.sort(key=lambda one: -union(one[1].starts, one[1].ends).length)
    lanes: list[Lane] = []
    scheduled = [code for code, name in names.items() if name in SCHEDULED]
    processes = Counting((rank, tid) for (rank, _, tid), _ in threads)  # several may have a thread of that number
    threads.reverse()
    while threads:
        key, slices = threads.pop()
        lanes += _thread(run, scheduled, key, slices, processes[key[0], key[2]] > 1)
    return lanes


def cycle_marks(run: Trace, options: Options) -> Marks:
    """The timed cycles of a run, named by their labels where these are unique; for a job, the cycles of its first rank.
    """
    frame = cycles_of(run, options).filter(pl.col("start_ns").is_not_null()).sort("start_ns").select(
        "start_ns", "dur_ns", pl.col("label").cast(pl.String), "cycle", "rank"
    ).collect()
    if frame["rank"].n_unique() > 1:
        frame = frame.filter(pl.col("rank").eq_missing(pl.lit(frame["rank"].drop_nulls().min())))
    starts = frame["start_ns"].to_numpy()
    recorded = frame["label"].drop_nulls()
    distinct = recorded.n_unique() == len(recorded)
    labels = tuple(
        label if label and distinct else f"cycle {cycle}"
        for label, cycle in zip(frame["label"], frame["cycle"], strict=True)
    )
    return Marks(starts, starts + frame["dur_ns"].to_numpy(), labels, tuple(frame["cycle"]))


def _stream(key: Key, slices: Slices) -> Iterator[Lane]:
    rank, device, stream = key
    for row, row_slices in _levels(slices, MOST_ROWS):
        lane = _lane(row_slices, device, stream, None, None, rank, row)
        yield structs.replace(lane, stream_busy=coverage_of(slices.starts, slices.ends)) if row == 0 else lane


def _thread(run: Trace, scheduled: Sequence[int], key: Key, slices: Slices, with_pid: bool) -> Iterator[Lane]:
    """Nested slices, one lane per depth; then the scheduler's, which overlap calls without nesting."""
    (rank, pid, tid), depth = key, 0
    sched = (slices.classes == CODES["sched"]) & np.isin(slices.names, scheduled)
    parts = (slices.pick(~sched), slices.pick(sched)) if sched.any() else (slices,)
    name = thread_name(run, rank, pid, tid) + (f" pid {pid}" if with_pid else "")
    for some in parts:
        for _, level_slices in _levels(some, MOST_DEPTHS):
            yield structs.replace(_lane(level_slices, None, None, pid, tid, rank, depth), thread=name)
            depth += 1


def _levels(slices: Slices, most: int) -> Iterator[tuple[int | None, Slices]]:
    """The slices of each row they are drawn in; all slices with row None if none overlap."""
    level = levels(slices.starts, slices.ends, most)
    sizes = np.bincount(level)
    if len(sizes) < 2:
        if len(slices):
            yield None, slices
        return
    ordered, edge = slices.pick(np.argsort(level, kind="stable")), 0
    for row, size in enumerate(sizes.tolist()):
        yield row, ordered.pick(slice(edge, edge + size))
        edge += size


def _joined(parts: list[Lane]) -> Lane:
    """The rows of one stream as one lane."""
    one = parts[0]
    if len(parts) == 1:
        return one
    fields = [np.concatenate([getattr(part.slices, name) for part in parts]) for name in Slices.__struct_fields__]
    slices = Slices(*fields).in_order()
    return _lane(slices, one.device, one.stream, one.pid, one.tid, one.rank, None)


def lane_of(slices: Slices, title: str) -> Lane:
    """A lane of sorted slices with that title."""
    return structs.replace(_lane(slices, None, None, None, None, None, None), title=title)


def _lane(slices: Slices, device: Any, stream: Any, pid: Any, tid: Any, rank: Any, depth: int | None) -> Lane:
    main = int(np.bincount(slices.classes, minlength=1).argmax())
    by_class = class_times(slices.starts, slices.ends, slices.classes)
    lengths = slices.ends - slices.starts
    longest = np.maximum.reduceat(lengths, np.arange(0, len(lengths), BLOCK)) if len(lengths) else lengths
    busy = coverage_of(slices.starts, slices.ends)
    hidden = 0 if depth is None else int((slices.starts[1:] < np.maximum.accumulate(slices.ends)[:-1]).sum())
    return Lane(
        slices, busy, main, by_class, longest,
        device=device, stream=stream, pid=pid, tid=tid, rank=rank, depth=depth, hidden=hidden,
    )
