"""The lanes of a run: one for each stream of each device and each thread of the host, slices in order of time.

A device lane holds the activities of a stream; where some overlap they are several, so that none hides another.
A host lane holds the slices of one nesting depth of a thread. Everything is arrays: five million slices are 33 bytes
each, and names are looked up only where a slice is wide enough to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, structs

from ...loaders.trace import Trace
from ..communication.arrivals import arrivals_of
from ..contract.options import Options
from ..core.batches import SCHEDULED
from ..core.intervals import union
from ..core.thread_names import thread_name
from ..cycles.detection import cycles_of
from .classes import CODES, call_class, device_class, host_class, kernel_class
from .counters import Counter, counters_of
from .coverage import ClassTimes, Coverage, Ints, class_times, covered, levels
from .slices import Key, Slices, by_lane, drawn_slices

MOST_DEPTHS = 1024
"""Nesting depths of a thread that get a lane of their own, as CPython's limit of recursion; the last has what is deeper
and says how many slices that hides."""
BLOCK = 4096
"""Slices of which the longest is known in advance, so that those wide enough for a name are found among millions."""
MOST_ROWS = 8
"""Rows that overlapping slices of one stream are spread over; the last has the others and says how many it hides."""


class Lane(Struct, frozen=True):
    """A stream (``stream`` set) or one depth of a thread (``tid`` set): its slices and when it was busy. ``by_class``
    is how long each class ran, None where all slices are of the commonest one, ``main``. ``longest`` is the length (ns)
    of the longest slice of each ``BLOCK`` of them. A stream whose slices overlap is several lanes, of which the
    ``depth`` tells which. ``hidden`` slices begin under another one of the lane; ``thread`` is what its thread is
    called."""

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

    @property
    def name(self) -> str:
        """What the lane is called: 'GPU 0 stream 7', 'thread 1234 depth 2', or its own title."""
        if self.title:
            return self.title
        if self.thread:
            return self.thread + (f" depth {self.depth}" if self.depth else "")
        of = "" if self.rank is None else f"rank {self.rank} "
        return f"{of}{self.device or 'device'} stream {'?' if self.stream is None else self.stream}"


class Marks(Struct, frozen=True):
    """Cycles as marks over the lanes: starts, ends (ns) and what each is called."""

    starts: Ints
    ends: Ints
    labels: tuple[str, ...]


class Extent(Struct, frozen=True):
    """From when to when something is drawn, ns. ``first_cycle`` is None without cycles that have a time;
    ``first_activity`` of a device is ``start`` where there is none."""

    start: int
    end: int
    first_cycle: int | None
    first_activity: int


class Timeline(Struct, frozen=True, dict=True):
    """All lanes of one run, device lanes first; ``names`` by code; ``start``..``end`` (ns) is everything recorded.
    ``drawn`` are the lanes as they are drawn, with streams spread over as many as their overlapping slices need, so
    that none hides another. ``devices`` is when any device was busy. ``clocks`` is how far the clock of a rank is ahead
    of the first one's (ns), which all lanes are on; ``path`` is the critical path of a cycle, once asked for."""

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
        """The lanes with every stream as one, made when they are asked for."""
        grouped: dict[tuple[object, ...], list[Lane]] = {}
        for lane in self.drawn:
            own = (lane.depth,) if lane.tid is not None else ()
            grouped.setdefault((lane.rank, lane.device, lane.stream, lane.pid, lane.tid, *own), []).append(lane)
        return tuple(_joined(parts) for parts in grouped.values())

    @property
    def streams(self) -> int:
        """How many streams there are."""
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
        """Where it begins and ends, and what it is put beside another by."""
        return _extent(self.start, self.end, self.devices, self.marks)


NO_MARKS = Marks(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


def timeline_of(run: Trace, options: Options, marks: bool = True) -> Timeline:
    """The lanes of a run with timestamps; one without any where nothing was timed. Without ``marks`` it has none yet:
    in a run that records no cycles, finding them takes longer than all the rest."""
    names: dict[int, str] = {}
    clocks = clocks_of(run)
    lanes, busy = _streams(run, names, clocks)
    lanes += _threads(run, names, clocks)
    first = min((int(lane.slices.starts[0]) for lane in lanes), default=0)
    last = max((int(lane.slices.ends.max()) for lane in lanes), default=0)
    return Timeline(
        run.info.label, tuple(lanes), counters_of(run), names, first, max(last, first + 1), busy,
        cycle_marks(run, options) if marks else NO_MARKS, clocks,
    )


def clocks_of(run: Trace) -> dict[int, int]:
    """How far the clock of each rank of a job is ahead of the first one's, ns, by the ends of common collectives; ranks
    that share none are left out."""
    if len(run.info.ranks) < 2 or not run.has("kernels"):
        return {}
    arrivals = arrivals_of(run)
    clocks = arrivals.clocks
    return {
        one.rank: round(float(offset))
        for one, offset, together in zip(arrivals.members, clocks.offset, clocks.sets, strict=True)
        if one.rank is not None and together == 0
    }


def extent_of(run: Trace, options: Options) -> Extent | None:
    """The extent of ``timeline_of`` the run, in a tenth of the time and memory; None where it has no lanes."""
    clocks = clocks_of(run)
    if any(clocks.values()):
        timeline = timeline_of(run, options)
        return timeline.extent if timeline.drawn else None
    devices = drawn_slices(run.kernels, device_class)
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0)
    begun, ended = run.host.select(pl.col("start_ns").min(), end.max().alias("end")).collect(engine="streaming").row(0)
    if len(devices.starts):
        starts, ends = int(devices.starts.min()), int(devices.ends.max())
        begun, ended = (starts, ends) if begun is None else (min(begun, starts), max(ended, ends))
    if begun is None:
        return None
    return _extent(begun, max(ended, begun + 1), devices.together(), cycle_marks(run, options))


