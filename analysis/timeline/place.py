"""Positions in the timeline: the slice under the cursor, its launch or counterpart, and rows of other views."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import units
from ..core.callers import call_rows
from ..core.names.short_name import fit_name
from ..core.thread_names import thread_name
from .lanes import Lane, Marks, Timeline
from .window import gap_at


class Place(Struct, frozen=True):
    """An interval of a run to show, ns, and the lane (index in ``Timeline.drawn``) and slice to put the cursor on."""

    start: int
    end: int
    lane: int | None = None
    slice: int | None = None


def find(timeline: Timeline, row: dict[str, Any]) -> Place | None:
    """Position of a view's row: by its start and duration, else the longest slice of that name; None if not found."""
    start, ahead = row.get("start_ns"), timeline.clocks.get(row.get("rank") or 0, 0)
    start = None if start is None else int(start) - ahead
    name = row.get("name", row.get("function"))
    if start is not None:
        end = start + int(row.get("dur_ns") or 0)
        lane = _lane_of(timeline, row, start, name)
        if lane is not None and lane[1] is not None:
            end = int(timeline.drawn[lane[0]].slices.ends[lane[1]])
        return Place(start, end, *lane) if lane else Place(start, end)
    codes = [code for code, text in timeline.names.items() if text == name]
    best: tuple[int, Place] | None = None
    for number, one in enumerate(timeline.drawn):
        those = np.flatnonzero(np.isin(one.slices.names, np.array(codes, dtype=np.uint32))) if codes else ()
        if len(those):
            lengths = one.slices.ends[those] - one.slices.starts[those]
            at = int(those[int(lengths.argmax())])
            if best is None or lengths.max() > best[0]:
                place = Place(int(one.slices.starts[at]), int(one.slices.ends[at]), number, at)
                best = int(lengths.max()), place
    return best[1] if best else None


def _lane_of(timeline: Timeline, row: dict[str, Any], start: int, name: object) -> tuple[int, int | None] | None:
    """Lane and slice of that name that begins at that moment; else the lane of the row's device and stream."""
    fallback: tuple[int, int | None] | None = None
    for number, lane in enumerate(timeline.drawn):
        if lane.tid is None and row.get("device") not in (None, lane.device):
            continue
        if lane.tid is None and row.get("stream") in (None, lane.stream) and fallback is None and "device" in row:
            fallback = number, None
        first = int(np.searchsorted(lane.slices.starts, start, side="left"))
        last = int(np.searchsorted(lane.slices.starts, start, side="right"))
        for at in range(first, min(last, first + 64)):
            if timeline.names[int(lane.slices.names[at])] == name:
                return number, at
    return fallback


def named(timeline: Timeline, text: str, moment: int) -> Place | None:
    """The first slice that begins after a moment and whose name contains the text, in any lane; after the last one the
    first of all. None if there is none."""
    text, best = text.lower(), None
    codes = np.array([code for code, name in timeline.names.items()
                      if text in name.lower() or text in fit_name(name, 60).lower()], dtype=np.uint32)
    for number, lane in enumerate(timeline.drawn):
        those = np.flatnonzero(np.isin(lane.slices.names, codes))
        if len(those):
            later = int(np.searchsorted(lane.slices.starts[those], moment, side="right"))
            at = int(those[later % len(those)])
            start = int(lane.slices.starts[at])
            if best is None or (start <= moment, start) < best[0]:
                best = (start <= moment, start), Place(start, int(lane.slices.ends[at]), number, at)
    return best[1] if best else None


def typed(run: Trace, timeline: Timeline, text: str, around: int) -> Place | None:
    """A launch as '#1204', or a time as '12.5ms' with ``around`` ns before and after; None if it is neither."""
    text = text.strip().replace(",", "")
    if text.startswith("#"):
        row = launch_row(run, int(text[1:])) if text[1:].isdecimal() else None
        return None if row is None else find(timeline, row)
    try:
        moment = units.nanoseconds(text)
    except ValueError:
        return None
    return Place(moment - around, moment + around)


def launch_row(run: Trace, index: int) -> dict[str, Any] | None:
    """The launch with that ``kernels.index`` as a row for ``find``; None if it does not exist or has no timestamp."""
    launch = run.kernels.filter(pl.col("index") == index).select(
        pl.col("name", "device").cast(pl.String), "start_ns", "dur_ns", "stream", "rank").collect()
    return None if launch.is_empty() or launch["start_ns"][0] is None else launch.row(0, named=True)


