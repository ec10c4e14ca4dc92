"""The timeline as text: a line a lane, a character a column, the same on the screen, in markdown and in a pipe.

What a lane does is told apart without colour: kernels and host slices in eighths of a block, collectives in shades,
copies in strokes. A slice wide enough to be read is ``[its name]``. A blank is a gap.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.text import fit_name
from .lanes import CLASSES, COLLECTIVE, COPY, Lane, Timeline
from .window import Window, fraction, wide

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHADES = " ░░▒▒▓▓▓▓"
_STROKES = " ╌╌╍╍━━━━"
_SIGNS = {CLASSES.index(COLLECTIVE): _SHADES, CLASSES.index(COPY): _STROKES}
LEGEND = "█ kernels, host   ▓ collectives   ━ copies, sets   height or shade: how much of the column ran   blank: idle"
NAMED = 6
"""Columns from which a slice carries its name."""


class Line(Struct, frozen=True):
    """One lane drawn: its name, a character a column, the class code of each column, and where slices are named."""

    label: str
    text: str
    classes: npt.NDArray[np.uint8]
    named: tuple[tuple[int, int], ...] = ()


def draw(timeline: Timeline, lane: Lane, window: Window) -> Line:
    """The lane in that window."""
    busy, classes = fraction(lane, window)
    eighths = np.where(busy > 0, np.clip(np.rint(busy * 8), 1, 8), 0).astype(np.int64)
    drawn = [_SIGNS.get(code, _BLOCKS)[level] for level, code in zip(eighths.tolist(), classes.tolist(), strict=True)]
    named = []
    for one in wide(lane, window, NAMED):
        width = one.last - one.first + 1
        if width >= NAMED and (not named or one.first > named[-1][1]):
            name = fit_name(timeline.names[int(lane.slices.names[one.at])], width - 2)
            drawn[one.first : one.last + 1] = f"[{name:<{width - 2}}]"[:width].ljust(width)
            named.append((one.first, one.last))
    return Line(lane.name, "".join(drawn), classes, tuple(named))


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
    """The cycles over the lanes: a bar where each begins, its label where there is room."""
    line = [" "] * window.columns
    begin = int(np.searchsorted(timeline.marks.ends, window.start, side="right"))
    stop = int(np.searchsorted(timeline.marks.starts, window.end, side="left"))
    if stop - begin > window.columns:
        return ""
    for at in range(begin, stop):
        first = max(0, window.column(int(timeline.marks.starts[at])))
        last = min(window.columns - 1, window.column(int(timeline.marks.ends[at]) - 1))
        room = last - first
        if room < 0:
            continue
        label = fit_name(timeline.marks.labels[at], room) if room >= 3 else ""
        line[first : last + 1] = ("├" + label + "─" * room)[: room + 1]
    return "".join(line)


def minimap(timeline: Timeline, window: Window, columns: int) -> tuple[str, int, int]:
    """The whole run in one line (how busy its devices were), and the columns the window takes of it."""
    whole = Window(timeline.start, timeline.end, columns)
    edges = whole.edges
    busy = timeline.devices.busy(edges) / np.maximum(np.diff(edges), 1)
    levels = np.where(busy > 0, np.clip(np.rint(busy * 8), 1, 8), 0).astype(int)
    first = min(columns - 1, max(0, whole.column(window.start)))
    last = min(columns - 1, max(first, whole.column(window.end - 1)))
    return "".join(_BLOCKS[level] for level in levels), first, last
