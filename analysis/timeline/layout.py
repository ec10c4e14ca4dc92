"""The lines of the timeline in a window, with their labels and heights.

Streams come first; spare height goes to the busiest. The launching thread is expanded, one lane per depth labelled by
its most common class; every other thread is one line unless all fit, and threads idle in the window share one line. A
folded line says how many lanes it hides. Text output without a height has a line for every stream, every depth and six
counters.
"""

from __future__ import annotations

from collections import Counter as Counting
from collections.abc import Collection, Sequence
from itertools import groupby

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..core.batches import SCHEDULED
from .classes import CLASSES, CODES, HOST_WORDS
from .counters import Strip, strips
from .coverage import Ints
from .lanes import Lane, Timeline
from .window import Window, spans

COUNTERS = 6  # Most counter strips.
_SHARE = 24  # A stream this many times less busy than the busiest one has a single line.
_ROOMY = 9  # Height of a run, in lines, from which two counters are shown instead of one.
Group = tuple[object, ...]
"""Lanes that expand and fold together: the streams of a rank, or a thread."""


class Row(Struct, frozen=True):
    """One row of the picture, ``lines`` high: a lane, a counter, calls of a thread that span the whole window
    (``crumbs``), or ``text`` about folded lanes. ``group`` is expanded or folded from this row."""

    label: str
    lane: Lane | None = None
    lines: int = 1
    crumbs: tuple[str, ...] = ()
    counter: Strip | None = None
    text: str = ""
    group: Group | None = None

    @property
    def shows(self) -> object:
        """What tells it from other rows in any window: the lane or the counter in it, else its label."""
        what = self.lane if self.counter is None else self.counter.counter
        return self.label if what is None else id(what)


