"""What lies under the cursor of the timeline, and where in it a row of another view is."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import units
from ..core.names.short_name import fit_name
from .lanes import CLASSES, COLLECTIVE, COMPUTE, Lane, Timeline
from .window import gap_at

_LAUNCHES = ("runtime", "driver")


class Place(Struct, frozen=True):
    """A stretch of a run to show, ns, and the lane (its place in ``Timeline.drawn``) and slice to stand on."""

    start: int
    end: int
    lane: int | None = None
    slice: int | None = None


def find(timeline: Timeline, row: dict[str, Any]) -> Place | None:
    """Where a row of a view lies: by its start and length, else the longest slice of its name. None where nowhere."""
    start = row.get("start_ns")
    name = row.get("name", row.get("function"))
    if start is not None:
        end = int(start) + int(row.get("dur_ns") or 0)
        lane = _lane_of(timeline, row, int(start), name)
        return Place(int(start), end, *lane) if lane else Place(int(start), end)
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
    """The lane in which something of that name begins at that moment; else that of the row's device and stream."""
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


def moment_of_launch(run: Trace, index: int) -> int | None:
    """When the launch of that number (``kernels.index``) began, ns; None where there is none or it has no time."""
    launch = run.kernels.filter(pl.col("index") == index).select("start_ns").head(1).collect()
    return None if launch.is_empty() else launch.item()


def describe(timeline: Timeline, lane: Lane, at: int | None, moment: int) -> str:
    """The slice or gap under the cursor: what, how long, where."""
    if at is not None:
        slices = lane.slices
        start, end = int(slices.starts[at]), int(slices.ends[at])
        name = fit_name(timeline.names[int(slices.names[at])], 60)
        return f"{name} · {units.duration(end - start)} · at {units.duration(start)} · {lane.name}"
    gap = gap_at(lane, moment)
    if gap is None:
        return f"nothing · {lane.name}"
    return f"idle {units.duration(gap[1] - gap[0])} · from {units.duration(gap[0])} · {lane.name}"


def launcher(run: Trace, lane: Lane, at: int) -> str:
    """Who launched a device activity and how long before: read from the tables, so for a thread in the background."""
    slices = lane.slices
    if CLASSES[int(slices.classes[at])] not in (COMPUTE, COLLECTIVE, "copy") or lane.tid is not None:
        return ""
    activity = run.kernels.slice(int(slices.rows[at]), 1).select("correlation", "rank").collect()
    correlation, rank = activity.row(0) if activity.height else (None, None)
    if correlation is None:
        return "launch not recorded"
    calls = run.host.filter(
        (pl.col("correlation") == correlation) & pl.col("kind").cast(pl.String).is_in(_LAUNCHES)
        & pl.col("rank").eq_missing(rank)
    ).select(pl.col("name").cast(pl.String), "start_ns", "tid").sort("start_ns").head(1).collect()
    if calls.is_empty():
        return "launch not recorded"
    name, start, tid = calls.row(0)
    return f"launched {units.duration(int(slices.starts[at]) - start)} before by {fit_name(name, 40)} on thread {tid}"
