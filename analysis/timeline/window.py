"""A window of the timeline: its columns, the activity in each, and the slices wide enough to show a name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from msgspec import Struct

from .coverage import Ints
from .lanes import BLOCK, Lane, Timeline


class Window(Struct, frozen=True):
    """The interval ``start``..``end`` (ns) in ``columns`` equal parts, rounded down to whole nanoseconds."""

    start: int
    end: int
    columns: int

    @property
    def edges(self) -> Ints:
        """The column boundaries, ns: ``columns`` + 1 values."""
        return _edges(self.start, self.end, self.columns)

    @property
    def widths(self) -> Ints:
        """The column widths, ns, at least 1."""
        return _widths(self.start, self.end, self.columns)

    def column(self, moment: int) -> int:
        """The column of a moment; below 0 or beyond the last if it is outside the window."""
        return (moment - self.start) * self.columns // max(1, self.end - self.start)


@lru_cache(maxsize=8)
def _edges(start: int, end: int, columns: int) -> Ints:
    """Cached because every lane needs it; in Python ints, because a recording may span all 64 bits."""
    return np.array([start + (end - start) * at // columns for at in range(columns + 1)], dtype=np.int64)


@lru_cache(maxsize=8)
def _widths(start: int, end: int, columns: int) -> Ints:
    return np.maximum(np.diff(_edges(start, end, columns)), 1)


def fractions(lanes: Sequence[Lane], window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Per lane and column: the busy share (0-1) and the code of the class with the most time. Takes all lanes of a
    screen at once: two dozen one by one take twice as long, nearly all of it call overhead."""
    edges = window.edges
    spent = np.array([lane.busy.busy(edges) for lane in lanes])
    classes = np.array([
        np.full(window.columns, lane.main, np.uint8) if lane.by_class is None
        else lane.by_class.most(lane.slices.starts, lane.slices.ends, edges) for lane in lanes
    ])
    return spent / window.widths, classes


def counts(lane: Lane, edges: Ints) -> Ints:
    """Number of slices that touch each column."""
    starting = np.searchsorted(lane.slices.starts, edges[1:], side="left")
    ends = lane.slices.ends
    ordered = ends if (ends[1:] >= ends[:-1]).all() else np.sort(ends)
    return starting - np.searchsorted(ordered, edges[:-1], side="right")


def longest(lane: Lane, edges: Ints) -> list[int | None]:
    """Per column the slice (index in the lane) that takes most of it; None where there is none. Candidates are the
    slices that begin in the column and the last one that began before it; where kernels of a stream overlap, one that
    began still earlier is not considered."""
    slices = lane.slices
    first = np.searchsorted(slices.starts, edges, side="left")
    picked: list[int | None] = []
    for column, (begin, stop) in enumerate(pairwise(first.tolist())):
        low, high = int(edges[column]), int(edges[column + 1])
        best, most = None, 0
        if stop > begin:
            inside = np.minimum(slices.ends[begin:stop], high) - slices.starts[begin:stop]
            at = int(inside.argmax())
            best, most = begin + at, int(inside[at])
        if begin > 0:
            before = min(int(slices.ends[begin - 1]), high) - low
            if before > most:
                best, most = begin - 1, before
        picked.append(best)
    return picked


class Labelled(Struct, frozen=True):
    """A slice wide enough for a label: its first and last column, and its index in the lane."""

    first: int
    last: int
    at: int


def wide(lane: Lane, window: Window, least: int) -> list[Labelled]:
    """The slices in the window that are at least ``least`` columns wide, in order."""
    slices = lane.slices
    least_ns = max(1, (window.end - window.start) * least // window.columns)
    begin = int(np.searchsorted(slices.starts, window.start, side="left"))
    stop = int(np.searchsorted(slices.starts, window.end, side="left"))
    begin = max(0, begin - 1)  # may have begun before the window and reach in
    if begin == stop:
        return []
    places: list[int] = []
    blocks = np.flatnonzero(lane.longest[begin // BLOCK : (stop - 1) // BLOCK + 1] >= least_ns) + begin // BLOCK
    for block in blocks.tolist():
        low, high = max(begin, block * BLOCK), min(stop, (block + 1) * BLOCK)
        lengths = np.minimum(slices.ends[low:high], window.end) - np.maximum(slices.starts[low:high], window.start)
        places += (np.flatnonzero(lengths >= least_ns) + low).tolist()
    return [
        Labelled(
            max(0, window.column(int(slices.starts[at]))),
            min(window.columns - 1, window.column(int(slices.ends[at]) - 1)), at,
        )
        for at in places
    ]


NEARLY = 0.9
"""Share of the window that a slice alone in its lane must cover to count as spanning the window."""


def spans(lane: Lane, window: Window) -> int | None:
    """Index of the lane's only slice in the window, if it covers nearly all of the window; else None."""
    slices = lane.slices
    stop = int(np.searchsorted(slices.starts, window.end, side="left"))
    at = stop - 1
    if at < 0 or (at > 0 and slices.ends[at - 1] > window.start):
        return None
    inside = min(int(slices.ends[at]), window.end) - max(int(slices.starts[at]), window.start)
    return at if inside >= NEARLY * (window.end - window.start) else None


def at_moment(lane: Lane, moment: int, reach: int) -> int | None:
    """Index of the slice running at a moment (ns), else of the nearest within ``reach`` ns; None if there is none."""
    slices = lane.slices
    at = int(np.searchsorted(slices.starts, moment, side="right"))
    for back in range(at - 1, max(-1, at - 9), -1):
        if slices.ends[back] > moment:
            return back
    near = [place for place in (at - 1, at) if 0 <= place < len(slices)]
    distance = {p: max(int(slices.starts[p]) - moment, moment - int(slices.ends[p])) for p in near}
    best = min(near, key=lambda place: distance[place], default=None)
    return best if best is not None and distance[best] <= reach else None


def gap_at(lane: Lane, moment: int) -> tuple[int, int] | None:
    """Start and end of the lane's idle gap around a moment (ns); None if it was busy or the gap has an open end."""
    busy = lane.busy
    at = int(np.searchsorted(busy.starts, moment, side="right"))
    if at == 0 or at == len(busy.starts) or busy.ends[at - 1] > moment:
        return None
    return int(busy.ends[at - 1]), int(busy.starts[at])


def cycle_at(timeline: Timeline, moment: int) -> tuple[int, int, str] | None:
    """Start, end (ns) and label of the last cycle that began by a moment, if it has not ended; else None."""
    marks = timeline.marks
    at = int(np.searchsorted(marks.starts, moment, side="right")) - 1
    if at < 0 or marks.ends[at] <= moment:
        return None
    return int(marks.starts[at]), int(marks.ends[at]), marks.labels[at]


def same_name(lane: Lane, at: int, step: int) -> int | None:
    """Index of the next (``step`` 1) or previous (−1) slice of the same name in the lane; None if there is none."""
    same = np.flatnonzero(lane.slices.names == lane.slices.names[at])
    place = int(np.searchsorted(same, at)) + step
    return int(same[place]) if 0 <= place < len(same) else None
