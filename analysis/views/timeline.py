"""Timeline: what ran where and when, one lane per stream and thread, exact at any zoom.

One row per lane and column of the window. ``busy_ns`` is the union of the lane's slices inside the column, so it never
exceeds the column's length; ``count`` is the number of slices that touch it, ``name`` the one that takes most of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from ...loaders.schema import NAME
from ..contract.column import Column
from ..contract.options import SIDES, Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..timeline.counters import Counter, Strip, strips
from ..timeline.lanes import Extent, Lane, Timeline, extent_of, timeline_of
from ..timeline.layout import layout
from ..timeline.picture import LEGEND, axis, lines_of, marks
from ..timeline.window import Window, counts, longest

COLUMNS = (
    Column("lane", "lane", "text", "stream of a device, or nesting depth of a host thread", 22, order=0, pinned=True),
    Column("device", "device", "text", "device; empty for host threads", 8, order=5),
    Column("stream", "stream", "number", "stream; empty for host threads", 7, order=5),
    Column("pid", "pid", "number", "process of a host thread", 8, order=6, role="where"),
    Column("tid", "tid", "number", "host thread", 8, order=6, role="where"),
    Column("depth", "depth", "number", "nesting depth of the host slices in this lane, 0 outermost", 6, order=6),
    Column("start_ns", "from", "ns", "start of the time column", 10, order=1),
    Column("end_ns", "to", "ns", "end of the time column", 10, order=4),
    Column("busy_ns", "busy", "ns", "busy time in the column", 10, order=0),
    Column("count", "slices", "count", "slices that overlap the column", 7, order=2),
    Column("name", "name", "text", "slice with the most time in the column", 30, order=1, elastic=True),
)
PAIR_COLUMNS = (Column("run", "run", "text", "A or B", 4, order=0, pinned=True), *COLUMNS)
_TYPES: dict[str, Any] = {
    "lane": pl.String, "device": pl.String, "stream": pl.Int64, "pid": pl.Int64, "tid": pl.Int64, "depth": pl.Int64,
    "start_ns": pl.Int64, "end_ns": pl.Int64, "busy_ns": pl.Int64, "count": pl.Int64, "name": pl.String,
}
MOST_ROWS = 1_000_000
"""Most rows of the table in every format, JSON included, about 100 bytes each: 10,000 lanes of 100 columns. 60,000
streams would be six million rows; a note and the facts say what is left out."""
PICTURE_LANES = 60  # Most lanes in the text picture; the others are counted below it.


def busiest(timeline: Timeline, window: Window) -> tuple[Sequence[Lane], int]:
    """All lanes, or the busiest of the window where all would make too many rows; and how many are left out."""
    lanes, most = timeline.lanes, max(1, MOST_ROWS // window.columns)
    if len(lanes) <= most:
        return lanes, 0
    ends = np.array([window.start, window.end])
    busy = np.array([int(lane.busy.busy(ends)[0]) for lane in lanes])
    chosen = np.sort(np.argsort(-busy, kind="stable")[:most])
    return [lanes[at] for at in chosen], len(lanes) - most


def rows(lanes: Sequence[Lane], timeline: Timeline, window: Window) -> pl.DataFrame:
    """The lanes × columns of a window as a frame, without host lanes that are idle in the window."""
    edges = window.edges
    result: dict[str, list[Any]] = {name: [] for name in _TYPES}
    for lane in lanes:
        busy, touching = lane.busy.busy(edges), counts(lane, edges)
        if lane.tid is not None and not touching.any():
            continue
        codes = lane.slices.names
        result["busy_ns"] += busy.tolist()
        result["count"] += touching.tolist()
        result["name"] += [None if at is None else timeline.names[int(codes[at])] for at in longest(lane, edges)]
        result["start_ns"] += edges[:-1].tolist()
        result["end_ns"] += edges[1:].tolist()
        fixed = {"lane": lane.name, "device": lane.device, "stream": lane.stream, "pid": lane.pid, "tid": lane.tid,
                 "depth": lane.depth}
        for name, value in fixed.items():
            result[name] += [value] * len(touching)
    return pl.DataFrame(result, schema=_TYPES).cast({"lane": NAME, "device": NAME, "name": NAME})


def picture(timeline: Timeline, window: Window, counters: Sequence[Strip] | None = None, ahead: int = 0) -> list[str]:
    """The window as lines of text: ruler, cycles, lanes, legend; ``ahead`` as in ``lines_of``."""
    rows = layout(timeline, window, counters=counters)
    room = max([len(row.label) for row in rows[:PICTURE_LANES]], default=0) + 1
    lines = [" " * room + axis(window), *([" " * room + cycles] if (cycles := marks(timeline, window)) else [])]
    shown = rows[:PICTURE_LANES]
    drawn = lines_of(timeline, shown, window, ahead)
    lines += [f"{row.label:<{room}}{line.text}" for row, line in zip(shown, drawn, strict=True)]
    if len(rows) > PICTURE_LANES:
        lines.append(f"… {len(rows) - PICTURE_LANES} more lanes")
    return [line.rstrip() for line in (*lines, LEGEND)]


def on_one_clock(timeline: Timeline, ranks: Sequence[int]) -> str:
    """Sentence on the clock offsets of a job's ranks, where they were aligned or cannot be; '' elsewhere."""
    clocks = timeline.clocks
    if unknown := [rank for rank in ranks if rank not in clocks] if len(ranks) > 1 else []:
        named = ", ".join(f"rank {rank}" for rank in unknown[:4])
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        to = f" and rank {next(iter(clocks))}" if clocks else ""
        return f"The clocks of {named}{more}{to} cannot be brought together: these ranks are drawn from their own zero."
    if not any(clocks.values()):
        return ""
    first, most = next(iter(clocks)), max(map(abs, clocks.values()))
    return f"All ranks are on the clock of rank {first}, from which the others are up to {units.duration(most)} apart."


