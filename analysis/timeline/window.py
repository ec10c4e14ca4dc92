"""A window of the timeline: its columns, what runs in each, and the slices wide enough to carry a name."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from .coverage import Ints
from .lanes import Lane, Timeline


class Window(Struct, frozen=True):
    """The stretch ``start``..``end`` (ns) in ``columns`` equal parts, to the nearest nanosecond."""

    start: int
    end: int
    columns: int

    @property
    def edges(self) -> Ints:
        """The moments between columns, ns: ``columns`` + 1 of them."""
        span = self.end - self.start
        return np.array([self.start + span * at // self.columns for at in range(self.columns + 1)], dtype=np.int64)

    def column(self, moment: int) -> int:
        """The column a moment lies in; below 0 or beyond the last where it is outside."""
        return (moment - self.start) * self.columns // max(1, self.end - self.start)


def fraction(lane: Lane, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """Per column how much of it was busy (0-1) and the class that took most of it (a code; the lane's only one)."""
    edges = window.edges
    widths = np.maximum(np.diff(edges), 1)
    busy = lane.busy.busy(edges) / widths
    if len(lane.by_class) < 2:
        return busy, np.full(len(busy), next(iter(lane.by_class), 0), dtype=np.uint8)
    codes = np.array(sorted(lane.by_class), dtype=np.uint8)
    parts = np.stack([lane.by_class[int(code)].busy(edges) for code in codes])
    return busy, codes[parts.argmax(axis=0)]


def counts(lane: Lane, edges: Ints) -> Ints:
    """Per column how many slices touch it."""
    begun = np.searchsorted(lane.slices.starts, edges[1:], side="left")
    ends = lane.slices.ends
    ordered = ends if (ends[1:] >= ends[:-1]).all() else np.sort(ends)
    return begun - np.searchsorted(ordered, edges[:-1], side="right")


def longest(lane: Lane, edges: Ints) -> list[int | None]:
    """Per column the slice (its place in the lane) that takes most of it; None where none does.

    Among those that begin in the column and the last one that began before it: in a stream whose kernels overlap, a
    third one that began still earlier is not looked at.
    """
    slices = lane.slices
    first = np.searchsorted(slices.starts, edges, side="left")
    picked: list[int | None] = []
    for column, (begin, stop) in enumerate(zip(first[:-1], first[1:], strict=True)):
        low, high = int(edges[column]), int(edges[column + 1])
        best, most = None, 0
        if stop > begin:
            inside = np.minimum(slices.ends[begin:stop], high) - slices.starts[begin:stop]
            at = int(inside.argmax())
            best, most = int(begin) + at, int(inside[at])
        if begin > 0:
            before = min(int(slices.ends[begin - 1]), high) - low
            if before > most:
                best, most = int(begin) - 1, before
        picked.append(best if most > 0 or best is not None else None)
    return picked


class Labelled(Struct, frozen=True):
    """A slice that is wide enough to be read: its first and last column, and its place in the lane."""

    first: int
    last: int
    at: int


def wide(lane: Lane, window: Window, least: int) -> list[Labelled]:
    """The slices of the window at least so many columns wide, in order."""
    slices = lane.slices
    least_ns = max(1, (window.end - window.start) * least // window.columns)
    begin = int(np.searchsorted(slices.starts, window.start, side="left"))
    stop = int(np.searchsorted(slices.starts, window.end, side="left"))
    begin = max(0, begin - 1)  # one that began before and reaches in
    lengths = np.minimum(slices.ends[begin:stop], window.end) - np.maximum(slices.starts[begin:stop], window.start)
    return [
        Labelled(
            max(0, window.column(int(slices.starts[at]))),
            min(window.columns - 1, window.column(int(slices.ends[at]) - 1)), at,
        )
        for at in (np.flatnonzero(lengths >= least_ns) + begin).tolist()
    ]


def at_moment(lane: Lane, moment: int, reach: int) -> int | None:
    """The slice that runs at a moment (ns), else the nearest that lies at most ``reach`` ns away; None where none."""
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
    """The idle stretch of the lane around a moment (ns); None where it was busy or nothing lies on both sides."""
    busy = lane.busy
    at = int(np.searchsorted(busy.starts, moment, side="right"))
    if at == 0 or at == len(busy.starts) or busy.ends[at - 1] > moment:
        return None
    return int(busy.ends[at - 1]), int(busy.starts[at])


def same_name(timeline: Timeline, lane: Lane, at: int, step: int) -> int | None:
    """The next (``step`` 1) or previous (−1) slice of the same name in the lane; None where there is none."""
    same = np.flatnonzero(lane.slices.names == lane.slices.names[at])
    place = int(np.searchsorted(same, at)) + step
    return int(same[place]) if 0 <= place < len(same) else None