def arrow(run: Trace, timeline: Timeline, lane: Lane, at: int) -> Place | None:
    """The other end of a launch: for an activity its launch call, for a call the first activity it launched; for a
    slice of the critical path the slice itself, in its stream or thread. None where not recorded. Reads the tables, so
    call it on a background thread."""
    if lane.title:
        itself = find(timeline, {"start_ns": int(lane.slices.starts[at]),
                                 "name": timeline.names[int(lane.slices.names[at])]})
        return itself if itself is not None and itself.lane is not None else None
    row, calls = int(lane.slices.rows[at]), call_rows(run)
    if lane.tid is None:
        return _at_row(timeline, int(calls[row]), of_host=True) if calls[row] >= 0 else None
    launched = np.flatnonzero(calls == row)
    starts = run.kernels.select("start_ns").collect(engine="streaming")["start_ns"].gather(launched)
    first = starts.arg_min()
    return None if first is None else _at_row(timeline, int(launched[first]), of_host=False)


def _at_row(timeline: Timeline, row: int, of_host: bool) -> Place | None:
    """Position at which a row of the host or kernels table is drawn."""
    for number, lane in enumerate(timeline.drawn):
        if (lane.tid is not None) != of_host:
            continue
        slices = np.flatnonzero(lane.slices.rows == row)
        if len(slices):
            one = int(slices[0])
            return Place(int(lane.slices.starts[one]), int(lane.slices.ends[one]), number, one)
    return None


def describe(timeline: Timeline, lane: Lane, at: int | None, moment: int, run: str = "") -> str:
    """Text on the slice or gap under the cursor: duration, start in its recording (of two, in ``run``) and lane."""
    of = f" of {run}" if run else ""
    if at is not None:
        start, end = int(lane.slices.starts[at]), int(lane.slices.ends[at])
        return f"{units.duration(end - start)} · at {units.when(start, end - start)}{of} · {lane.name}"
    gap = gap_at(lane, moment)
    if gap is None:
        return f"nothing · {lane.name}"
    length = gap[1] - gap[0]
    return f"idle {units.duration(length)} · from {units.when(gap[0], length)}{of} · {lane.name}"


def cycle_of(marks: Marks, moment: int) -> int | None:
    """Index of the last cycle that began at or before a moment; None before the first."""
    at = int(np.searchsorted(marks.starts, moment, side="right")) - 1
    return at if at >= 0 else None


def same_cycle(of: Marks, to: Marks, at: int) -> int | None:
    """Index of the corresponding cycle in the other run: same label, else same position; None if there is none."""
    if of.labels[at] in to.labels:
        return to.labels.index(of.labels[at])
    return at if at < len(to.labels) else None


def counterpart(runs: tuple[Timeline, Timeline], run: int, lane: Lane, at: int) -> Place | None:
    """The same slice in the other run: in the corresponding cycle, the n-th of its name on the same side (host or
    device) and rank. None without cycles, or where the other cycle has fewer."""
    own, other = runs[run], runs[1 - run]
    start = int(lane.slices.starts[at])
    cycle = cycle_of(own.marks, start)
    there = None if cycle is None else same_cycle(own.marks, other.marks, cycle)
    if cycle is None or there is None:
        return None
    name = own.names[int(lane.slices.names[at])]
    before = len(_named_in(own, name, lane, int(own.marks.starts[cycle]), start))
    end = int(other.marks.starts[there + 1]) if there + 1 < len(other.marks.starts) else other.end
    places = sorted(_named_in(other, name, lane, int(other.marks.starts[there]), end), key=lambda place: place.start)
    return places[before] if before < len(places) else None


def _named_in(timeline: Timeline, name: str, like: Lane, start: int, end: int) -> list[Place]:
    """The slices of that name that begin between two moments, in lanes of the same side and rank as ``like``."""
    codes = timeline.codes.get(name)
    places = []
    for number, lane in enumerate(timeline.drawn if codes is not None else ()):
        if (lane.tid is None) != (like.tid is None) or lane.rank != like.rank:
            continue
        first, last = np.searchsorted(lane.slices.starts, [start, end])
        for at in np.flatnonzero(lane.slices.names[first:last] == codes).tolist():
            one = first + at
            places.append(Place(int(lane.slices.starts[one]), int(lane.slices.ends[one]), number, int(one)))
    return places


def launcher(run: Trace, lane: Lane, at: int) -> str:
    """Text: the call that launched an activity, and how long before by the clock of their rank, which the lane may not
    be on. Reads tables: call on a background thread."""
    if lane.tid is not None or lane.title:
        return ""
    row = int(lane.slices.rows[at])
    call = int(call_rows(run)[row])
    if call < 0:
        return "launch not recorded"
    device_start = run.kernels.select("start_ns").slice(row, 1).collect().item()
    name, start, pid, tid = run.host.slice(call, 1).select(
        pl.col("name").cast(pl.String), "start_ns", "pid", "tid").collect().row(0)
    by = f"by {fit_name(name, 40)} on {thread_name(run, None, pid, tid)}"
    if device_start < start:
        return f"begins {units.duration(start - device_start)} before its launch {by}"
    return f"launched {units.duration(device_start - start)} before {by}"
