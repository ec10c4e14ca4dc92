"""The timeline as text: one line per lane, one character per column, the same on the screen, in markdown and in a pipe.

What a lane does is told apart without colour: kernels and host slices in eighths of a block, collectives in shades,
copies in strokes. A slice wide enough to be read is ``[its name]``. A blank is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.names.short_name import fit_name
from .counters import Counter
from .lanes import CLASSES, COLLECTIVE, COPY, HOST_CODE, Lane, Marks, Timeline
from .window import Window, fractions, spans, wide

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHADES = " ░░▒▒▓▓▓▓"
_STROKES = " ╌╌╍╍━━━━"
_SIGNS = {CLASSES.index(COLLECTIVE): _SHADES, CLASSES.index(COPY): _STROKES}
LEGEND = "█ kernels, host   ▓ collectives   ━ copies, sets   height or shade: how much of the column ran   blank: idle"
COUNTERS = 6  # Strips of counters, the most sampled ones.
NAMED = 6  # Columns from which a slice carries its name.


_DRAWN = np.array([list(_SIGNS.get(code, _BLOCKS)) for code in range(len(CLASSES))])
"""The sign of a class (first index) that filled so many eighths of a column (second)."""


def _eighths(busy: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Shares of columns as eighths; whatever ran at all is at least one."""
    return np.where(busy > 0, np.clip(np.rint(busy * 8), 1, 8), 0).astype(np.intp)


class Line(Struct, frozen=True):
    """One lane drawn: its name, a character a column, the class code of each column, and where slices are named."""

    label: str
    text: str
    classes: npt.NDArray[np.uint8]
    named: tuple[tuple[int, int], ...] = ()


def draw(timeline: Timeline, lanes: Sequence[Lane], window: Window) -> list[Line]:
    """The lanes in that window."""
    if not lanes:
        return []
    busy, classes = fractions(lanes, window)
    signs: list[list[str]] = _DRAWN[classes, _eighths(busy)].tolist()
    return [_named(timeline, lane, window, *one) for lane, *one in zip(lanes, signs, classes, strict=True)]


def _named(timeline: Timeline, lane: Lane, window: Window, drawn: list[str], classes: npt.NDArray[np.uint8]) -> Line:
    """A lane whose columns are drawn, with the names of the slices that have room for one."""
    named: list[tuple[int, int]] = []
    for one in wide(lane, window, NAMED):
        width = one.last - one.first + 1
        if width >= NAMED and (not named or one.first > named[-1][1]):
            name = fit_name(timeline.names[int(lane.slices.names[one.at])], width - 2)
            drawn[one.first : one.last + 1] = f"[{name:<{width - 2}}]"[:width].ljust(width)
            named.append((one.first, one.last))
    return Line(lane.name, "".join(drawn), classes, tuple(named))


class Row(Struct, frozen=True):
    """A line of the picture: a lane, a counter, or the calls of a thread that take the whole window (``crumbs``)."""

    lane: Lane | None
    label: str
    crumbs: tuple[str, ...] = ()
    counter: Counter | None = None


def layout(timeline: Timeline, window: Window) -> list[Row]:
    """What is worth a line in this window. Streams always are. Of a thread, the calls that take the whole window are
    one line together, and depths in which nothing ran are left out, so that a deep Python stack leaves room for what
    changes."""
    rows: list[Row] = []
    thread: tuple[object, ...] | None = None
    for lane in timeline.drawn:
        if lane.tid is None:
            rows.append(Row(lane, (f"  overlap {lane.depth}" if lane.depth else lane.name) + _hidden(lane)))
            continue
        key = (lane.rank, lane.pid, lane.tid)
        whole = spans(lane, window)
        if whole is not None:
            name = timeline.names[int(lane.slices.names[whole])]
            if key == thread and rows and rows[-1].crumbs:
                rows[-1] = Row(None, rows[-1].label, (*rows[-1].crumbs, name))
            else:
                rows.append(Row(None, f"{'' if lane.rank is None else f'rank {lane.rank} '}thread {lane.tid}", (name,)))
        elif lane.busy.busy(np.array([window.start, window.end], dtype=np.int64))[0] > 0:
            rows.append(Row(lane, (f"  {lane.depth}" if key == thread else lane.name) + _hidden(lane)))
        else:
            continue
        thread = key
    rows += [Row(None, counter.name, counter=counter) for counter in timeline.counters[:COUNTERS]]
    if (more := len(timeline.counters) - COUNTERS) > 0:
        rows.append(Row(None, f"+{more} counters: m"))
    return rows