def _extent(start: int, end: int, devices: Coverage, marks: Marks) -> Extent:
    first = int(devices.starts[0]) if len(devices.starts) else start
    return Extent(start, end, int(marks.starts[0]) if len(marks.starts) else None, first)


def _streams(run: Trace, names: dict[int, str], clocks: Mapping[int, int]) -> tuple[list[Lane], Coverage]:
    """The lanes of the devices, and when any of them was busy."""
    drawn = drawn_slices(run.kernels, device_class, clocks)
    slices = by_lane(run.kernels, ("rank", "device", "stream"), drawn, names, kernel_class)
    return [lane for key, some in slices for lane in _stream(key, some)], drawn.together()


def _threads(run: Trace, names: dict[int, str], clocks: Mapping[int, int]) -> list[Lane]:
    """The lanes of the host, those of the busiest thread first. A thread's slices are let go when its lanes are made:
    100 MB less for five million."""
    drawn = drawn_slices(run.host, host_class, clocks)
    threads = by_lane(run.host, ("rank", "pid", "tid"), drawn, names, call_class)
    threads.sort(key=lambda one: -union(one[1].starts, one[1].ends).length)
    lanes: list[Lane] = []
    scheduled = [code for code, name in names.items() if name in SCHEDULED]
    threads.reverse()
    while threads:
        lanes += _thread(run, scheduled, *threads.pop())
    return lanes


def cycle_marks(run: Trace, options: Options) -> Marks:
    """The cycles of a run that have a time, called by their labels where these tell them apart; of a job those of its
    first rank."""
    frame = cycles_of(run, options).filter(pl.col("start_ns").is_not_null()).sort("start_ns").select(
        "start_ns", "dur_ns", pl.col("label").cast(pl.String), "cycle", "rank"
    ).collect()
    if frame["rank"].n_unique() > 1:
        frame = frame.filter(pl.col("rank").eq_missing(pl.lit(frame["rank"].drop_nulls().min())))
    starts = frame["start_ns"].to_numpy()
    known = frame["label"].drop_nulls()
    told = known.n_unique() == len(known)
    labels = tuple(
        label if label and told else f"cycle {cycle}"
        for label, cycle in zip(frame["label"], frame["cycle"], strict=True)
    )
    return Marks(starts, starts + frame["dur_ns"].to_numpy(), labels)


def _stream(key: Key, slices: Slices) -> Iterator[Lane]:
    rank, device, stream = key
    for row, row_slices in _levels(slices, MOST_ROWS):
        yield _lane(row_slices, device, stream, None, None, rank, row)


def _thread(run: Trace, scheduled: Sequence[int], key: Key, slices: Slices) -> Iterator[Lane]:
    """What is nested by its depth, then what the scheduler did, which begins and ends across calls."""
    (rank, pid, tid), depth = key, 0
    sched = (slices.classes == CODES["sched"]) & np.isin(slices.names, scheduled)
    parts = (slices.pick(~sched), slices.pick(sched)) if sched.any() else (slices,)
    name = thread_name(run, rank, pid, tid)
    for some in parts:
        for _, level_slices in _levels(some, MOST_DEPTHS):
            yield structs.replace(_lane(level_slices, None, None, pid, tid, rank, depth), thread=name)
            depth += 1


def _levels(slices: Slices, most: int) -> Iterator[tuple[int | None, Slices]]:
    """The slices of each row that they are drawn in; all of them, in no row, where none overlaps another."""
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
    """Slices in order as a lane of that title."""
    return structs.replace(_lane(slices, None, None, None, None, None, None), title=title)


def _lane(slices: Slices, device: Any, stream: Any, pid: Any, tid: Any, rank: Any, depth: int | None) -> Lane:
    main = int(np.bincount(slices.classes, minlength=1).argmax())
    by_class = class_times(slices.starts, slices.ends, slices.classes)
    lengths = slices.ends - slices.starts
    longest = np.maximum.reduceat(lengths, np.arange(0, len(lengths), BLOCK)) if len(lengths) else lengths
    busy = covered(slices.starts, slices.ends)
    hidden = 0 if depth is None else int((slices.starts[1:] < np.maximum.accumulate(slices.ends)[:-1]).sum())
    return Lane(
        slices, busy, main, by_class, longest,
        device=device, stream=stream, pid=pid, tid=tid, rank=rank, depth=depth, hidden=hidden,
    )
