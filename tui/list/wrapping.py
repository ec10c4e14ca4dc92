"""Rows of several lines: a sentence that would be cut is wrapped where the list has lines to spare.

One item stays one row for the cursor, marks and keys; only its first line takes the cursor's colour. What must stay
true: with all rows in sight nothing scrolls, so that a position and its first line tell one another; a list with more
rows than lines costs what it did.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from msgspec import Struct

from ...analysis.core.text import display
from .cells import words

if TYPE_CHECKING:
    from ...analysis.table.table import Table
    from .columns import Layout

MOST_ROWS, MOST_LINES = 60, 4
"""Rows of a list that is looked at, and lines of one of them."""


class Wrapped(Struct, frozen=True):
    """The text of one column of all rows in lines as wide as the column; ``spread`` has row and line of each line."""

    column: str
    texts: list[list[str]]
    spread: list[tuple[int, int]]

    def first(self, row: int) -> int:
        """The line at which a row begins."""
        return self.spread.index((row, 0))


def wrapped(table: Table, layout: Layout, height: int = MOST_ROWS * MOST_LINES) -> Wrapped | None:
    """The sentences of a table so laid out, the first ones where not all have room in ``height`` lines; None where it
    has none, or none of them is cut and has room."""
    placed = next((one for one in layout.placed if one.column.elastic and one.column.role == "label"
                   and not one.column.heading), None)
    if placed is None or len(table) > min(MOST_ROWS, height) or table.widest(placed.column.name) <= placed.width:
        return None
    texts, spare = list[list[str]](), height - len(table)
    for (value,) in table.window(0, len(table), [placed.column.name]):
        said = display("" if value is None else str(value))
        lines = textwrap.wrap(said, placed.width, max_lines=MOST_LINES, placeholder="…")
        if not 0 < len(lines) - 1 <= spare or max(map(len, said.split())) > placed.width:  # no word is broken
            lines = [words(said, placed.width)]
        spare -= len(lines) - 1
        texts.append(lines)
    spread = [(row, line) for row, lines in enumerate(texts) for line in range(len(lines))]
    return Wrapped(placed.column.name, texts, spread) if len(spread) > len(texts) else None
