"""Sections of details as lines of text: titles, labels with values, small tables, distributions.

The details panel (Enter) and the side panel draw the same sections with these functions; they differ in what they omit
for lack of room.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import clamp

from ...analysis.core import units
from ..list import cells
from .drawing import histogram

if TYPE_CHECKING:
    from ...analysis.contract.sections import Section

HISTOGRAM_LINES = 13
"""Most lines of a distribution."""
NARROWEST = 8
"""Cells that a text column keeps however little room there is."""
_FIGURES = frozenset("0123456789+−-#.")
"""First characters of figures, which are aligned right and never cut."""
_DRAWN = frozenset("█░·▁▂▃▄▅▆▇")
"""First characters of drawings, which would be misleading if cut."""


def heading(text: str) -> Content:
    """The title line of a section."""
    return Content.styled(text, "bold $primary")


def section_lines(section: Section, room: int, height: int = HISTOGRAM_LINES) -> list[Content]:
    """The lines below a section's title; its distribution takes at most ``height``."""
    drawn = histogram(section.shape, room, height) if section.shape else []
    if section.columns:
        return [*drawn, *grid(section.columns, section.rows, room)]
    return [*drawn, *pairs([(row[0], row[1]) for row in section.rows], room)]


def pairs(rows: Sequence[tuple[str, str]], room: int, label_style: str = "dim") -> list[Content]:
    """Labels and values in two columns; values wrap within theirs."""
    longest, values = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
    width = clamp(longest, 4 if longest else -2, max(8, room // 3, room - values - 4))
    result: list[Content] = []
    for label, value in rows:
        wrapped = textwrap.wrap(value, max(10, room - width - 4), break_long_words=True) or [""]
        result.append(Content.assemble("  ", (f"{label[:width]:<{width}}", label_style), "  ", wrapped[0]))
        result += [Content(" " * (width + 4) + rest) for rest in wrapped[1:]]
    return result


def grid(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], room: int) -> list[Content]:
    """A small table, at most ``room`` wide if possible: figures right, words left, the widest text columns cut first.

    Columns without any value are omitted.
    """
    shown = [at for at in range(len(columns)) if not rows or any(row[at] not in ("", units.MISSING) for row in rows)]
    rows = tuple(tuple(row[at] for at in shown) for row in rows)
    titles = [columns[at] for at in shown]
    if not titles:
        return []
    widths = [max(len(title), *(len(row[at]) for row in rows), 1) if rows else len(title)
              for at, title in enumerate(titles)]
    words = [at == 0 or not any(row[at][:1] in _FIGURES for row in rows) for at in range(len(titles))]
    _narrow(widths, [
        at for at in range(len(titles)) if words[at] and not any(row[at][:1] in _DRAWN for row in rows)
    ], sum(widths) + 2 * len(widths) - room)

    def line(values: Sequence[str]) -> str:
        return "  " + "  ".join(
            cells.fit(value, width, right=not left) for value, width, left in zip(values, widths, words, strict=True)
        )

    return [Content.styled(line(titles), "dim"), *(Content(line(row)) for row in rows)]


def _narrow(widths: list[int], elastic: list[int], over: int) -> None:
    """Remove ``over`` cells, each from the widest elastic column, until none is wider than ``NARROWEST``."""
    for _ in range(over):
        at = max(elastic, key=lambda column: widths[column], default=None)
        if at is None or widths[at] <= NARROWEST:
            return
        widths[at] -= 1
