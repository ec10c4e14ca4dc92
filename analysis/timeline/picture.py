"""The timeline as text: one line per lane, one character per column, the same on the screen, in markdown and in a pipe.

Classes are distinguishable without colour: kernels and host slices in eighths of a block, collectives in shades,
copies in strokes. A slice that is wide enough shows ``[its name]``. A blank is a gap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.names.short_name import fit_name
from ..kernels.family import LETTERS
from .classes import CLASSES, CODES
from .counters import Strip
from .lanes import Lane, Marks, Timeline
from .layout import Row
from .window import Window, fractions, wide

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHADES = " ░░▒▒▓▓▓▓"
_STROKES = " ╌╌╍╍━━━━"
_SIGNS = {CODES["collective"]: _SHADES, CODES["copy"]: _STROKES}
LEGEND = "█ kernels, host   ▓ collectives   ━ copies, sets   height or shade: how much of the column ran   blank: idle"
NAMED = 6  # Columns from which a slice shows its name.


_DRAWN = np.array([list(_SIGNS.get(code, _BLOCKS)) for code in range(len(CLASSES))])
"""Character for a class (first index) that filled that many eighths of a column (second index)."""


_SOLID = np.array(list(_BLOCKS))
_LETTERS = list(LETTERS.values())  # For the families, the first of ``CLASSES``; others have none.


def _eighths(busy: npt.NDArray[np.float64], lines: int = 1) -> npt.NDArray[np.intp]:
    """Busy shares of columns as eighths of a line; any activity gives at least one."""
    return np.where(busy > 0, np.clip(np.rint(busy * 8 * lines), 1, 8 * lines), 0).astype(np.intp)


class Line(Struct, frozen=True):
    """A drawn row: its label, its ``lines`` from the top with one character per column, the class code per column, and
    the position of each name (line, first and last column). ``prefix``: the start of a counter or folded row."""

    label: str
    lines: tuple[str, ...]
    classes: npt.NDArray[np.uint8]
    named: tuple[tuple[int, int, int], ...] = ()
    prefix: str = ""

    @property
    def text(self) -> str:
        """The first line: all of a row that is one line high."""
        return self.lines[0]


def _drawn(timeline: Timeline, rows: Sequence[Row], window: Window) -> list[Line]:
    """The rows that are lanes, drawn for that window."""
    lanes = [row.lane for row in rows if row.lane is not None]
    if not lanes:
        return []
    busy, classes = fractions(lanes, window)
    signs: list[list[str]] = _DRAWN[classes, _eighths(busy)].tolist()
    return [
        _named(timeline, row, lane, window, [flat], codes) if row.lines == 1
        else _tall(timeline, row, lane, window, share, codes)
        for row, lane, flat, share, codes in zip(rows, lanes, signs, busy, classes, strict=True)
    ]


def _tall(
    timeline: Timeline, row: Row, lane: Lane, window: Window, busy: npt.NDArray[np.float64],
    classes: npt.NDArray[np.uint8],
) -> Line:
    """A lane several lines high: bars as high as the busy share of the column, under the letter of the family."""
    high = _eighths(busy, row.lines)
    level = np.clip(high - 8 * np.arange(row.lines - 1, -1, -1)[:, None], 0, 8)
    drawn: list[list[str]] = _SOLID[level].tolist()
    starting = np.diff(np.searchsorted(lane.slices.starts, window.edges[[0, -1]]))[0]
    letters = []
    if starting <= window.columns:  # else a column holds several slices, and a letter would stand for only one
        new = (high > 0) & (classes < len(_LETTERS))
        new[1:] &= (high[:-1] == 0) | (classes[1:] != classes[:-1])
        for column in np.flatnonzero(new).tolist():
            line = row.lines - 1 - -(-int(high[column]) // 8)
            if line >= 0:
                drawn[line][column] = _LETTERS[classes[column]]
            elif level[0, column] == 8:
                drawn[0][column] = _LETTERS[classes[column]]
                letters.append((0, column, column))
    return _named(timeline, row, lane, window, drawn, classes, letters)


def _named(
    timeline: Timeline, row: Row, lane: Lane, window: Window, drawn: list[list[str]], classes: npt.NDArray[np.uint8],
    letters: Sequence[tuple[int, int, int]] = (),
) -> Line:
    """A drawn lane plus the names of the slices wide enough for one, on its top line."""
    named: list[tuple[int, int, int]] = []
    for one in wide(lane, window, NAMED):
        first = max(one.first, named[-1][2] + 1) if named else one.first  # two slices may share a column
        width = one.last - first + 1
        if width >= NAMED:
            name = fit_name(timeline.names[int(lane.slices.names[one.at])], width - 2)
            drawn[0][first : one.last + 1] = f"[{name:<{width - 2}}]"[:width].ljust(width)
            named.append((0, first, one.last))
    apart = [one for one in letters if not any(first <= one[1] <= last for _, first, last in named)]
    return Line(row.label, tuple(map("".join, drawn)), classes, tuple(sorted([*named, *apart])))


def crumbs(names: tuple[str, ...], width: int) -> str:
    """Nested calls joined by ›: as many of the innermost as fit."""
    shown = ""
    for name in reversed(names):
        longer = fit_name(name, max(8, width // 3)) + (" › " + shown if shown else "")
        if len(longer) > width - 2:
            return ("… " + shown)[:width]
        shown = longer
    return shown


def strip(counter: Strip, window: Window) -> str:
    """A counter in eighths between its ``low`` and ``high``."""
    means = counter.counter.means(window.edges)
    share = (means - counter.low) / ((counter.high - counter.low) or 1.0)
    scaled = np.clip(np.nan_to_num(share) * 7.99, 0, 7).astype(int)
    return "".join(
        _BLOCKS[level + 1] if sampled else " " for level, sampled in zip(scaled.tolist(), ~np.isnan(means), strict=True)
    )


def lines_of(timeline: Timeline, rows: Sequence[Row], window: Window, ahead: int = 0) -> list[Line]:
    """The rows of the layout, drawn; a moment of run A plus ``ahead`` (ns) is the same place in this run."""
    lanes = iter(_drawn(timeline, [row for row in rows if row.lane is not None], window))
    return [next(lanes) if row.lane is not None else _other(row, window, ahead) for row in rows]


def _other(row: Row, window: Window, ahead: int) -> Line:
    """A counter with its value, calls that span the whole window, or the text of a folded lane."""
    classes, width = np.full(window.columns, CODES["python"], dtype=np.uint8), window.columns
    if row.counter is not None:
        lead = f" {row.counter.value(window.start, window.end, ahead)}  "
        if len(lead) > (room := width // 2 + 8):
            lead = re.sub(r" \([^)]*\)", "", lead)[:room]
        return Line(row.label, ((lead + strip(row.counter, window)[len(lead) :])[:width],), classes, (), lead[:width])
    if row.crumbs:
        return Line(row.label, (f" {crumbs(row.crumbs, width - 2)}".ljust(width),), classes, ((0, 0, width - 1),))
    return Line(row.label, (row.text[:width].ljust(width),), classes, prefix=row.text[:width])


def axis(window: Window) -> str:
    """A ruler: round times of the recording, each starting at its column, spaced widely enough to be readable."""
    span, columns = window.end - window.start, max(1, window.columns)
    step = _round_step(span * 14 // columns + 1)
    while step < span and (len(moment_text(window.end, step)) + 2) * span > step * columns:
        step = _round_step(step + 1)
    line = [" "] * window.columns
    for moment in range(-(-window.start // step) * step, window.end, step):
        label = "╵" + moment_text(moment, step)
        at = window.column(moment)
        if at + len(label) <= window.columns:
            line[at : at + len(label)] = label
    return "".join(line)


_SCALES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def moment_text(moment: int, step: int) -> str:
    """A time (ns) in the largest unit that is no longer than ``step``: '12,345 µs'."""
    scale, unit = next(pair for pair in _SCALES if step >= pair[0])
    return f"{moment / scale:,.0f} {unit}".replace("-", "−")


def _round_step(least: int) -> int:
    """The smallest 1, 2 or 5 times a power of ten (ns) that is at least ``least``."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10


