"""The lanes of a run: one for each stream of each device and each thread of the host, slices in order of time.

A device lane holds all activities of a stream; where some overlap, ``rows`` spreads them so that none hides another.
A host lane holds the slices of one nesting depth of a thread. Everything is arrays: five million slices are 29 bytes
each, and names are looked up only where a slice is wide enough to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.kept import kept
from ..core.options import Options
from ..cycles.account import cycles_of
from .counters import Counter, counters_of
from .coverage import Coverage, Ints, covered, levels

COMPUTE, COLLECTIVE, COPY, WAIT, HOST = "kernel", "collective", "copy", "wait", "host"
CLASSES = (COMPUTE, COLLECTIVE, COPY, WAIT, HOST)
"""What a slice is drawn as; its place here is its code."""
_CLASS_OF = {"collective": 1, "memcpy": 2, "memset": 2, "runtime": 3, "driver": 3, "sched": 3}
MOST_DEPTHS = 48
"""Nesting depths of a thread that get a lane of their own; what is deeper shares the last one."""
BLOCK = 4096
"""Slices of which the longest is known in advance, so that those wide enough for a name are found among millions."""
MOST_ROWS = 8
"""Rows that overlapping slices of one stream are spread over; more share the last one."""


class Slices(Struct, frozen=True):
    """Slices of one lane by start: ``starts``, ``ends`` (ns), codes of names and classes, ``rows`` of their table."""

    starts: Ints
    ends: Ints
    names: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.starts)

    def pick(self, which: npt.NDArray[np.bool_ | np.intp] | slice) -> Slices:
        """Some of them, in the same order."""
        return Slices(self.starts[which], self.ends[which], self.names[which], self.classes[which], self.rows[which])


class Lane(Struct, frozen=True):
    """A stream (``stream`` set) or one depth of a thread (``tid`` set): its slices and when it was busy, by class.

    ``longest`` is the length (ns) of the longest slice of each ``BLOCK`` of them.
    """

    slices: Slices
    busy: Coverage
    by_class: Mapping[int, Coverage]
    longest: Ints
    device: str | None = None
    stream: int | None = None
    pid: int | None = None
    tid: int | None = None
    rank: int | None = None
    depth: int | None = None

    @property
    def name(self) -> str:
        """What the lane is called: 'GPU 0 stream 7', 'thread 1234 depth 2'."""
        of = "" if self.rank is None else f"rank {self.rank} "
        if self.tid is None:
            return f"{of}{self.device or 'device'} stream {'?' if self.stream is None else self.stream}"
        return f"{of}thread {self.tid}" + (f" depth {self.depth}" if self.depth else "")

    def spread(self) -> tuple[Lane, ...]:
        """The lane as rows in which no slice overlaps another; itself where none does."""
        level = levels(self.slices.starts, self.slices.ends, MOST_ROWS)
        if not level.any():
            return (self,)
        return tuple(
            _lane(self.slices.pick(level == row), self.device, self.stream, self.pid, self.tid, self.rank, int(row))
            for row in np.unique(level)
        )


class Marks(Struct, frozen=True):
    """Cycles as marks over the lanes: starts, ends (ns) and what each is called."""

    starts: Ints
    ends: Ints
    labels: tuple[str, ...]


class Timeline(Struct, frozen=True):
    """All lanes of one run, device lanes first; ``names`` by code; ``start``..``end`` (ns) is everything recorded.

    ``drawn`` are the same lanes with streams spread over as many rows as their overlapping slices need.
    """

    label: str
    lanes: tuple[Lane, ...]
    drawn: tuple[Lane, ...]
    counters: tuple[Counter, ...]
    names: Mapping[int, str]
    start: int
    end: int
    devices: Coverage
    marks: Marks

    @property
    def device_lanes(self) -> tuple[Lane, ...]:
        """The streams."""
        return tuple(lane for lane in self.lanes if lane.tid is None)

    def first_activity(self) -> int:
        """When the first device activity began, ns; the run's start where there was none."""
        return int(self.devices.starts[0]) if len(self.devices.starts) else self.start


