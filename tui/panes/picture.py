"""Lines drawn by a pane above or beside its list; if they do not fit, they scroll while focused."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from ..terminal.painting import content_or_sentence

MOST_HEIGHT = 0.75
"""Largest share of the height, as in ``max-height`` of its style."""


class Picture(Widget):
    """Lines drawn by the pane for the current width; no taller than needed."""

    DEFAULT_CSS = """
    Picture { height: auto; max-height: 75%; display: none; }
    Picture:focus { background: $panel; }
    """
    can_focus = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "turn(1)", show=False), Binding("up,k", "turn(-1)", show=False),
        Binding("pagedown", "turn_page(1)", show=False), Binding("pageup", "turn_page(-1)", show=False),
        Binding("home,g", "turn_to(0)", show=False), Binding("end,G", "turn_to(1)", show=False),
    ]

    def __init__(
        self, pane: Widget, draw: Callable[[int], Content], id: str | None = None, most: float = MOST_HEIGHT
    ) -> None:
        super().__init__(id=id)
        self._most = most
        self._pane, self._draw = pane, draw
        self._drawn: tuple[int, int, Content] | None = None  # its own width, height of the pane, and what was drawn
        self._shown: tuple[str, object] | None = None  # text and spans rendered last
        self._lines = 0  # of the last layout
        self._top = 0  # the first visible line if there are more than fit

    def redraw(self) -> None:
        """Draw again; the screen is laid out again only if the content changed."""
        self._drawn = None
        content = self._content(self._width())
        if self._shown != (content.plain, content.spans) or self._lines != len(content.plain.splitlines()):
            self._shown = content.plain, content.spans
            self.display = bool(content.plain)
            self.refresh(layout=True)

    def limit(self) -> None:
        """At most its share of the whole pane: of what a panel below the list leaves, a picture that fits is cut."""
        if self._pane.size.height:
            self.styles.max_height = int(self._most * self._pane.size.height)

    def _width(self) -> int:
        return self.size.width or self._pane.size.width or 80

    def _content(self, width: int) -> Content:
        height = self._pane.size.height
        if self._drawn is None or self._drawn[:2] != (width, height):
            self._drawn = (width, height, content_or_sentence(self._pane, self._draw, width))
        return self._drawn[2]

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """The number of lines drawn."""
        self._lines = len(self._content(width).plain.splitlines())
        return self._lines

    def render(self) -> RenderResult:
        """The pane's drawing, scrolled if it does not fit."""
        content = self._content(self._width())
        self._shown = content.plain, content.spans
        return self._in_sight(content)

    @property
    def lines(self) -> int:
        """Lines it will take on the screen, known as soon as the pane has its size."""
        drawn = len(self._content(self._width()).plain.splitlines())
        return min(drawn, int(self._most * self._pane.size.height))

    @property
    def cut(self) -> bool:
        """Whether there are more lines than room, so that it can scroll."""
        return self.display and 0 < self.size.height < len(self._content(self._width()).plain.splitlines())

    def _in_sight(self, content: Content) -> Content:
        """The visible lines; if some are hidden, the last line says how many and which key shows them."""
        lines, room = content.split("\n"), self.size.height
        if not room or len(lines) <= room:
            self._top = 0
            return content
        self._top = max(0, min(self._top, len(lines) - room + 1))
        shown = lines[self._top : self._top + room - 1]
        below = len(lines) - self._top - len(shown)
        how = "PgDn" if self.has_focus else "Tab, then PgDn"
        hint = f" ▾ {below} more line{'s' if below > 1 else ''}: {how}" if below else f" ▴ {self._top} above: PgUp"
        return Content("\n").join([*shown, Content.styled(hint, "dim")])

    def action_turn(self, lines: int) -> None:
        """Scroll by lines."""
        self._top += lines
        self.refresh()

    def action_turn_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_turn(pages * max(1, self.size.height - 2))

    def action_turn_to(self, end: int) -> None:
        """Scroll to the first line or to the last."""
        self._top = end * len(self._content(self._width()).plain.splitlines())
        self.refresh()
