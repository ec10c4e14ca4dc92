"""A page of rows → segments: the drawing of the list between two scrolls.

Values are formatted once per page; only the cursor's mark and the row's name are highlighted, so that moving the cursor
sends few bytes. The three largest values of the main column are emphasised and rows under 1% of the total are dimmed,
to draw the eye to where the time is. The row of an activity starts with the letter of its kernel family, and its bar
has the family's colour. Differences are coloured as better or worse only for times that changed by at least ``SAME``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ...analysis.core import text, units
from ...analysis.kernels.family import LETTERS, WITH_FAMILY, family, family_column
from ..terminal import sanitiser
from . import cells, glyphs
from .columns import GRAPHIC, Layout, Placed, is_text, listed
from .wrapping import wrapped

if TYPE_CHECKING:
    from ...analysis.contract.column import Column
    from ...analysis.table.table import Table
    from ..session.themes import Look

TOP = 3
"""Rows that are emphasised."""

_SELECTED = Style(underline=True)

SMALL = 0.01
"""Rows below this share are dimmed."""
SAME = 0.02
"""Changes under this share of A's value are not coloured."""
_GROUPS = {"cause": ("✗", "bad"), "unchanged": ("=", "dim")}
"""Kinds of rows that head a group, with their mark and role."""
_UNDECIDED = frozenset(("~", "too few cycles"))


def lettered(table: Table) -> bool:
    """Whether the rows are activities, which show the letter of their family."""
    return family_column(table.columns) is not None


def start(table: Table) -> int:
    """Cells of the gutter: mark and family letter."""
    shown = listed(table.columns)
    return 3 if lettered(table) else 2 if shown and is_text(table.columns[shown[0]]) else 1