def _hidden(lane: Lane) -> str:
    return f" +{lane.hidden:,} hidden" if lane.hidden else ""


def crumbs(names: tuple[str, ...], width: int) -> str:
    """Calls one inside the other, as many of the innermost as fit."""
    shown = ""
    for name in reversed(names):
        longer = fit_name(name, max(8, width // 3)) + (" › " + shown if shown else "")
        if len(longer) > width - 2:
            return ("… " + shown)[:width]
        shown = longer
    return shown


def strip(counter: Counter, window: Window) -> str:
    """A counter in eighths between its lowest and its highest value of the whole run."""
    means = counter.means(window.edges)
    scaled = np.clip(np.nan_to_num((means - counter.low) / (counter.high - counter.low)) * 7.99, 0, 7).astype(int)
    return "".join(
        _BLOCKS[level + 1] if sampled else " " for level, sampled in zip(scaled.tolist(), ~np.isnan(means), strict=True)
    )


def lines_of(timeline: Timeline, rows: Sequence[Row], window: Window) -> list[Line]:
    """Rows of the layout drawn."""
    lanes = iter(draw(timeline, [row.lane for row in rows if row.lane is not None], window))
    return [next(lanes) if row.lane is not None else _other(row, window) for row in rows]


def _other(row: Row, window: Window) -> Line:
    """A counter, or the calls that take the whole window."""
    text = strip(row.counter, window) if row.counter is not None else crumbs(row.crumbs, window.columns)
    return Line(row.label, text, np.full(window.columns, HOST_CODE, dtype=np.uint8))


def axis(window: Window, origin: int = 0) -> str:
    """A ruler: round times, each beginning at its column, as far apart as they need to be to be read."""
    span = window.end - window.start
    step = _round_step(span * 14 // max(1, window.columns) + 1)
    line = [" "] * window.columns
    first = -(-(window.start - origin) // step) * step + origin
    for moment in range(first, window.end, step):
        label = "╵" + moment_text(moment - origin, step)
        at = window.column(moment)
        if at + len(label) <= window.columns:
            line[at : at + len(label)] = label
    return "".join(line)


_SCALES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def moment_text(moment: int, step: int) -> str:
    """A time (ns) in the largest unit in which a step of that length is a whole number: '12,345 µs'."""
    scale, unit = next(pair for pair in _SCALES if step >= pair[0])
    return f"{moment / scale:,.0f} {unit}"


def _round_step(least: int) -> int:
    """The smallest of 1, 2 or 5 times a power of ten (ns) that is at least so long."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10


def marks(timeline: Timeline, window: Window) -> str:
    """The cycles over the lanes."""
    return cycle_line(timeline.marks, window)


def cycle_line(marks: Marks, window: Window) -> str:
    """Cycles in a line: a bar where each begins, its label where there is room; '' where there are too many."""
    line = [" "] * window.columns
    begin = int(np.searchsorted(marks.ends, window.start, side="right"))
    stop = int(np.searchsorted(marks.starts, window.end, side="left"))
    if stop - begin > window.columns:
        return ""
    for at in range(begin, stop):
        first = max(0, window.column(int(marks.starts[at])))
        last = min(window.columns - 1, window.column(int(marks.ends[at]) - 1))
        room = last - first
        if room < 0:
            continue
        label = fit_name(marks.labels[at], room) if room >= 3 else ""
        line[first : last + 1] = ("├" + label + "─" * room)[: room + 1]
    return "".join(line)


def minimap(timeline: Timeline, window: Window, columns: int) -> tuple[str, int, int]:
    """The whole run in one line (how busy its devices were), and the columns the window takes of it."""
    whole = Window(timeline.start, timeline.end, columns)
    edges = whole.edges
    busy = timeline.devices.busy(edges) / np.maximum(np.diff(edges), 1)
    levels = _eighths(busy).tolist()
    first = min(columns - 1, max(0, whole.column(window.start)))
    last = min(columns - 1, max(first, whole.column(window.end - 1)))
    return "".join(_BLOCKS[level] for level in levels), first, last
