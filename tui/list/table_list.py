"""The list that shows every table: any number of rows, drawn line by line.

Only the rows on screen are read (``Table.window``) and formatted, and they are cached until another row, table or width
is needed, so that a key press costs the same with twenty rows and with five million. Columns determine their drawing;
nothing here depends on a view. Invariants: the cursor stays on its row through sorting and filtering, marks belong to
row identities, not positions, and every recorded string passes ``cells`` on its way to a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ..session import themes
from ..session.jobs import QueryRunner
from ..session.keys import bindings
from ..session.session import Choice
from ..terminal.painting import lines_or_sentence, report
from . import columns, frame, row_painter
from .wrapping import wrapped

if TYPE_CHECKING:
    from ...analysis.contract.column import Column
    from ...analysis.table.table import Table

FRAME = 3
"""Cells of the border beside the rows."""
LEAST_FRAMED = 16
"""Lines of the terminal from which a list has its complete border."""
BIG = 200_000
"""Rows from which sorting runs in a thread, so that keys stay responsive."""


class TableList(ScrollView, can_focus=True):
    """A table as a list with a cursor.

    ``show`` sets the table; ``cursor`` is a position in the current order, ``marks`` are row identities
    (``Table.row_id``). Sorting in the list posts ``Rearranged``.
    """

    DEFAULT_CSS = "TableList { height: 1fr; overflow: hidden; }"

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class Highlighted(Message):
        """The cursor moved, or its row's mark changed; ``position`` is in the current order."""

        def __init__(self, table_list: TableList, position: int) -> None:
            super().__init__()
            self.table_list = table_list
            self.position = position

    class Opened(Highlighted):
        """Open the details of a row: Enter, or a double click."""

    class Rearranged(Message):
        """The user sorted the list; ``before`` is the table shown until then."""

        def __init__(self, table_list: TableList, before: Table, table: Table) -> None:
            super().__init__()
            self.table_list = table_list
            self.before = before
            self.table = table

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.table: Table | None = None
        self.cursor = 0
        self.marks: set[int] = set()
        self.needle = ""
        self._top = 0
        self._column: int | None = None  # selected column, an index of table.columns
        self._first: int | None = None  # first column after the pinned ones; None: not scrolled sideways
        self._home: int | None = None  # identity of the row the user chose, to return to when a filter is removed
        self._searched_from: int | None = None
        self._page: row_painter.Page | None = None
        self.runner, self._preparing = QueryRunner(self.app), QueryRunner(self.app)
        self._frame = frame.Frame()
        self._choices: dict[str, Choice] = {}
        self.empty = ""

    def show(self, table: Table | None) -> None:
        """Show a table. Cursor and marks are kept if it has the same rows as the one before, else reset."""
        before, self.table = self.table, table
        self.runner.drop()
        same = before is not None and table is not None and before.same_rows(table)
        if table is None or not same:
            self.marks.clear()
            self.cursor = self._top = 0
            self._home = self._column = self._first = self._searched_from = None
        else:
            offset = min(self.cursor - self._top, max(0, self._rows() - 1))
            position = table.position(self._home) if self._home is not None else None
            self.cursor = max(0, min(len(table) - 1, self.cursor)) if position is None else position
            self._top = max(0, self.cursor - offset)
        self._repaint()
        if table is not None and not same and table.rows.on_disk:
            # after the paint: reads the remaining rows, from which emphasis and widths follow
            self.call_after_refresh(self._preparing.ask, table.prepare, lambda _: self._repaint())
        if table is not None and len(table):
            self.post_message(self.Highlighted(self, self.cursor))

    def choose(self, choices: Mapping[str, Choice]) -> None:
        """Set the user's choices by column name; other columns are shown if the width allows."""
        self._choices = dict(choices)
        self._first = None
        self._repaint()

    @property
    def lines(self) -> int:
        """Lines of all its rows at the width of the screen, with the sentences wrapped that would be cut."""
        width = self.app.size.width - FRAME
        wraps = None if self.table is None else wrapped(self.table, self._layout(self._first, width))
        return len(self.table or ()) if wraps is None else len(wraps.spread)

    @property
    def in_sight(self) -> set[str]:
        """The names of the visible columns."""
        return set() if self.table is None else {one.column.name for one in self._layout(self._first).placed}

    @property
    def listed(self) -> Sequence[Column]:
        """The table's columns with the user's choices applied."""
        assert self.table is not None
        return columns.chosen(self.table.columns, self._choices) if self._choices else self.table.columns

    def caption(self, border: frame.Frame) -> None:
        """Set the texts of the border."""
        if border != self._frame:
            self._frame = border
            self.refresh(*(Region(0, y, self.size.width, 1) for y in (0, self.size.height - 1)))

    @property
    def selected_column(self) -> Column | None:
        """The column selected with ← and →."""
        return None if self.table is None or self._column is None else self.table.columns[self._column]

    def row(self, position: int) -> tuple[Any, ...] | None:
        """The raw values of the row at that position; None if there is none."""
        if self.table is None or not 0 <= position < len(self.table):
            return None
        return self.table.window(position, position + 1)[0]

    def search(self, text: str) -> bool:
        """Go to the first match at or after the row where the search began; True if any. '' ends the search."""
        if self._searched_from is None:
            self._searched_from = self.cursor
        self.needle = text
        self._repaint()
        if not text:
            self._searched_from = None
            return False
        return self._find(self._searched_from, backwards=False)

    def sort_by(self, column: str, descending: bool | None = None) -> None:
        """Sort by a column; by default numbers largest first, text in alphabetical order."""
        if self.table is None:
            return
        if descending is None:
            descending = not columns.is_text(next(c for c in self.table.columns if c.name == column))
        self._change(lambda table: table.sort(column, descending))

    def go(self, position: int) -> None:
        """Move the cursor to that position and scroll it into sight."""
        if self.table is None or not len(self.table):
            return
        old, self.cursor = self.cursor, max(0, min(len(self.table) - 1, position))
        self._home = self.table.row_id(self.cursor)
        if self._top != self._clamped(self._top):
            self._repaint()
        elif old != self.cursor:
            self._refresh_rows(old, self.cursor)
        if old != self.cursor:
            self.post_message(self.Highlighted(self, self.cursor))

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        self._searched_from = None
        self.go(self.cursor + step)

    def action_page(self, pages: float) -> None:
        """Move by pages."""
        step = max(1, int(abs(pages) * self._rows())) * (1 if pages > 0 else -1)
        if self.table is not None:
            self._top = max(0, min(len(self.table) - self._rows(), self._top + step))
            self._page = None
            self.refresh()
        self.action_move(step)

    def action_end(self, side: int) -> None:
        """Go to the first or the last row."""
        self.action_move(len(self.table or ()) * side)

    def action_column(self, step: int) -> None:
        """Select the column to the left or right, scrolling sideways if necessary."""
        if self.table is None:
            return
        order = columns.listed(self.listed)
        at = order.index(self._column) if self._column in order else -1 if step > 0 else len(order)
        self._select(order[max(0, min(len(order) - 1, at + step))])

    def action_sort_next(self, step: int) -> None:
        """Sort by the column to the left or right of the selected or sorted one."""
        if self.table is None:
            return
        if self._column is None:
            names = [column.name for column in self.table.columns]
            self._column = names.index(self.table.sorted_by) if self.table.sorted_by in names else None
        self.action_column(step)
        if self.selected_column is not None:
            self.sort_by(self.selected_column.name)

    def action_reverse(self) -> None:
        """Sort by the selected column, or reverse the order if it is sorted by that already."""
        if self.table is None:
            return
        chosen = self.selected_column.name if self.selected_column else self.table.sorted_by or self.table.main
        if chosen is None:
            return
        self.sort_by(chosen, not self.table.descending if chosen == self.table.sorted_by else None)

    def action_mark(self) -> None:
        """Toggle the mark of the row under the cursor and go to the next row."""
        if self.table is None or not len(self.table):
            return
        self.marks ^= {self.table.row_id(self.cursor)}
        self._refresh_rows(self.cursor)
        if self.cursor == len(self.table) - 1:
            self.post_message(self.Highlighted(self, self.cursor))  # on the last row the cursor does not move
        self.action_move(1)

    def add_mark(self, row: int) -> None:
        """Mark a row by its identity."""
        self.marks.add(row)
        self._refresh_rows(self.cursor)

    def action_search_next(self, step: int) -> None:
        """Go to the next or previous match of the search."""
        if self.needle:
            self._searched_from = None
            self._find(self.cursor + step, backwards=step < 0)

    def action_open(self) -> None:
        """Open the details of the row under the cursor, or of the first that comes."""
        if self.table is None or len(self.table):
            self.post_message(self.Opened(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Click: move the cursor there; double click: open the row; on a header: sort by it."""
        if self.table is None:
            return
        if event.y == 1:
            placed = self._lines().layout.at(event.x - self._inset)
            if placed is not None:
                self._column = placed.index
                same = placed.column.name == self.table.sorted_by
                self.sort_by(placed.column.name, not self.table.descending if same else None)
        elif event.y > 1 and self._top <= (position := self._top + self._lines().row_at(event.y - 2)[0]) < min(
                len(self.table), self._top + self._rows()):
            self.action_move(position - self.cursor)
            if event.chain == 2:
                self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll the rows; the cursor moves only to stay on the screen."""
        event.stop()
        self._wheel(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll the rows; the cursor moves only to stay on the screen."""
        event.stop()
        self._wheel(-3)

    def _wheel(self, step: int) -> None:
        if self.table is None:
            return
        height = self._rows()
        self._top = max(0, min(len(self.table) - height, self._top + step))
        self._repaint()
        self.go(max(self._top, min(self._top + height - 1, self.cursor)))

    @lines_or_sentence
    def render_lines(self, crop: Region) -> list[Strip]:
        """The visible lines, bypassing Textual's cache: the page has its own, and the border is drawn here."""
        filters, background = self.get_line_filters(), self.background_colors[1]
        strips = self._drawn(crop.line_range)
        for each in filters:
            strips = [strip.apply_filter(each, background) for strip in strips]
        return [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """The border on line 0, the header on line 1, rows below it."""
        return self._drawn(range(y, y + 1))[0]

    @property
    def _inset(self) -> int:
        """Border cells on each side: 1, or 0 where there is little room and only the upper border is drawn."""
        return int(self.size.height >= 4 and self.app.size.height >= LEAST_FRAMED)

    def _drawn(self, lines: range) -> list[Strip]:
        look, (width, height) = themes.look(self.app.theme), self.size
        if self.table is None:
            return [Strip.blank(width, look.base) for _ in lines]
        last = height - 1 if self._inset else height
        style = look.cursor if self.has_focus else look.cursor_blurred
        inner = range(max(1, lines.start) - 1, max(1, min(lines.stop, last)) - 1)
        strips = self._lines().strips(inner, self.cursor, style, self.marks, self.needle, self._column)
        if self._lines().failures:
            report(self, self._lines().failures.pop())
        if lines.start == 0:
            upper = frame.upper(self._frame if self._inset else self._frame.on_one_line, width, self.has_focus)
            strips.insert(0, frame.strip(upper, look))
        if lines.stop > last:
            cut = self._lines().layout.hidden_right
            below = replace(self._frame, legend=frame.dim("# more columns")) if cut else self._frame
            strips += [frame.strip(frame.lower(below, width, self.has_focus), look)] * (lines.stop - last)
        return strips

    def _lines(self) -> row_painter.Page:
        assert self.table is not None
        self._top = self._clamped(self._top)  # the list may be drawn at a new height before ``on_resize``
        inset, height, look, focus = self._inset, self._rows(), themes.look(self.app.theme), self.has_focus
        width = self.size.width - FRAME * inset
        key = (self._top, height, width, id(self.table), id(look), self._first, focus)
        if self._page is None or self._page.key != key:
            line = look.focus if focus else look.frame
            sides = (Segment("│", line), Segment(" │", line)) if inset else ()
            self._page = row_painter.Page(
                key, self.table, self._top, height, self._layout(self._first), width, look, sides, self.empty)
        return self._page

    def _layout(self, first: int | None, width: int | None = None) -> columns.Layout:
        assert self.table is not None
        table = self.table
        return columns.arrange(
            self.listed, self.size.width - FRAME * self._inset if width is None else width,
            row_painter.start(table), first,
            lambda column: table.widest(column.name),
        )

    def _rows(self) -> int:
        """Lines for rows; a hidden list, which has no height, counts all rows so that nothing scrolls."""
        return max(1, self.size.height - 2 - self._inset) if self.size.height else len(self.table or ()) + 1

    def _clamped(self, top: int) -> int:
        height = self._rows()
        top = max(0, min(top, len(self.table or ()) - height) if self.size.height else top)
        return max(self.cursor - height + 1, min(top, self.cursor))

    def _repaint(self) -> None:
        self._page = None
        self._top = self._clamped(self._top) if self.table is not None else 0
        self.refresh()

    def _refresh_rows(self, *positions: int) -> None:
        lines = (self._lines().line_of(position - self._top) for position in positions)
        self.refresh(*(Region(0, line + 2, self.size.width, 1) for line in lines))

    def on_resize(self) -> None:
        """Keep the cursor in sight; repaint unless the list has already been drawn at the new size."""
        drawn = self.table is not None and self._page is not None and self._page is self._lines()
        if not drawn or self._top != self._clamped(self._top):
            self._repaint()

    def on_focus(self) -> None:
        """Draw again: border and cursor show whether the list has the focus."""
        self.refresh()

    on_blur = on_focus

    def _select(self, index: int) -> None:
        assert self.table is not None
        self._column = index
        self._first = columns.scrolled(self.listed, index, self._first, self._layout)
        self._repaint()

    def _find(self, start: int, backwards: bool) -> bool:
        if self.table is None or not len(self.table):
            return False
        end = len(self.table) - 1 if backwards else 0
        places = (self.table.find(self.needle, at, backwards) for at in (start, end) if 0 <= at < len(self.table))
        position = next((place for place in places if place is not None), None)
        if position is None:
            return False
        self.go(position)
        return True

    def _change(self, work: Callable[[Table], Table]) -> None:
        """Show ``work`` applied to the table; for big tables it runs in a thread and stale answers are dropped."""
        before = self.table
        if before is None:
            return
        if self._home is None and len(before):
            self._home = before.row_id(self.cursor)
        if before.rows.height < BIG:
            self._changed(before, work(before))
            return

        def job() -> Table:
            after = work(before)
            after.threshold(row_painter.TOP)
            return after

        self.runner.ask(job, lambda after: self._changed(before, after))

    def _changed(self, before: Table, after: Table | Exception) -> None:
        if isinstance(after, Exception):
            self.app.bell()
            return
        self.show(after)
        self.post_message(self.Rearranged(self, before, after))
