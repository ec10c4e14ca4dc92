"""Rows of several lines: a sentence that would be cut is wrapped if the list has lines to spare.

A wrapped row is still one row for cursor, marks and keys; the cursor highlights only its first line. Invariant: rows
wrap only while all of them fit, so nothing scrolls, each position has one first line and vice versa, and a list with
more rows than lines costs the same as without wrapping.
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
"""Most rows of a list that wraps, and most lines per row."""


class Wrapped(Struct, frozen=True):
    """One column's text, wrapped, per row; ``spread`` is (row, line within the row) for each line of the list."""

    column: str
    texts: list[list[str]]
    spread: list[tuple[int, int]]

    def first(self, row: int) -> int:
        """The first line of a row."""
        return self.spread.index((row, 0))


def wrapped(table: Table, layout: Layout, height: int = MOST_ROWS * MOST_LINES) -> Wrapped | None:
    """The wrapped sentences, from the top as far as ``height`` lines allow; None if the table has no sentence column or
    nothing is to be wrapped."""
    placed = next((one for one in layout.placed if one.column.elastic and one.column.role == "label"
                   and not one.column.heading), None)
    if placed is None or len(table) > min(MOST_ROWS, height) or table.widest(placed.column.name) <= placed.width:
        return None
    texts, spare = list[list[str]](), height - len(table)
    for (value,) in table.window(0, len(table), [placed.column.name]):
        text = display("" if value is None else str(value))
        lines = textwrap.wrap(text, placed.width, max_lines=MOST_LINES, placeholder="…")
        if not 0 < len(lines) - 1 <= spare or max(map(len, text.split())) > placed.width:  # never break a word
            lines = [words(text, placed.width)]
        spare -= len(lines) - 1
        texts.append(lines)
    spread = [(row, line) for row, lines in enumerate(texts) for line in range(len(lines))]
    return Wrapped(placed.column.name, texts, spread) if len(spread) > len(texts) else None
