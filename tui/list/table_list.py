"""The list every table is shown in: any number of rows, drawn line by line.

Only the rows on screen are ever read (``Table.window``) and turned into text, and they are kept until another row,
another table or another width is asked for, so that a key costs the same on twenty rows and on five million. Columns
say how they are drawn; nothing here knows a view. What must stay true: the cursor stays on its row through sorting and
filtering, marks belong to rows and not to places, and every recorded string passes ``cells`` on its way to a segment.
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
from . import columns, frame, row_painter
from .wrapping import wrapped

if TYPE_CHECKING:
    from ...analysis.contract.column import Column
    from ...analysis.table.table import Table

FRAME = 3
"""Cells of the border beside the rows."""
LEAST_FRAMED = 16
"""Lines of a terminal from which a list has all of its border."""
BIG = 200_000
"""Rows from which sorting and filtering happen in a thread, so that keys still answer."""


class TableList(ScrollView, can_focus=True):
    """A table as a list with a cursor.

    ``show`` puts a table in; ``cursor`` is the position of the cursor in the order shown, ``marks`` are row identities
    (``Table.row_id``). Sorting and filtering from here post ``Rearranged``.
    """

    DEFAULT_CSS = "TableList { height: 1fr; overflow: hidden; }"

    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class Highlighted(Message):
        """The cursor is on another row; ``position`` counts in the order shown."""

        def __init__(self, table_list: TableList, position: int) -> None:
            super().__init__()
            self.table_list = table_list
            self.position = position

    class Opened(Highlighted):
        """Details of a row are wanted: Enter, or a second click."""

    class Rearranged(Message):
        """The list shows the same rows in another order, or fewer or more of them; ``before`` is what it showed."""

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
        self._first: int | None = None  # first column after the pinned ones, None before any sideways scroll
        self._home: int | None = None  # row the user chose, to come back to when a filter is lifted
        self._searched_from: int | None = None
        self._page: row_painter.Page | None = None
        self.runner, self._preparing = QueryRunner(self.app), QueryRunner(self.app)
        self._frame = frame.Frame()
        self._choices: dict[str, Choice] = {}
        self.empty = ""

    def show(self, table: Table | None) -> None:
        """Show a table. The cursor and the marks stay where it has the same rows as the one before, else start anew."""
        before, self.table = self.table, table
        self.runner.drop()
        same = before is not None and table is not None and before.same_rows(table)
        if table is None or not same:
            self.marks.clear()
            self.cursor = self._top = 0
            self._home = self._column = self._first = self._searched_from = None
        else:
            offset = min(self.cursor - self._top, max(0, self._rows() - 1))
            found = table.position(self._home) if self._home is not None else None
            self.cursor = max(0, min(len(table) - 1, self.cursor)) if found is None else found
            self._top = max(0, self.cursor - offset)
        self._repaint()
        if table is not None and not same and table.rows.on_disk:
            # after the paint: the rest is read behind the rows shown; then emphasis and widths are known
            self.call_after_refresh(self._preparing.ask, table.prepare, lambda _: self._repaint())
        if table is not None and len(table):
            self.post_message(self.Highlighted(self, self.cursor))

    def choose(self, choices: Mapping[str, Choice]) -> None:
        """Show, hide and widen columns by their names; what is not named goes by the width there is."""
        self._choices = dict(choices)
        self._first = None
        self._repaint()

    @property
    def lines(self) -> int:
        """Lines that all its rows take as wide as the screen, sentences wrapped that would be cut."""
        width = self.app.size.width - FRAME
        wraps = None if self.table is None else wrapped(self.table, self._layout(self._first, width))
        return len(self.table or ()) if wraps is None else len(wraps.spread)

    @property
    def in_sight(self) -> set[str]:
        """The names of the columns in sight."""
        return set() if self.table is None else {one.column.name for one in self._layout(self._first).placed}

    @property
    def listed(self) -> Sequence[Column]:
        """The columns of the table as the user wants them."""
        assert self.table is not None
        return columns.chosen(self.table.columns, self._choices) if self._choices else self.table.columns

    def caption(self, said: frame.Frame) -> None:
        """What stands in the border."""
        if said != self._frame:
            self._frame = said
            self.refresh(*(Region(0, y, self.size.width, 1) for y in (0, self.size.height - 1)))

    @property
    def selected_column(self) -> Column | None:
        """The column that ← and → stand on."""
        return None if self.table is None or self._column is None else self.table.columns[self._column]

    def row(self, position: int) -> tuple[Any, ...] | None:
        """The raw values of the row at that position; None where there is none."""
        if self.table is None or not 0 <= position < len(self.table):
            return None
        return self.table.window(position, position + 1)[0]

    def search(self, text: str) -> bool:
        """Go to the first row at or after where the search began that holds the text; '' ends it. Whether one does."""
        if self._searched_from is None:
            self._searched_from = self.cursor
        self.needle = text
        self._repaint()
        if not text:
            self._searched_from = None
            return False
        return self._find(self._searched_from, backwards=False)

    def sort_by(self, column: str, descending: bool | None = None) -> None:
        """Sort by a column; the largest numbers or the first letters come first unless said otherwise."""
        if self.table is None:
            return
        if descending is None:
            descending = not columns.is_text(next(c for c in self.table.columns if c.name == column))
        self._change(lambda table: table.sort(column, descending))

    def go(self, position: int) -> None:
        """Put the cursor on the row at that position and keep it in sight."""
        if self.table is None or not len(self.table):
            return
        old, self.cursor = self.cursor, max(0, min(len(self.table) - 1, position))
        self._home = self.table.row_id(self.cursor)
        top = self._clamped(self._top)
        if top != self._top:
            self._top = top
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
        """Move by pages; what was the last row in sight becomes the first."""
        step = max(1, int(abs(pages) * self._rows()))
        step = step if pages > 0 else -step
        if self.table is not None:
            self._top = max(0, min(len(self.table) - self._rows(), self._top + step))
            self._page = None
            self.refresh()
        self.action_move(step)

    def action_end(self, side: int) -> None:
        """Go to the first or the last row."""
        self.action_move(len(self.table or ()) * side)

    def action_column(self, step: int) -> None:
        """Select the column to the left or right, scrolling sideways where it is out of sight."""
        if self.table is None:
            return
        order = columns.listed(self.listed)
        at = order.index(self._column) if self._column in order else -1 if step > 0 else len(order)
        self._select(order[max(0, min(len(order) - 1, at + step))])

    def action_sort_next(self, step: int) -> None:
        """Sort by the next column to the left or right of the one selected or sorted by."""
        if self.table is None:
            return
        if self._column is None:
            names = [column.name for column in self.table.columns]
            self._column = names.index(self.table.sorted_by) if self.table.sorted_by in names else None
        self.action_column(step)
        if self.selected_column is not None:
            self.sort_by(self.selected_column.name)

    def action_reverse(self) -> None:
        """Sort by the selected column, or turn the order round where it is sorted by it already."""
        if self.table is None:
            return
        chosen = self.selected_column.name if self.selected_column else self.table.sorted_by or self.table.main
        if chosen is None:
            return
        self.sort_by(chosen, not self.table.descending if chosen == self.table.sorted_by else None)

    def action_mark(self) -> None:
        """Mark the row under the cursor, or take the mark off, and go on to the next."""
        if self.table is None or not len(self.table):
            return
        self.marks ^= {self.table.row_id(self.cursor)}
        self._refresh_rows(self.cursor)
        if self.cursor == len(self.table) - 1:
            self.post_message(self.Highlighted(self, self.cursor))  # to the last row there is nothing further
        self.action_move(1)

    def add_mark(self, row: int) -> None:
        """Mark a row by its identity."""
        self.marks.add(row)
        self._refresh_rows(self.cursor)

    def action_search_next(self, step: int) -> None:
        """Go to the next or previous row that holds the text searched for."""
        if self.needle:
            self._searched_from = None
            self._find(self.cursor + step, backwards=step < 0)

    def action_open(self) -> None:
        """Ask for the details of the row under the cursor."""
        if self.table is not None and len(self.table):
            self.post_message(self.Opened(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor there, a second one opens the row; on the header it sorts."""
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
        """The wheel moves the rows, and the cursor only where it would leave the screen."""
        event.stop()
        self._wheel(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel moves the rows, and the cursor only where it would leave the screen."""
        event.stop()
        self._wheel(-3)

    def _wheel(self, step: int) -> None:
        if self.table is None:
            return
        height = self._rows()
        self._top = max(0, min(len(self.table) - height, self._top + step))
        self._repaint()
        self.go(max(self._top, min(self._top + height - 1, self.cursor)))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in sight, past Textual's cache of them: the page keeps its own, and the border is drawn here."""
        filters, background = self.get_line_filters(), self.background_colors[1]
        strips = self._drawn(crop.line_range)
        for each in filters:
            strips = [strip.apply_filter(each, background) for strip in strips]
        whole = crop.column_span == (0, self.size.width)
        return strips if whole else [strip.crop(*crop.column_span) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """The border on line 0, the header on line 1, rows below it."""
        return self._drawn(range(y, y + 1))[0]

    @property
    def _inset(self) -> int:
        """Cells of the border at each side; where there is little room, only its upper line is drawn."""
        return int(self.size.height >= 4 and self.app.size.height >= LEAST_FRAMED)

    def _drawn(self, lines: range) -> list[Strip]:
        look, (width, height) = themes.look(self.app.theme), self.size
        if self.table is None:
            return [Strip.blank(width, look.base) for _ in lines]
        last = height - 1 if self._inset else height
        style = look.cursor if self.has_focus else look.cursor_blurred
        inner = range(max(1, lines.start) - 1, max(1, min(lines.stop, last)) - 1)
        strips = self._lines().strips(inner, self.cursor, style, self.marks, self.needle, self._column)
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
        inset, height, look = self._inset, self._rows(), themes.look(self.app.theme)
        width, focus = self.size.width - FRAME * inset, self.has_focus
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
        """Lines for rows; hidden, it is as tall as anybody needs until it comes back."""
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
        """Keep the cursor in sight; where the list was drawn in its new size before it heard of it, that is done."""
        drawn = self.table is not None and self._page is not None and self._page is self._lines()
        if not drawn or self._top != self._clamped(self._top):
            self._repaint()

    def on_focus(self) -> None:
        """The border and the cursor show whether keys go here."""
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
        found = self.table.find(self.needle, start, backwards) if 0 <= start < len(self.table) else None
        if found is None:
            found = self.table.find(self.needle, len(self.table) - 1 if backwards else 0, backwards)
        if found is None:
            return False
        self.go(found)
        return True

    def _change(self, work: Callable[[Table], Table]) -> None:
        """Show what the work makes of the table; for big ones it runs in a thread and late answers are ignored."""
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