class Page:
    """The visible rows as text. ``key`` is all the page depends on; another key needs a new page."""

    def __init__(
        self, key: object, table: Table, top: int, height: int, layout: Layout, width: int, look: Look,
        sides: tuple[Segment, ...] = (), empty: str = "",
    ) -> None:
        """``sides``: border at both ends of every row, outside ``width``; ``empty``: text shown without rows."""
        self._wraps = wrapped(table, layout, height)
        self._empty = cells.fit(f"  {empty}", width)
        self.key = key
        self.layout = layout
        self._table, self._top = table, top
        self._width = width
        self._look = look
        self._left, self._right = sides[:1], sides[1:]
        self._start = start(table)
        self._lettered = lettered(table)
        texts = [at for at, one in enumerate(layout.placed) if is_text(one.column) and not one.column.side]
        named = [at for at in texts if layout.placed[at].column.role in ("name", "tree")]
        self._named = next(iter([*named, *(at for at in texts if layout.placed[at].column.pinned), *texts]), 0)
        self._emphasis = table.threshold(TOP)  # name of the main column, its third largest value
        self._share = next((one.name for one in table.columns if one.role == "share" and not one.side), None)
        also = {self._emphasis[0]} if self._emphasis else set()
        columns = {column.name for column in table.columns}
        also |= {"kind"} if self._lettered else set()
        also |= {"verdict"} & columns
        also |= {one.column.under for one in layout.placed} & columns
        sided = [one.column.name for one in layout.placed if one.column.side == "delta"]
        also |= {before for name in sided if (before := f"{name.removesuffix('_delta')}_a") in columns}
        shown = [placed.column.name for placed in layout.placed]
        also |= {one.column.estimate for one in layout.placed} & columns
        names = [*shown, *sorted((also | ({self._share} if self._share else set())) - set(shown))]
        self._at = {name: number for number, name in enumerate(names)}
        self.values = table.window(top, top + height, names) if layout.placed else []
        self._texts: list[list[str] | None] = [None] * len(self.values)
        self._strips: dict[int, tuple[object, Strip]] = {}
        self.failures: list[Exception] = []
        self._head: tuple[int | None, Strip] | None = None
        bars = [one.column.name for one in layout.placed if one.column.bar in ("share", "lost")]
        wholes = [one.column.under for one in layout.placed if one.column.under in columns]
        most = max((table.most(name) or 0.0 for name in [*bars, *wholes]), default=0.0)  # one scale for both runs
        self._most = dict.fromkeys(bars, most or 1.0)

    def header(self, table: Table, selected: int | None) -> list[Segment]:
        """The column headers; the sort arrow is in the gap after its column."""
        look = self._look
        out = RowSegments(look.base, self._width)
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
            right = not is_text(column) and column.unit not in GRAPHIC and not cells.is_bar(column, placed.width)
            out.put(placed.x + (placed.width - cell_len(shown) if right else 0), shown, style)
            if column.name == table.sorted_by:
                out.put(out.x, glyphs.DOWN if table.descending else glyphs.UP, look.header_sorted)
        if self.layout.hidden_right and out.x < self._width:
            out.put(self._width - 1, glyphs.MORE_RIGHT, look.header)
        return out.segments()

    def strips(
        self, lines: range, cursor: int, style: Style, marks: set[int], needle: str, selected: int | None
    ) -> list[Strip]:
        """Those lines of the list (line 0 is the header), with the row at position ``cursor`` in that style.

        A row that looks the same returns the same Strip object, so that what is cached on it later stays valid.
        """
        table, result = self._table, []
        for y in lines:
            index, part = self.row_at(y - 1)
            position = self._top + index
            if y == 0:
                if self._head is None or self._head[0] != selected:
                    self._head = selected, self._strip(self.header(table, selected))
                result.append(self._head[1])
            elif part:
                result.append(self._strip(self._continued(index, part)))
            elif index >= len(self.values):  # below the last row, or no column fits
                message = self._empty if y == 2 and not len(table) else " " * self._width
                result.append(self._strip([Segment(message, self._look.dim)]))
            else:
                marked = bool(marks) and table.row_id(position) in marks
                key = style if position == cursor else None, marked, needle
                cached = self._strips.get(y)
                if cached is None or cached[0] != key:
                    cached = key, self._strip(self.line(index, position, *key))
                    self._strips[y] = cached
                result.append(cached[1])
        return result

    def row_at(self, line: int) -> tuple[int, int]:
        """Row of the page at that line below the header, and which of the row's lines it is."""
        if self._wraps is None:
            return line, 0
        spread = self._wraps.spread
        return spread[line] if 0 <= line < len(spread) else (line + len(self.values), 0)

    def line_of(self, index: int) -> int:
        """First line, below the header, of a row of the page."""
        return index if self._wraps is None else self._wraps.first(index)

    def _continued(self, index: int, part: int) -> list[Segment]:
        """A continuation line of a row, which contains only the wrapped sentence."""
        assert self._wraps is not None
        out = RowSegments(self._look.base, self._width)
        placed = next(one for one in self.layout.placed if one.column.name == self._wraps.column)
        out.put(placed.x, cells.fit(self._wraps.texts[index][part], placed.width), self._weight(self.values[index]))
        return out.segments()

    def _strip(self, line: list[Segment]) -> Strip:
        return Strip([*self._left, *line, *self._right])

    def line(self, index: int, position: int, cursor: Style | None, marked: bool, needle: str) -> list[Segment]:
        """The row at ``index`` of the page and ``position`` of the table; ``cursor`` is its style under the cursor."""
        look, values = self._look, self.values[index]
        weight = self._weight(values)
        family = self._family(values)
        out = RowSegments(look.base, self._width)
        out.put(0, glyphs.MARK if marked else glyphs.HERE if cursor else " ", look.mark)
        kind = values[self._at["kind"]] if self._lettered else None
        if kind in _GROUPS:
            self._group(out, index, position, kind, cursor)
        elif family:
            out.put(1, LETTERS[family], look.role(family))
        for at, (placed, shown, value) in enumerate(zip(self.layout.placed, self._text(index), values, strict=False)):
            column = placed.column
            if placed.x < out.x or (kind in _GROUPS and not column.signed and not column.bar):
                continue
            style = (cursor if at == self._named else None) or weight
            value, mark = self._value_and_mark(column, value, values)
            if column.unit in GRAPHIC:
                out.put(placed.x, shown, look.spark)
                continue
            if cells.is_bar(column, placed.width) and not cells.missing(value):
                graph = placed.width - cells.bar_number(column) - len(mark)
                colour = look.role(family) if family and column.bar == "share" else look.bar
                colour = look.warn if mark == "!" else look.dim if mark else colour
                whole = values[self._at[column.under]] if column.under in self._at else None
                drawn = shown[:graph] if whole is None else shown[:graph].rstrip()
                out.put(placed.x, drawn, look.bad if column.bar == "lost" else colour)
                if whole is not None:
                    rest = round(graph * whole / self._most[column.name])
                    out.put(placed.x + len(drawn), glyphs.REST * (rest - len(drawn)), look.faint)
                out.put(placed.x + graph, shown[graph:], look.warn if mark == "!" else weight)
                continue
            if at != self._named and cells.missing(value):
                style = look.missing
            elif column.signed and style is not look.dim:
                style = self._signed(column, value, values) or style
            out.put(placed.x, shown, style)
            if needle and is_text(column):
                low = needle.lower()
                cut_away = low not in shown.lower() and low in str(value).lower()
                out.mark("…" if cut_away else needle, look.match)
        return out.segments()

    def _group(self, out: RowSegments, index: int, position: int, kind: str, cursor: Style | None) -> None:
        """The head of a group: fold sign, mark and title, across the columns in which it has no value."""
        sign, role = _GROUPS[kind]
        after = self._table.window(position + 1, position + 2, ["kind"])
        is_open = bool(after) and after[0][0] not in _GROUPS and self._table.row_id(position + 1) == (
            self._table.row_id(position) + 1)
        stop = next((placed.x for placed in self.layout.placed if placed.column.signed), self._width)
        named = self.layout.placed[self._named]
        text_ = text.cut(text.display(self.values[index][self._named]), stop - 5)
        out.put(1, f"{glyphs.OPEN if is_open else glyphs.CLOSED} ", self._look.mark)
        out.put(named.x, f"{sign} {text_}", cursor or self._look.role(role))

    def _family(self, values: tuple[Any, ...]) -> str:
        """The kernel family of an activity's row; '' for other rows."""
        if not self._lettered or (kind := values[self._at["kind"]]) not in WITH_FAMILY:
            return ""
        name = next((value for placed, value in zip(self.layout.placed, values, strict=False)
                     if placed.column.role == "name"), None)
        return family(name, kind)

    def _text(self, index: int) -> list[str]:
        result = self._texts[index]
        if result is None:
            row = self.values[index]
            result = [
                " " * placed.width if placed.column.heading and index and value == self.values[index - 1][at] else
                cells.fit(self._table.shown_name(value, placed.width), placed.width)
                if placed.column.role == "name" and value is not None
                else self._cell(placed, value, row)
                for at, (placed, value) in enumerate(zip(self.layout.placed, row, strict=False))
            ]
            self._texts[index] = result
        return result

    def _cell(self, placed: Placed, value: Any, row: tuple[Any, ...]) -> str:
        if self._wraps is not None and placed.column.name == self._wraps.column:
            return cells.fit(self._wraps.texts[self.values.index(row)][0], placed.width)
        try:
            value, mark = self._value_and_mark(placed.column, value, row)
            return cells.cell(value, placed.column, placed.width, self._most.get(placed.column.name) or 1.0, mark)
        except Exception as error:
            self.failures = [error]
            return cells.fit(units.MISSING, placed.width, right=not is_text(placed.column))

    def _value_and_mark(self, column: Column, value: Any, row: tuple[Any, ...]) -> tuple[Any, str]:
        """The value, or the estimate of one that was not recorded, and its mark."""
        at = self._at.get(column.estimate) if cells.missing(value) and column.estimate else None
        value = value if at is None or row[at] is None else row[at]
        return value, column.mark(value, at is not None)

    def _weight(self, values: tuple[Any, ...]) -> Style:
        if self._emphasis is not None:
            value = values[self._at[self._emphasis[0]]]
            if not cells.missing(value) and abs(value) >= self._emphasis[1]:
                return self._look.top
        share = values[self._at[self._share]] if self._share else None
        if share is not None and share < SMALL:
            return self._look.dim
        return self._look.base

    def _signed(self, column: Column, value: float, values: tuple[Any, ...]) -> Style | None:
        """Style of a better or worse difference (more time is worse); None if undecided or almost unchanged."""
        verdict = values[self._at["verdict"]] if "verdict" in self._at else None
        if not column.lasting or not value or verdict in _UNDECIDED:
            return None
        before = self._at.get(f"{column.name.removesuffix('_delta')}_a")
        if before is not None and abs(value) < SAME * abs(values[before] or 0):
            return None
        return self._look.bad if value > 0 else self._look.good


class RowSegments:
    """Collects pieces of text at cells from left to right, with blanks in between."""

    def __init__(self, base: Style, width: int) -> None:
        self.x = 0
        self._base = base
        self._width = width
        self._pieces: list[Segment] = []
        self._texts: list[str] = []  # of the current style, not yet a segment
        self._style: Style | None = None

    def put(self, x: int, shown: str, style: Style, gap: Style | None = None) -> None:
        """Put text at a cell, cut at the end of the line; ``gap`` is the style of the blanks before it."""
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
        """Highlight the needle in the last piece, ignoring case; ``…`` stands for a match that was cut away."""
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
        """The whole line, exactly ``width`` cells."""
        if self.x < self._width:
            self._add(" " * (self._width - self.x), self._base)
        self._close()
        self._style = None
        return self._pieces