def layout(
    timeline: Timeline, window: Window, room: int | None = None, turned: Collection[Group] = (),
    counters: Sequence[Strip] | None = None,
) -> list[Row]:
    """The rows of a run in this window, folded to fit ``room`` lines; ``turned``: groups the user expanded or folded
    against the default. ``counters``: the strips of a pair."""
    edges = np.array([window.start, window.end], dtype=np.int64)
    path = [Row(timeline.path.title, timeline.path)] if timeline.path is not None else []
    rows = [*path, *_streams(timeline, edges, room, turned), *_threads(timeline, window, edges, room, turned)]
    shown = strips([timeline.counters], [timeline.device])[0] if counters is None else counters
    most = COUNTERS if room is None else max(1 + (room >= _ROOMY), min(COUNTERS, (room - len(rows)) // 4))
    rows += [Row(one.name, counter=one) for one in shown[:most]]
    if (more := len(shown) - most) > 0:
        if room is None or len(rows) < room:
            rows.append(Row(f"+{more} counter{'s' if more > 1 else ''}", text="m shows them"))
        else:
            rows[-1] = replace(rows[-1], label=f"{rows[-1].label} +{more}")
    return rows if room is None else _heightened(rows, edges, room)


def _ran(lane: Lane, edges: Ints) -> int:
    """Busy time of the lane in the window, ns."""
    return int(lane.busy.busy(edges)[0])


def _streams(timeline: Timeline, edges: Ints, room: int | None, turned: Collection[Group]) -> list[Row]:
    rows = []
    for rank, group in groupby((lane for lane in timeline.drawn if lane.tid is None), key=lambda lane: lane.rank):
        lanes = list(group)
        if room is None:
            rows += [Row(_stream_name(lane), lane) for lane in lanes]
            continue
        ran = [_ran(lane, edges) for lane in lanes]
        key = ("streams", rank)
        most = max(2, room // 3)
        busy = [at for at, ns in enumerate(ran) if ns]
        is_open = (len(busy) <= most and len(lanes) - len(busy) < 2) != (key in turned)
        shown = range(len(lanes)) if is_open else sorted(sorted(busy, key=lambda at: -ran[at])[:most])
        shown = shown if len(shown) else range(1)
        rows += [Row(_stream_name(lanes[at]), lanes[at], group=key) for at in shown]
        if (hidden := len(lanes) - len(shown)):
            rest = sum(ran[at] > 0 for at in range(len(lanes)) if at not in shown)
            idle = f", {hidden - rest} idle" if hidden > rest else ""
            state = f"{rest} busy here{idle}" if rest else "idle here"
            rows.append(Row(f"  +{hidden} lane{'s' if hidden > 1 else ''}", text=f"{state}: Space opens", group=key))
    return rows


def _stream_name(lane: Lane) -> str:
    return (f"  overlap {lane.depth}" if lane.depth else lane.name) + _hidden(lane)


def _hidden(lane: Lane) -> str:
    return f" +{lane.hidden:,} hidden" if lane.hidden else ""


def _threads(
    timeline: Timeline, window: Window, edges: Ints, room: int | None, turned: Collection[Group]
) -> list[Row]:
    threads = [
        (key, list(group)) for key, group in groupby(
            (lane for lane in timeline.drawn if lane.tid is not None), key=lambda lane: (lane.rank, lane.pid, lane.tid))
    ]
    rows, idle = list[Row](), 0
    main = max(threads, key=lambda one: sum(map(_launches, one[1])), default=None)
    alone = len(timeline.ranks) < 2
    if room is not None and main is not None:
        threads = [main, *(one for one in threads if one is not main)]
    depths = [(key, _depths(timeline, window, edges, lanes)) for key, lanes in threads]
    devices = any(lane.tid is None for lane in timeline.drawn)
    most = 0 if room is None else max(3, room // 3 if devices else 3 * room // 4)
    roomy = sum(len(own) for _, own in depths) <= most
    for key, own in depths:
        if not own:
            idle += 1
        elif room is None:
            rows += _numbered(own)
        else:
            group = ("thread", *key)
            is_open = (alone and main is not None and (roomy or key == main[0])) != (group in turned)
            few = most if group not in turned else len(own)
            rows += [replace(row, group=group) for row in _numbered(_folded(own, few if is_open else 1))]
    if idle and room is not None:
        rows.append(Row(f"+{idle} thread{'s' if idle > 1 else ''}", text="idle here"))
    return rows


def _launches(lane: Lane) -> int:
    """Estimated number of launching calls in the lane; the thread with the most is the one to look at."""
    step = max(1, len(lane.slices) // 4096)
    return step * int((lane.slices.classes[::step] == CODES["launch"]).sum())


def _depths(
    timeline: Timeline, window: Window, edges: Ints, lanes: Sequence[Lane]
) -> list[Row]:
    """The lanes of a thread that were busy in the window. Calls that span the whole window share one line, so that a
    deep Python stack leaves room for the rest."""
    rows: list[Row] = []
    for lane in lanes:
        whole = spans(lane, window)
        scheduled = timeline.names[int(lane.slices.names[0])] in SCHEDULED
        label = f"  {'scheduler' if scheduled else HOST_WORDS[CLASSES[lane.main]]}" if rows else lane.thread
        if whole is not None:
            call = timeline.names[int(lane.slices.names[whole])]
            if rows and rows[-1].crumbs:
                rows[-1] = replace(rows[-1], crumbs=(*rows[-1].crumbs, call))
            else:
                rows.append(Row(label, crumbs=(call,)))
        elif _ran(lane, edges):
            rows.append(Row(label + _hidden(lane), lane))
    return rows


def _folded(rows: Sequence[Row], most: int) -> list[Row]:
    """At most ``most`` lanes of a thread, but at least one per run of equal labels: of adjacent lanes with the same
    label the outer ones stay, and the last of these says how many it hides."""
    if len(rows) <= most:
        return list(rows)
    if most == 1:
        first = next((row for row in rows if row.lane is not None), rows[0])
        return [replace(first, label=f"{rows[0].label} +{len(rows) - 1}")]
    runs = [list(group) for _, group in groupby(rows, key=lambda row: row.label)]
    sizes = [len(run) for run in runs]
    while sum(sizes) > most and max(sizes) > 1:
        sizes[max(range(len(sizes)), key=sizes.__getitem__)] -= 1
    result: list[Row] = []
    for run, count in zip(runs, sizes, strict=True):
        result += run[:count]
        if hidden := len(run) - count:
            result[-1] = replace(result[-1], label=f"{result[-1].label} +{hidden}")
    return result


def _numbered(rows: Sequence[Row]) -> list[Row]:
    """The lanes of a thread with repeated labels numbered: 'operator 2' is an operator inside an operator."""
    seen, result = Counting[str](), []
    for row in rows:
        word, more, hidden = row.label.partition(" +")
        seen[word] += 1
        result.append(row if seen[word] == 1 else replace(row, label=f"{word} {seen[word]}{more}{hidden}"))
    return result


def _heightened(rows: list[Row], edges: Ints, room: int) -> list[Row]:
    """The rows with spare lines given to the busiest streams."""
    ran = [
        _ran(row.lane, edges) if row.group and row.lane is not None and row.lane.tid is None and not row.lane.depth
        else 0
        for row in rows
    ]
    spare, lines = room - len(rows), [1] * len(rows)
    seen = max(ran, default=0) // _SHARE  # a less busy lane would be all blank lines
    order = sorted((at for at, ns in enumerate(ran) if ns > seen), key=lambda at: -ran[at])
    for turn, at in enumerate(order):
        lines[at] += max(0, spare - turn + len(order) - 1) // len(order)
    return [replace(row, lines=count) if count > 1 else row for row, count in zip(rows, lines, strict=True)]
