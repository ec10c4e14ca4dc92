"""Lines of the timeline with their colours.

What a column holds is the analysis' answer; here it only gets its style, and the cursor is lit. Every function gives
strips of ``width`` cells; the first ``label`` of them say what a line is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ...list import cells
from ...session.themes import Look

if TYPE_CHECKING:
    from ....analysis.timeline.lanes import Timeline
    from ....analysis.timeline.picture import Line, Row
    from ....analysis.timeline.window import Window

_ROLES = {"kernel": "gemm", "collective": "collective", "copy": "copy", "wait": "dim", "host": "python"}
_REVERSE = Style(reverse=True)
_BOLD = Style(bold=True)


def head(runs: Sequence[Timeline], window: Window, label: int, look: Look, width: int) -> list[Strip]:
    """The whole run with the window in it, a ruler, and the cycles of the first run where any run has some."""
    from ....analysis.timeline.picture import axis, marks, minimap

    text, first, last = minimap(runs[0], window, window.columns)
    named, indent = Segment(cells.fit(runs[0].label, label - 1) + " ", look.dim), Segment(" " * label, look.base)
    made = [
        [named, Segment(text[:first], look.dim), Segment(text[first : last + 1] or " ", look.spark + _REVERSE),
         Segment(text[last + 1 :], look.dim)],
        [indent, Segment(axis(window), look.header)],
    ]
    if any(len(one.marks.starts) for one in runs):
        made.append([indent, Segment(marks(runs[0], window), look.mark)])
    return [_strip(line, look, width) for line in made]


def lanes(
    runs: Sequence[Timeline], rows: Sequence[tuple[int, Row]], windows: Sequence[Window], cursor: tuple[int, int],
    label: int, look: Look, width: int,
) -> list[Strip]:
    """Rows of the layout, each with its run; ``cursor`` is the row and the column that are lit."""
    from ....analysis.timeline.picture import lines_of

    drawn = [
        iter(lines_of(one, [row for of, row in rows if of == run], windows[run])) for run, one in enumerate(runs)
    ]
    made = []
    for at, (run, row) in enumerate(rows):
        here = at == cursor[0]
        side = f"{'AB'[run]} " if len(runs) > 1 else ""
        named = Segment(cells.fit(side + row.label, label - 1) + " ", look.cursor if here else look.gutter)
        made.append(_strip([named, *_coloured(next(drawn[run]), cursor[1], here, look)], look, width))
    return made


def _coloured(line: Line, column: int, here: bool, look: Look) -> list[Segment]:
    """The columns under the colours of their classes; names bold, the column of the cursor lit."""
    from ....analysis.timeline.lanes import CLASSES

    codes, text, made = line.classes, line.text, []
    edges = {0, len(text), column, column + 1, *((codes[1:] != codes[:-1]).nonzero()[0] + 1).tolist()}
    edges.update(edge for first, last in line.named for edge in (first, last + 1))
    firsts, ends = {first for first, _ in line.named}, {last + 1 for _, last in line.named}
    bold, of_column = False, codes.tolist()
    for begin, stop in pairwise(sorted(edge for edge in edges if edge <= len(text))):
        bold = begin in firsts or (bold and begin not in ends)
        style = look.role(_ROLES[CLASSES[of_column[begin]]]) if begin < len(of_column) else look.base
        style = style + _BOLD if bold else style
        if begin == column:
            style = look.cursor if here else style + look.cursor_blurred
        made.append(Segment(text[begin:stop], style))
    return made


def calls(row: Row) -> str:
    """The calls that a row stands for, else its name."""
    return " › ".join(cells.name(name, 40).strip() for name in row.crumbs[-4:]) or row.label


def foot(text: str, told: str, look: Look, width: int) -> list[Strip]:
    """What lies under the cursor, and what else is known of it."""
    return [
        _strip([Segment(cells.fit(f" {each}", width), style)], look, width)
        for each, style in ((text, look.top), (told, look.dim))
    ]


def _strip(segments: list[Segment], look: Look, width: int) -> Strip:
    return Strip(segments).adjust_cell_length(width, look.base)
