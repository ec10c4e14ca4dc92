"""Side panel: details of the row under the cursor, beside the list or below it, where the terminal has room.

The details follow the cursor without delaying it: a key press only notes the position, and once the cursor has rested
for ``REST`` seconds they are looked up in a thread and drawn in a separate frame. Until then the previous row's details
stay, under its name. Invariant: a key press costs the same time and terminal output whether the panel is shown or not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ...analysis.core.text import cut, display
from ..list.frame import Frame, boxed
from ..session.jobs import QueryRunner
from ..terminal.painting import content_or_sentence
from ..widgets.sections import HISTOGRAM_LINES, heading, section_lines

if TYPE_CHECKING:
    from ...analysis.contract.sections import Detail, Section
    from ...analysis.details.row_details import Glance
    from ...analysis.table.table import Table

REST = 0.06
"""Seconds the cursor must rest before the lookup: longer than the repeat interval of a key held down."""
WIDE = 140
"""Terminal width from which the panel is beside the list, which then gets fewer cells for its columns."""
WIDTH = 0.36
"""Share of the width the panel takes there, clamped to ``NARROWEST`` to ``WIDEST`` cells."""
NARROWEST, WIDEST = 50, 84
BELOW_WIDTH, BELOW_HEIGHT, LEAST_LINES = 76, 22, 8
"""Least width and height of the terminal, and free lines under the list, for the panel to be below the list."""
AMPLE = 24
"""Free lines under a short list from which the panel is below it on a wide terminal, too."""
_LEAST_BLOCK = 3
"""Lines of a section worth showing: a title needs something under it."""
COLUMN = 58
"""Cells per column of sections, where there is room for several."""


class SidePanel(Widget):
    """The details of one row, as much as fits."""

    DEFAULT_CSS = """
    SidePanel { display: none; }
    SidePanel.right { display: block; dock: right; height: 100%; }
    SidePanel.below { display: block; dock: bottom; width: 100%; }
    """
    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self.runner = QueryRunner(self.app)
        self.lines_below = 0
        self._detail: Detail | None = None
        self._said = ""
        self._of: Callable[[], Glance] | None = None
        self._table: Table | None = None
        self._drawn: tuple[object, int, int, Content] | None = None

    def on_unmount(self) -> None:
        """Discard the pending lookup."""
        self.runner.drop()

    def place(self, right: bool, lines: int, width: int) -> bool:
        """Place the panel right of the list, or below it in ``lines`` lines, or hide it; True if that is a change."""
        self.lines_below = 0 if right else lines
        cells = max(NARROWEST, min(WIDEST, round(WIDTH * width))) if right else 0
        wanted = "right" if right else "below" if lines else ""
        now = (self.styles.width, self.styles.height, *self.classes)
        self.set_class(wanted == "right", "right")
        self.set_class(wanted == "below", "below")
        self.styles.width = cells if right else "100%"
        self.styles.height = "100%" if right else max(1, lines)
        if not wanted:
            self.runner.drop()
        return now != (self.styles.width, self.styles.height, *self.classes)

    @property
    def shown(self) -> bool:
        """Whether the panel is visible."""
        return bool(self.classes & {"right", "below"})

    def about(self, glance: Callable[[], Glance] | None) -> None:
        """From now on rows belong to another answer; ``glance`` makes its details lookup, in a thread, on first use."""
        self.runner.drop()
        self._of = cache(glance) if glance is not None else None
        self._say(None, "")

    def follow(self, table: Table | None, position: int) -> None:
        """The cursor moved to that row of the table."""
        of = self._of
        if not self.shown or of is None or table is None or position >= len(table):
            return

        def job() -> Detail:
            return of()(table, position)

        self.runner.ask_after(REST, job, self._take, lambda: self._say(None, "looking…"))

    def _take(self, value: Any) -> None:
        if isinstance(value, Exception):
            self._say(None, f"{type(value).__name__}: {display(str(value), 300)}")
        else:
            self._say(value, "")

    def _say(self, detail: Detail | None, message: str) -> None:
        if (detail, message) != (self._detail, self._said):
            self._detail, self._said = detail, message
            self._drawn = None
            self.refresh()

    def render(self) -> RenderResult:
        """As many sections as fit, in as many columns as there is room for."""
        width, height = self.size
        if self._drawn is None or self._drawn[:3] != (self._detail, width, height):
            self._drawn = (self._detail, width, height, content_or_sentence(self, self._draw, width, height))
        return self._drawn[3]

    def _draw(self, width: int, height: int) -> Content:
        sections = list(self._detail.sections) if self._detail else []
        title = sections.pop(0).title if sections and not sections[0].rows and not sections[0].shape else ""
        body = columns_of(sections, width - 4, height - 2) if sections else [Content(self._said)]
        while len(body) > 1 and not body[-1].plain.strip():
            body.pop()
        return Content("\n").join(boxed(body[: height - 2], Frame(cut(title, width - 8) or "Details"), width))


def columns_of(sections: list[Section], width: int, height: int) -> list[Content]:
    """The sections in order, in side-by-side columns; one that does not fit is cut or left out."""
    count = max(1, min(len(sections), width // COLUMN))
    room, blocks = _blocks(sections, width, height, count)
    while count > 1 and any(_wide(section) > room for section in sections):  # a table would be cut
        fewer, taller = _blocks(sections, width, height, count - 1)
        if sum(map(len, _filled(taller, count - 1, height))) < sum(map(len, taller)):
            break
        count, room, blocks = count - 1, fewer, taller
    columns = _filled(blocks, count, next(
        (tall for tall in range(1, height) if sum(map(len, _filled(blocks, count, tall))) == sum(map(len, blocks))),
        height,
    ))
    result = []
    for at in range(min(height, max(map(len, columns)))):
        line = Content("")
        for number, column in enumerate(columns):
            cell = column[at].truncate(room) if at < len(column) else Content("")
            gap = number * (room + 2) - line.cell_length
            line = Content.assemble(line, " " * gap, cell)
        result.append(line)
    return result


def _blocks(sections: list[Section], width: int, height: int, count: int) -> tuple[int, list[list[Content]]]:
    """The cells of one of ``count`` columns, and the lines of each section in it."""
    room = (width - 2 * (count - 1)) // count
    return room, [_block(section, room, height) for section in sections]


def _wide(section: Section) -> int:
    """The cells a section's table needs to be whole."""
    if not section.columns:
        return 0
    every = (section.columns, *section.rows)
    return sum(max(len(row[at]) for row in every) + 2 for at in range(len(section.columns))) + 1


def _filled(blocks: list[list[Content]], count: int, height: int) -> list[list[Content]]:
    """The blocks in columns of that height, in order; what does not fit into the last column is left out."""
    columns: list[list[Content]] = [[]]
    for block in blocks:
        if columns[-1] and len(columns[-1]) + len(block) > height and len(columns) < count:
            columns.append([])
        if columns[-1] and len(columns[-1]) + _LEAST_BLOCK > height:
            break
        columns[-1] += block[: height - len(columns[-1])]
    return columns


def _block(section: Section, room: int, height: int) -> list[Content]:
    under = len(section.rows) + bool(section.columns)
    drawn = max(4, min(HISTOGRAM_LINES, height - 1 - under)) if section.shape else 0
    return [heading(cut(section.title, room)), *section_lines(section, room - 1, drawn), Content("")]