def timeline_of(run: Trace, options: Options) -> Timeline:
    """The lanes of a run with timestamps; one without any slice where nothing was timed."""
    names: dict[int, str] = {}
    lanes = [*_device_lanes(run, names), *_host_lanes(run, names)]
    first = min((int(lane.slices.starts[0]) for lane in lanes), default=0)
    last = max((int(lane.slices.ends.max()) for lane in lanes), default=0)
    drawn = tuple(part for lane in lanes for part in (lane.spread() if lane.tid is None else (lane,)))
    return Timeline(
        run.info.label, tuple(lanes), drawn, counters_of(run), names, first, max(last, first + 1), _together(lanes),
        cycle_marks(run, options),
    )


def _together(lanes: list[Lane]) -> Coverage:
    """When any device was busy."""
    busy = [lane.busy for lane in lanes if lane.tid is None]
    if len(busy) == 1:
        return busy[0]
    starts = np.concatenate([one.starts for one in busy] or [np.zeros(0, np.int64)])
    order = np.argsort(starts, kind="stable")
    return covered(starts[order], np.concatenate([one.ends for one in busy] or [starts])[order])


def cycle_marks(run: Trace, options: Options) -> Marks:
    """The cycles of a run that have a time."""
    frame = cycles_of(run, options).filter(pl.col("start_ns").is_not_null()).sort("start_ns").select(
        "start_ns", "dur_ns", pl.col("label").cast(pl.String), "cycle"
    ).collect()
    starts = frame["start_ns"].to_numpy()
    labels = tuple(label or str(cycle) for label, cycle in zip(frame["label"], frame["cycle"], strict=True))
    return Marks(starts, starts + frame["dur_ns"].to_numpy(), labels)


def _device_lanes(run: Trace, names: dict[int, str]) -> Iterator[Lane]:
    keys = ["rank", "device", "stream"]
    frame = _sorted(_timed(run.kernels.with_row_index("row").filter(pl.col("kind") != "sync"), keys, names), keys)
    for (rank, device, stream), slices in _groups(frame, keys):
        yield _lane(slices, device, stream, None, None, rank, None)


def _host_lanes(run: Trace, names: dict[int, str]) -> Iterator[Lane]:
    keys = ["rank", "pid", "tid"]
    frame = _timed(run.host.with_row_index("row"), keys, names)
    order = kept(run, "host-lanes", lambda: _spread(frame, keys))
    place, depths = order["at"], order["depth"].to_numpy()
    slices, keyed = _slices(frame.drop(keys)[place]), frame.select(keys)
    first = order["first"].arg_true().to_list()
    threads = [
        (keyed.row(place[begin]), slices.pick(slice(begin, stop)), depths[begin:stop])
        for begin, stop in pairwise([*first, len(place)])
    ]
    for (rank, pid, tid), mine, depth in sorted(threads, key=lambda one: -_outermost(one[1])):
        by_depth = np.argsort(depth, kind="stable")
        mine = mine.pick(by_depth)
        bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=0)) + 2)).tolist()
        for level, (begin, stop) in enumerate(pairwise(bounds)):
            yield _lane(mine.pick(slice(begin, stop)), None, None, pid, tid, rank, level)


