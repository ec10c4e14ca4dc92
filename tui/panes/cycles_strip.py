"""Cycle times in recorded order, as bars that start at 0: the share the devices were busy, and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct
from textual.content import Content

from ...analysis.core import units
from ..list.frame import Pieces, pieces_of
from ..session.themes import content_style
from ..widgets.drawing import QUIET, A, B

_LABEL = 9
_LEVELS = " ▁▂▃▄▅▆▇█"


class Bar(Struct, frozen=True):
    """A cycle, or the longest of several: number, duration and busy time in ns (None: unknown), and outlier flag."""

    cycle: int | None
    ns: float
    busy: float | None
    outlier: bool


def legend(sides: Sequence[Sequence[Bar]]) -> Pieces:
    """The meaning of the glyphs that are drawn."""
    bars = [bar for side in sides for bar in side]
    signs = (("█", "top", "busy", any(bar.busy for bar in bars)),
             ("▓", "bar", "waiting", any(bar.busy is not None and bar.busy < bar.ns for bar in bars)),
             ("▒", "faint", "no device figures", any(bar.busy is None for bar in bars)),
             ("▲", "bad", "outlier", any(bar.outlier for bar in bars)))
    return pieces_of([((sign, role), (f" {name}", "dim")) for sign, role, name, drawn in signs if drawn])


def strip(sides: Sequence[Sequence[Bar]], width: int, height: int) -> list[Content]:
    """The bars of one run, or of two side by side on one scale: ``height`` lines, the last one cycle numbers."""
    sides = [side for side in sides if side]
    room = (width - _LABEL - 4 * (len(sides) - 1)) // max(1, len(sides))
    if not sides or room < 10 or height < 4:
        return []
    most = max(bar.ns for side in sides for bar in side)
    wide = max(1, min(9, room // max(map(len, sides))))
    drawn = [_side(side, most, room, wide, height - 2) for side in sides]
    result = []
    factor, unit = units.axis(most)
    for line in range(height - 1):
        label = ""
        if line in (1, height // 2):
            label = units.number(float(f"{most * (height - 1 - line) / (height - 2) / factor:.2g}"))
            label = f"{label} {unit.strip()}" if line == 1 else label
        pieces: list[tuple[str, str]] = [(f"{label:>{_LABEL - 1}} ", QUIET)]
        for at, rows in enumerate(drawn):
            pieces += [(" " * 4, ""), *rows[line]] if at else rows[line]
        result.append(Content.assemble(*pieces))
    feet = [_foot(side, room, wide) for side in sides]
    letters = [("A ", A), ("B ", B)] if len(sides) > 1 else [("  ", "")]
    under: list[tuple[str, str]] = [(" " * (_LABEL - 2), "")]
    for letter, foot in zip(letters, feet, strict=False):
        under += [letter, (f"{foot:<{room}}  ", QUIET)]
    return [line.rstrip() for line in (*result, Content.assemble(*under))]


def _merged(side: Sequence[Bar], room: int) -> list[Bar]:
    """At most ``room`` bars; if there are more cycles, each bar is the longest of its range."""
    if len(side) <= room:
        return list(side)
    return [max(side[at * len(side) // room : (at + 1) * len(side) // room], key=lambda bar: bar.ns)
            for at in range(room)]


def _side(side: Sequence[Bar], most: float, room: int, wide: int, height: int) -> list[list[tuple[str, str]]]:
    """``height`` + 1 lines of (text, style); the first is for outlier marks above the tallest bar."""
    bars = _merged(side, room)
    body = max(1, wide - (wide > 1))
    lines = []
    for line in range(height + 1):
        cells: list[tuple[str, str]] = []
        for bar in bars:
            eighths = bar.ns / most * height * 8
            level = eighths - 8 * (height - line)
            busy = (bar.busy or 0) / most * height * 8 - 8 * (height - line)
            role = "bad" if bar.outlier else "faint" if bar.busy is None else "bar"
            if busy >= (4 if bar.outlier else 1):
                full = busy >= 8 or bar.outlier
                shown, style = _level(8 if full else busy), content_style("bad" if bar.outlier else "top", "" if (
                    full or level < 8) else "bar")
            elif level >= 8:  # a shade distinguishes it from busy without colour
                shown, style = "▒" if bar.busy is None else "▓", content_style(role)
            else:  # dim, to look as bright as the shade below it
                shown, style = _level(level), f"dim {content_style(role)}"
            if bar.outlier and -8 < level <= 0:
                shown, style = "▲", content_style("bad")
                cells += [(shown, style)] + [(" ", "")] * (wide - 1)
                continue
            cells += [(shown, style)] * body + [(" ", "")] * (wide - body)
        cells += [(" ", "")] * (room - len(cells))
        lines.append([("".join(text for text, _ in run), style) for style, run in groupby(cells, itemgetter(1))])
    return lines


def _level(eighths: float) -> str:
    return _LEVELS[max(0, min(8, round(eighths)))]


def _foot(side: Sequence[Bar], room: int, wide: int) -> str:
    """Cycle numbers, as many as fit under their bars."""
    bars = _merged(side, room)
    line = ""
    for at, bar in enumerate(bars):
        text = "" if bar.cycle is None else str(bar.cycle)
        if at * wide >= len(line) + bool(line) and at * wide + len(text) <= room:
            line = line.ljust(at * wide) + text
    return line