def marks(timeline: Timeline, window: Window) -> str:
    """The line of cycles over the lanes."""
    return cycle_line(timeline.marks, window)


_NUMBER = re.compile(r"\D*?(\d+)")
BRIEF = 8
"""A shortened cycle label is shown only in more cells than this; below, only a number that fits."""


def cycle_line(marks: Marks, window: Window) -> str:
    """Cycles in a line: a bar at each start, then the label. If the label of any fully visible cycle does not fit, all
    show only their numbers; '' with more cycles than columns."""
    line = [" "] * window.columns
    begin = int(np.searchsorted(marks.ends, window.start, side="right"))
    stop = int(np.searchsorted(marks.starts, window.end, side="left"))
    if stop - begin > window.columns:
        return ""
    cycles = [(marks.labels[at], window.column(int(marks.starts[at])), window.column(int(marks.ends[at]) - 1))
              for at in range(begin, stop)]
    tight = any(len(label) >= end - start and start >= 0 and end < window.columns for label, start, end in cycles)
    for label, start, end in cycles:
        first, last = max(0, start), min(window.columns - 1, end)
        room = last - first
        if room < 0:
            continue
        if tight or len(label) >= room:
            number = _NUMBER.fullmatch(label)  # one or two letters of a label say nothing
            brief = number[1] if number and len(number[1]) < room else ""
            label = brief or (label if len(label) < room else fit_name(label, room - 1) if room > BRIEF else "")
        line[first : last + 1] = ("├" + label + "─" * room)[: room + 1]
    return "".join(line)


def minimap(timeline: Timeline, whole: Window, window: Window) -> tuple[str, int, int]:
    """Device utilisation over ``whole`` in one line, and the first and last column that the window covers in it."""
    busy = timeline.devices.busy(whole.edges) / whole.widths
    first = min(whole.columns - 1, max(0, whole.column(window.start)))
    last = min(whole.columns - 1, max(first, whole.column(window.end - 1)))
    return "".join(_BLOCKS[level] for level in _eighths(busy).tolist()), first, last