def _spread(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """The slices in order: the row ``at`` which each is, whether it is the ``first`` of its thread, and its depth."""
    rows = _sorted(frame.select(*keys, "start", "end").with_row_index("at"), keys)
    same = pl.struct(keys)
    first = rows.select(same.ne_missing(same.shift(1)).fill_null(True))[:, 0].to_numpy().copy()
    first[:1] = True
    starts, ends, depth = rows["start"].to_numpy(), rows["end"].to_numpy(), np.zeros(rows.height, dtype=np.uint8)
    for begin, stop in pairwise([*np.flatnonzero(first).tolist(), rows.height]):
        depth[begin:stop] = levels(starts[begin:stop], ends[begin:stop], MOST_DEPTHS)
    return pl.DataFrame({"at": rows["at"], "first": first, "depth": depth})


def _outermost(slices: Slices) -> int:
    """How long a thread was in any slice: the busiest thread is the one to look at first."""
    busy = covered(slices.starts, slices.ends)
    return int((busy.ends - busy.starts).sum())


def _timed(table: pl.LazyFrame, keys: list[str], names: dict[int, str]) -> pl.DataFrame:
    """Slices that have a time, as they were recorded.

    Text is told by its codes: to sort five million device names as strings takes longer than all the rest.
    """
    frame = table.filter(pl.col("start_ns").is_not_null()).select(
        *(pl.col(key).to_physical() if key == "device" else pl.col(key) for key in keys), "row",
        pl.col("start_ns").alias("start"), (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).alias("end"),
        pl.col("name").to_physical().cast(pl.UInt32).alias("code"), pl.col("kind").to_physical().alias("kind"),
    ).collect(engine="streaming")
    for column in ("name", *(["device"] if "device" in keys else [])):
        known = table.select(column).unique().collect(engine="streaming")[column].drop_nulls()
        texts = dict(zip(known.to_physical().to_list(), known.cast(pl.String).to_list(), strict=True))
        if column == "name":
            names.update(texts)
        else:
            devices = texts
    kinds = table.select("kind").unique().collect(engine="streaming")["kind"].drop_nulls()
    usual = CLASSES.index(HOST) if "tid" in keys else 0
    classes = {code: _CLASS_OF.get(kind, usual) for code, kind in zip(
        kinds.to_physical().to_list(), kinds.cast(pl.String).to_list(), strict=True)}
    return frame.with_columns(
        pl.col("kind").replace_strict(classes, default=usual, return_dtype=pl.UInt8).alias("class"),
        *([pl.col("device").replace_strict(devices, default=None, return_dtype=pl.String)] if "device" in keys else []),
    ).drop("kind")


def _sorted(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Slices by lane and start, the outer of two that begin together first."""
    return frame.sort(*keys, "start", "end", descending=[*[False] * len(keys), False, True], nulls_last=True)


def _slices(frame: pl.DataFrame) -> Slices:
    return Slices(*(frame[name].to_numpy() for name in ("start", "end", "code", "class", "row")))


def _groups(frame: pl.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[object, ...], Slices]]:
    """Each lane's key and slices, out of a frame that is sorted by them."""
    if frame.is_empty():
        return
    same = pl.struct(keys)
    first = frame.select(same.ne_missing(same.shift(1)).fill_null(True))[:, 0].arg_true().to_list()
    first[:1] = [0]
    columns = _slices(frame)
    for begin, stop in pairwise([*first, frame.height]):
        yield frame.select(keys).row(begin), columns.pick(slice(begin, stop))


def _lane(
    slices: Slices, device: object, stream: object, pid: object, tid: object, rank: object, depth: int | None
) -> Lane:
    whole = covered(slices.starts, slices.ends)
    present = np.flatnonzero(np.bincount(slices.classes, minlength=len(CLASSES)))
    by_class = {
        int(code): whole if len(present) == 1 else covered(*_of_class(slices, int(code))) for code in present
    }
    lengths = slices.ends - slices.starts
    longest = np.maximum.reduceat(lengths, np.arange(0, len(lengths), BLOCK)) if len(lengths) else lengths
    fields = dict(device=device, stream=stream, pid=pid, tid=tid, rank=rank, depth=depth)
    return Lane(slices, whole, by_class, longest, **fields)  # type: ignore[arg-type]


def _of_class(slices: Slices, code: int) -> tuple[Ints, Ints]:
    those = slices.classes == code
    return slices.starts[those], slices.ends[those]