def aligned(extents: Sequence[Extent]) -> tuple[int, ...]:
    """Offset in ns from run A's time to each run's: aligns the first cycles, else the first activities."""
    cycles = [one.first_cycle for one in extents]
    anchors = [one.first_activity if None in cycles or one.first_cycle is None else one.first_cycle for one in extents]
    return tuple(anchor - anchors[0] for anchor in anchors)


def _aligned_windows(options: Options, extents: Sequence[Extent]) -> tuple[Options, tuple[int, ...]]:
    """One window as long as the longer of the two, and the offsets that align the start of B's window with A's."""
    sides = [options.scope(side) for side in SIDES]
    starts = [one.start if side.from_ns is None else side.from_ns for one, side in zip(extents, sides, strict=True)]
    ends = [one.end if side.to_ns is None else side.to_ns for one, side in zip(extents, sides, strict=True)]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    whole = replace(options, from_ns=starts[0], to_ns=starts[0] + longest, window_b=None)
    return whole, (0, starts[1] - starts[0])


def _window(extents: Sequence[Extent], offsets: tuple[int, ...], options: Options) -> Window:
    """The requested window in run A's time; by default everything recorded in both runs."""
    start = min(one.start - offset for one, offset in zip(extents, offsets, strict=True))
    end = max(one.end - offset for one, offset in zip(extents, offsets, strict=True))
    return Window(
        start if options.from_ns is None else options.from_ns, end if options.to_ns is None else options.to_ns,
        options.columns,
    )


def build(runs: Runs, options: Options) -> Answer:
    """Lanes × columns of one run, or of two runs one above the other; only one timeline is in memory at a time."""
    later = [extent_of(run, options) for run in runs[1:]]
    timeline = timeline_of(runs[0], options)
    extents = []
    for run, extent in zip(runs, (timeline.extent if timeline.drawn else None, *later), strict=True):
        if extent is None:
            raise CannotAnswer(f"{run.info.label} holds no activity or call with a time.")
        extents.append(extent)
    offsets = aligned(extents)
    if len(runs) > 1 and options.window_b is not None:
        options, offsets = _aligned_windows(options, extents)
    window = _window(extents, offsets, options)
    if window.end <= window.start:
        raise CannotAnswer("The window is empty: --to must come after --from.")
    span = f"{units.duration(window.end - window.start)} in {window.columns} columns"
    drawn, frames, summary, notes, left_out = [], [], [], list[str](), 0
    counters, devices = list[Sequence[Counter]](), list[str | None]()
    clocks: dict[str, int] = {}
    for place, (offset, side) in enumerate(zip(offsets, ("A ", "B ") if len(runs) > 1 else ("",), strict=True)):
        if place:
            del timeline  # two 2 GB traces: 830 MiB with both timelines in memory, 650 with one
            timeline = timeline_of(runs[place], options)
        own = Window(window.start + offset, window.end + offset, window.columns)
        counters.append(timeline.counters)
        devices.append(timeline.device)
        drawn.append(tuple(picture(timeline, own, strips(counters, devices)[place], offset)))
        lanes, more = busiest(timeline, own)
        left_out += more
        frames.append(rows(lanes, timeline, own))
        if more:
            notes.append(
                f"{timeline.label} has {units.count(len(lanes) + more)} lanes; the table, in every format, holds the "
                f"{units.count(len(lanes))} busiest. For the others use fewer --columns, a shorter window, --device or "
                "--rank."
            )
        clocks |= {f"{side}rank {rank}": ahead for rank, ahead in timeline.clocks.items()}
        if note := on_one_clock(timeline, runs[place].info.ranks):
            notes.append(f"{side}{note}")
        summary.append(f"{side}{timeline.label}: {span}, {units.counted(timeline.streams, 'stream', 'streams')}")
        if hidden := sum(lane.hidden for lane in timeline.drawn):
            notes.append(f"{side}{units.counted(hidden, 'slice', 'slices')} hidden at least in part: more overlap than "
                         "a stream or thread has lanes.")
    facts: dict[str, Any] = {
        "from_ns": window.start, "to_ns": window.end, "columns": window.columns, "lanes_left_out": left_out,
        "offset_b_ns": offsets[1] if len(offsets) > 1 else None, "clocks_ns": clocks,
    }
    if len(frames) == 1:
        return Answer(frames[0].lazy(), facts, tuple(summary), tuple(notes), picture=tuple(drawn))
    both = pl.concat(
        [frame.select(pl.lit(side).cast(NAME).alias("run"), pl.all()) for side, frame in zip("AB", frames, strict=True)]
    )
    return Answer(both.lazy(), facts, tuple(summary), tuple(notes), picture=tuple(drawn))


VIEW = View("timeline", COLUMNS, build, PAIR_COLUMNS, windows_itself=True)
