"""The lanes of a run: one for each stream of each device and each thread of the host, slices in order of time.

A device lane holds the activities of a stream; where some overlap they are several, so that none hides another.
A host lane holds the slices of one nesting depth of a thread. Everything is arrays: five million slices are 33 bytes
each, and names are looked up only where a slice is wide enough to be read. A recording has its slices nearly in
order: most lanes are in order as they are, which is looked at before they are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.intervals import union
from ..core.quantiles import Codes, codes, combined, dense
from ..cycles.detection import cycles_of
from .classes import BY_NAME, NOT_DRAWN, ClassOf, call_class, device_class, host_class, kernel_class
from .counters import Counter, counters_of
from .coverage import ClassTimes, Coverage, Ints, class_times, covered, levels

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
    ``depth`` tells which. ``hidden`` slices begin under another one of the lane."""

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

    @property
    def name(self) -> str:
        """What the lane is called: 'GPU 0 stream 7', 'thread 1234 depth 2'."""
        of = "" if self.rank is None else f"rank {self.rank} "
        if self.tid is None:
            return f"{of}{self.device or 'device'} stream {'?' if self.stream is None else self.stream}"
        return f"{of}thread {self.tid}" + (f" depth {self.depth}" if self.depth else "")


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
    that none hides another. ``devices`` is when any device was busy."""

    label: str
    drawn: tuple[Lane, ...]
    counters: tuple[Counter, ...]
    names: Mapping[int, str]
    start: int
    end: int
    devices: Coverage
    marks: Marks

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
    lanes, busy = _streams(run, names)
    lanes += _threads(run, names)
    first = min((int(lane.slices.starts[0]) for lane in lanes), default=0)
    last = max((int(lane.slices.ends.max()) for lane in lanes), default=0)
    return Timeline(
        run.info.label, tuple(lanes), counters_of(run), names, first, max(last, first + 1), busy,
        cycle_marks(run, options) if marks else NO_MARKS,
    )


def extent_of(run: Trace, options: Options) -> Extent | None:
    """The extent of ``timeline_of`` the run, in a tenth of the time and memory; None where it has no lanes."""
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


def _streams(run: Trace, names: dict[int, str]) -> tuple[list[Lane], Coverage]:
    """The lanes of the devices, and when any of them was busy."""
    drawn = drawn_slices(run.kernels, device_class)
    slices = by_lane(run.kernels, ("rank", "device", "stream"), drawn, names, kernel_class)
    return [lane for key, some in slices for lane in _stream(key, some)], drawn.together()


def _threads(run: Trace, names: dict[int, str]) -> list[Lane]:
    """The lanes of the host, those of the busiest thread first. A thread's slices are let go when its lanes are made:
    100 MB less for five million."""
    drawn = drawn_slices(run.host, host_class)
    threads = by_lane(run.host, ("rank", "pid", "tid"), drawn, names, call_class)
    threads.sort(key=lambda one: -union(one[1].starts, one[1].ends).length)
    lanes: list[Lane] = []
    threads.reverse()
    while threads:
        lanes += _thread(*threads.pop())
    return lanes


def cycle_marks(run: Trace, options: Options) -> Marks:
    """The cycles of a run that have a time, called by their labels where these tell them apart."""
    frame = cycles_of(run, options).filter(pl.col("start_ns").is_not_null()).sort("start_ns").select(
        "start_ns", "dur_ns", pl.col("label").cast(pl.String), "cycle"
    ).collect()
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


def _thread(key: Key, slices: Slices) -> Iterator[Lane]:
    rank, pid, tid = key
    for level, level_slices in _levels(slices, MOST_DEPTHS):
        yield _lane(level_slices, None, None, pid, tid, rank, level or 0)


def _levels(slices: Slices, most: int) -> Iterator[tuple[int | None, Slices]]:
    """The slices of each row that they are drawn in; all of them, in no row, where none overlaps another."""
    level = levels(slices.starts, slices.ends, most)
    sizes = np.bincount(level)
    if len(sizes) < 2:
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


UNNAMED = 2**32 - 1  # The code of a slice whose name was not recorded.
Key = tuple[object, ...]


class Slices(Struct, frozen=True):
    """Slices of one lane by start: ``starts``, ``ends`` (ns), codes of names and classes, ``rows`` of their table."""

    starts: Ints
    ends: Ints
    names: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.starts)

    def pick(self, which: npt.NDArray[np.bool_] | Ints | slice) -> Slices:
        """Some of them, in that order."""
        return Slices(self.starts[which], self.ends[which], self.names[which], self.classes[which], self.rows[which])

    def in_order(self) -> Slices:
        """The same by start, the outer of two that begin together first."""
        starts, ends, order = self.starts, self.ends, None
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        together = starts[1:] == starts[:-1]
        if not (together & (ends[1:] > ends[:-1])).any():
            return self if order is None else self.pick(order)
        some = np.zeros(len(starts), dtype=bool)
        some[1:] |= together
        some[:-1] |= together
        those = np.flatnonzero(some)  # the few that begin with another one; the others stay where they are
        order = np.arange(len(starts)) if order is None else order
        order[those] = order[those[np.lexsort((-ends[those], starts[those]))]]
        return self.pick(order)


class DrawnSlices(Struct, frozen=True):
    """Slices of a table that have a time and are drawn, in its order: ``starts``, ``ends`` (ns) and ``classes``.
    ``rows`` are theirs in the table, None where that is all of them."""

    starts: Ints
    ends: Ints
    classes: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.uint32] | None

    def together(self) -> Coverage:
        """When any of them ran."""
        starts, ends = self.starts, self.ends
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        return covered(starts, ends)


def drawn_slices(table: pl.LazyFrame, class_of: ClassOf) -> DrawnSlices:
    """The slices of a table; ``class_of`` a recorded kind is the code of its class."""
    classes = _classes(_column(table, "kind"), class_of)
    start = _column(table, "start_ns")
    wanted = start.is_not_null().to_numpy() & (classes != NOT_DRAWN)
    rows = None if wanted.all() else np.flatnonzero(wanted).astype(np.uint32)
    some = slice(None) if rows is None else rows
    starts = start.fill_null(0).to_numpy()[some]
    ends = _column(table, "dur_ns").fill_null(0).to_numpy()[some] + starts
    return DrawnSlices(starts, ends, classes[some], rows)


def _column(table: pl.LazyFrame, name: str) -> pl.Series:
    return table.select(name).collect(engine="streaming").to_series()


def by_lane(
    table: pl.LazyFrame, keys: tuple[str, ...], drawn: DrawnSlices, names: dict[int, str], class_of: ClassOf
) -> list[tuple[Key, Slices]]:
    """The slices of each lane by the values of its keys, lanes in their order, nulls last. ``names`` gets the text of
    codes; ``class_of`` a name is the code of the class that it alone tells."""
    if not len(drawn.starts):
        return []
    some = slice(None) if drawn.rows is None else drawn.rows
    lane, tuples = _lanes([_column(table, key) for key in keys], some)
    named = _column(table, "name")
    texts = named.unique().drop_nulls()
    numbers = texts.to_physical().to_list()
    names.update(zip(numbers, texts.cast(pl.String), strict=True))
    names[UNNAMED] = ""
    code = named.to_physical().cast(pl.UInt32).fill_null(UNNAMED).to_numpy()[some]
    classes, by_name = drawn.classes, drawn.classes == BY_NAME
    if by_name.any():
        told = np.full(max(numbers, default=0) + 2, class_of(""), dtype=np.uint8)
        told[numbers] = [class_of(names[one]) for one in numbers]
        classes = np.where(by_name, told[np.minimum(code, len(told) - 1)], classes)
    rows = np.arange(len(lane), dtype=np.uint32) if drawn.rows is None else drawn.rows
    whole = Slices(drawn.starts, drawn.ends, code, classes, rows)
    if len(tuples) == 1:
        return [(tuples[0], whole.in_order())]
    small = lane.astype(np.uint16) if len(tuples) < 1 << 16 else lane  # numpy sorts these in one pass
    edges = np.cumsum(np.bincount(lane, minlength=len(tuples)))[:-1]
    del lane
    parts = np.split(np.argsort(small, kind="stable"), edges)
    lanes = [(key, whole.pick(part).in_order()) for key, part in zip(tuples, parts, strict=True)]
    lanes.sort(key=lambda one: [(value is None, value) for value in one[0]])
    return lanes


def _classes(kinds: pl.Series, class_of: ClassOf) -> npt.NDArray[np.uint8]:
    """The class of each slice by its kind; of a kind that is null that of ''."""
    distinct = kinds.unique().drop_nulls()
    numbers = distinct.to_physical().to_numpy()
    table = np.zeros(int(numbers.max(initial=0)) + 2, dtype=np.uint8)
    for number, text in [*zip(numbers.tolist(), distinct.cast(pl.String), strict=True), (len(table) - 1, "")]:
        table[number] = class_of(text)
    classes: npt.NDArray[np.uint8] = table[kinds.to_physical().fill_null(len(table) - 1).to_numpy()]
    return classes


def _lanes(columns: list[pl.Series], some: npt.NDArray[np.uint32] | slice) -> tuple[Codes, list[Key]]:
    """The number of the lane of each slice, and the keys of each lane; text is there as its code and text."""
    lane, first = dense(combined([_codes(one)[some] for one in columns]))
    at = first if isinstance(some, slice) else some[first]
    values = [one.gather(at).cast(pl.String).to_list() if one.dtype == pl.Categorical else one.gather(at).to_list()
              for one in columns]
    return lane, list(zip(*values, strict=True))


def _codes(column: pl.Series) -> Codes:
    """A number for each value that tells it and null from the others."""
    if not column.dtype.is_integer():
        return codes(column)
    low = column.min()
    numbers, _ = dense(column.fill_null(low if isinstance(low, int) else 0).to_numpy())
    return np.where(column.is_null().to_numpy(), 0, numbers + 1) if column.null_count() else numbers
