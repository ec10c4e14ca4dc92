"""A page of rows → segments: what the list draws between two scrolls.

Values are turned into text once a page; a cursor movement only puts the same texts under another style. Emphasis: the
largest three of the column that matters stand out, what is under one per cent of the whole steps back, so that the eye
lands where the time is. Graphics keep their colours under the cursor: a bar in reverse would read as its complement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ...analysis.core import text
from ..terminal import sanitiser
from . import cells, glyphs
from .columns import GRAPHIC, Layout, is_text, listed

if TYPE_CHECKING:
    from ...analysis.contract.column import Column
    from ...analysis.table.table import Table
    from ..session.themes import Look

TOP = 3
"""How many rows stand out."""

_SELECTED = Style(underline=True)

SMALL = 0.01
"""A share under which a row steps back."""


def numbered(table: Table) -> bool:
    """Whether rows get a number in the gutter: where they start with words, and have no number of their own."""
    shown = listed(table.columns)
    return bool(shown) and is_text(table.columns[shown[0]])


def gutter(table: Table) -> int:
    """The digits of the largest row number, 0 where rows are not numbered."""
    return max(2, len(str(table.total_rows))) if numbered(table) else 0


def start(table: Table) -> int:
    """The first cell after the mark and the row number."""
    digits = gutter(table)
    return 1 + (digits + 1 if digits else 0)


class Page:
    """The rows in sight as text. ``key`` says what it was made of; another key needs another page."""

    def __init__(
        self, key: object, table: Table, top: int, height: int, layout: Layout, width: int, look: Look
    ) -> None:
        self.key = key
        self.layout = layout
        self._table, self._top = table, top
        self._width = width
        self._look = look
        self._digits = gutter(table)
        self._emphasis = table.threshold(TOP)  # name of the column that matters, size of its third largest
        self._share = next((one.name for one in table.columns if one.role == "share" and not one.side), None)
        also = {self._emphasis[0]} if self._emphasis else set()
        shown = [placed.column.name for placed in layout.placed]
        names = [*shown, *sorted((also | ({self._share} if self._share else set())) - set(shown))]
        self._at = {name: number for number, name in enumerate(names)}
        self.values = table.window(top, top + height, names) if names else []
        self._texts: list[list[str] | None] = [None] * len(self.values)
        self._strips: dict[int, tuple[object, Strip]] = {}
        self._head: tuple[int | None, Strip] | None = None

    def header(self, table: Table, selected: int | None) -> list[Segment]:
        """The column headers; the sorted one has its arrow in the gap after it."""
        look = self._look
        out = RowSegments(look.base, self._width)
        if self._digits:
            out.put(1, f"{'#':>{self._digits}}", look.header)
        for number, placed in enumerate(self.layout.placed):
            column = placed.column
            style = look.header
            if column.side in ("a", "b"):
                colour = look.a if column.side == "a" else look.b
                style = look.header + Style(color=colour.color, bold=colour.bold)
            if column.name == table.sorted_by:
                style = look.header_sorted
            if placed.index == selected:
                style = style + _SELECTED
            if number == self.layout.pinned and self.layout.hidden_left:
                out.put(placed.x - 1, glyphs.MORE_LEFT, look.header)
            shown = text.cut(column.header, placed.width)
            right = not is_text(column) and column.unit not in GRAPHIC and not column.bar
            out.put(placed.x + (placed.width - cell_len(shown) if right else 0), shown, style)
            if column.name == table.sorted_by:
                out.put(out.x, glyphs.DOWN if table.descending else glyphs.UP, look.header_sorted)
        if self.layout.hidden_right and out.x < self._width:
            out.put(self._width - 1, glyphs.MORE_RIGHT, look.header)
        return out.segments()

    def strips(
        self, lines: range, cursor: int, style: Style, marks: set[int], needle: str, selected: int | None
    ) -> list[Strip]:
        """Those lines of the list, the header being line 0; the row at ``cursor`` of the table in that style.

        A row is the same strip as long as it looks the same: what is done to it later is then kept too.
        """
        table, made = self._table, []
        for y in lines:
            position = self._top + y - 1
            if y == 0:
                if self._head is None or self._head[0] != selected:
                    self._head = selected, Strip(self.header(table, selected), self._width)
                made.append(self._head[1])
            elif y > len(self.values):  # below the last row, or no column has room
                made.append(Strip([Segment(" " * self._width, self._look.base)], self._width))
            else:
                marked = bool(marks) and table.row_id(position) in marks
                key = style if position == cursor else None, marked, needle
                known = self._strips.get(y)
                if known is None or known[0] != key:
                    known = key, Strip(self.line(y - 1, position, *key), self._width)
                    self._strips[y] = known
                made.append(known[1])
        return made

    def line(self, index: int, position: int, cursor: Style | None, marked: bool, needle: str) -> list[Segment]:
        """The row at ``index`` of the page, which is at ``position`` of the table; ``cursor`` is its style there."""
        look, values = self._look, self.values[index]
        weight = self._weight(values)
        out = RowSegments(look.base, self._width)
        sign = glyphs.MARK if marked else glyphs.HERE if cursor else " "
        out.put(0, sign, look.mark if marked else cursor or look.gutter)
        if self._digits:
            out.put(1, f"{position + 1:>{self._digits}}", cursor or (weight if weight is look.dim else look.gutter))
        for placed, shown, value in zip(self.layout.placed, self._text(index), values, strict=False):
            column = placed.column
            style = cursor or weight
            if column.unit in GRAPHIC:
                out.put(placed.x, shown, look.spark)
                continue
            if column.bar and column.unit == "fraction" and not cells.missing(value):
                graph = placed.width - cells.BAR_NUMBER
                out.put(placed.x, shown[:graph], self._bar(column))
                out.put(placed.x + graph, shown[graph:], cursor or self._bar(column))
                continue
            if not cursor and cells.missing(value):
                style = look.missing
            elif not cursor and column.signed and weight is not look.dim:
                style = self._signed(value)
            out.put(placed.x, shown, style, cursor)
            if needle and is_text(column):
                out.mark(needle, look.match)
        return out.segments()

    def _text(self, index: int) -> list[str]:
        made = self._texts[index]
        if made is None:
            row = self.values[index]
            made = [
                cells.fit(self._table.shown_name(value, placed.width), placed.width)
                if placed.column.role == "name" and value is not None
                else cells.cell(value, placed.column, placed.width)
                for placed, value in zip(self.layout.placed, row, strict=False)
            ]
            self._texts[index] = made
        return made

    def _weight(self, values: tuple[Any, ...]) -> Style:
        if self._emphasis is not None:
            value = values[self._at[self._emphasis[0]]]
            if not cells.missing(value) and abs(value) >= self._emphasis[1]:
                return self._look.top
        share = values[self._at[self._share]] if self._share else None
        if share is not None and share < SMALL:
            return self._look.dim
        return self._look.base

    def _signed(self, value: float) -> Style:
        return self._look.up if value > 0 else self._look.down if value < 0 else self._look.base

    def _bar(self, column: Column) -> Style:
        if column.bar == "tensor":
            return self._look.bar_tensor
        return self._look.bar_dram if column.bar == "dram" else self._look.bar


class RowSegments:
    """Pieces of text put at cells from left to right; what lies between is blank."""

    def __init__(self, base: Style, width: int) -> None:
        self.x = 0
        self._base = base
        self._width = width
        self._pieces: list[Segment] = []
        self._texts: list[str] = []  # of one style, not yet a piece
        self._style: Style | None = None

    def put(self, x: int, shown: str, style: Style, gap: Style | None = None) -> None:
        """Text at a cell, the blanks before it in the style ``gap`` where given; nothing goes past the end."""
        if x > self.x:
            self._add(" " * (x - self.x), gap or self._base)
            self.x = x
        size = sanitiser.cells(shown)
        if self.x + size > self._width:
            shown = cells.fit(shown, max(0, self._width - self.x))
            size = self._width - self.x
        self._add(shown, style)
        self.x += size

    def _add(self, shown: str, style: Style) -> None:
        if style is self._style:
            self._texts.append(shown)
        else:
            self._close()
            self._texts, self._style = [shown], style

    def _close(self) -> None:
        if self._texts and self._style is not None:
            self._pieces.append(Segment("".join(self._texts), self._style))

    def mark(self, needle: str, style: Style) -> None:
        """Show where the last piece holds the text, without regard to case."""
        before = self._style
        assert before is not None
        shown = self._texts.pop()
        low, wanted = shown.lower(), needle.lower()
        done = 0
        while len(low) == len(shown) and (at := low.find(wanted, done)) >= 0:
            if at > done:
                self._add(shown[done:at], before)
            done = at + len(wanted)
            self._add(shown[at:done], style)
        if done < len(shown):
            self._add(shown[done:], before)

    def segments(self) -> list[Segment]:
        """The whole line, exactly as wide as it should be."""
        if self.x < self._width:
            self._add(" " * (self._width - self.x), self._base)
        self._close()
        self._style = None
        return self._pieces
