"""Cycles: how long they take, as a distribution of one run or of both on one axis, beside or above the list."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from ...analysis.views import Entry
from ..session.session import Session
from ..widgets.drawing import histogram, joined
from .picture import Picture
from .shown import Shown
from .table import TablePane

WIDE = 110
"""Cells from which the distribution stands beside the list."""
DISTRIBUTION = 14
"""Lines it keeps there."""


class CyclesPane(TablePane):
    """The cycles view with its histogram."""

    DEFAULT_CSS = """
    CyclesPane #both { height: 1fr; layout: vertical; }
    CyclesPane.wide #both { layout: horizontal; }
    CyclesPane #histogram { width: 1fr; max-height: 9; }
    CyclesPane.wide #histogram { width: 42%; max-height: 100%; }
    """

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.distribution = Picture(self, self.draw_distribution, "histogram")

    def compose(self) -> ComposeResult:
        """Sentences, then distribution and list."""
        yield self.drawing
        yield self.spoken
        yield self.side_panel
        yield Container(self.distribution, self.rows, id="both")

    def on_resize(self) -> None:
        """Next to the list where there is room."""
        self._lay_out()
        super().on_resize()

    def show(self, shown: Shown) -> None:
        """Put the answer on the screen."""
        self._lay_out()
        super().show(shown)

    def make_room(self) -> None:
        """The distribution gives way to the details, as far as it has to."""
        super().make_room()
        self.distribution.redraw()

    def list_lines(self) -> int:
        """The distribution needs some, too, where it stands beside the list."""
        return max(super().list_lines(), DISTRIBUTION if self.has_class("wide") else 0)

    def _lay_out(self) -> None:
        # the width of the app, which is that of the pane: an answer may come before the pane has been given its size
        self.set_class(self.app.size.width >= WIDE, "wide")

    def say(self, text: str) -> None:
        """A sentence in place of list and distribution."""
        super().say(text)
        self.distribution.redraw()

    def draw_distribution(self, width: int) -> Content:
        """The histogram of what is shown, in the height there is."""
        if self.shown is None or self.message:
            return Content("")
        wide = self.has_class("wide")
        room = self.size.height - 4 - self.side_panel.lines_below if wide else min(9, self.size.height // 3)
        if not wide and self.size.height < 14:
            return Content("")
        return joined(histogram(self.shown.base.facts.get("histogram", {}), width - 2, room))
