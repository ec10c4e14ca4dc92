"""Metrics: plots of the counter under the cursor and of those that are marked, over the list of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.content import Content

from ....analysis.views import Entry
from ...list.table_list import TableList
from ...session.jobs import QueryRunner
from ...session.session import Session
from ..shown import Shown
from ..table import TablePane
from .canvas import MetricsCanvas

if TYPE_CHECKING:
    from ....analysis.metrics.series import Key, Series
    from ....analysis.timeline.lanes import Marks

LEAST_PLOT = 18
"""Lines of the pane from which there is room for plots above the list."""
MOST_KEPT = 64
"""Counters whose samples are kept for the next time."""


class MetricsPane(TablePane):
    """The canvas above the list."""

    DEFAULT_CSS = "MetricsPane TableList { height: 2fr; } MetricsPane Picture { display: none; }"

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.canvas = MetricsCanvas()
        self._reading = QueryRunner(self.app)
        self._kept: dict[Key, Series] = {}
        self._of: object = None

    def compose(self) -> ComposeResult:
        """Plots above, list below."""
        yield self.spoken
        yield self.canvas
        yield self.rows

    def picture(self, width: int) -> Content:
        """Nothing: the canvas draws."""
        return Content("")

    def show(self, shown: Shown) -> None:
        """Put the answer on the screen, and its plots."""
        super().show(shown)
        self._plot()

    def say(self, text: str) -> None:
        """A sentence in place of both; '' brings them back."""
        super().say(text)
        self.canvas.display = not text and self.size.height >= LEAST_PLOT

    def on_resize(self) -> None:
        """The list needs all of a low pane."""
        super().on_resize()
        self.canvas.display = not self.message and self.size.height >= LEAST_PLOT

    def on_table_list_highlighted(self, event: TableList.Highlighted) -> None:
        """Another counter is under the cursor, or marked."""
        super().on_table_list_highlighted(event)
        self._plot()

    def on_metrics_canvas_row_stepped(self, event: MetricsCanvas.RowStepped) -> None:
        """Move in the list without leaving the plots."""
        event.stop()
        self.rows.action_move(event.step)

    def _wanted(self) -> list[dict[str, Any]]:
        """The rows to be drawn: that under the cursor, then the marked ones in the order of the list."""
        table = self.rows.table
        if table is None or not len(table):
            return []
        places = [self.rows.cursor]
        for mark in sorted(self.rows.marks):
            place = table.position(mark)
            if place is not None and place not in places:
                places.append(place)
        names = [column.name for column in table.columns]
        return [dict(zip(names, table.window(at, at + 1)[0], strict=True)) for at in places if at < len(table)]

    def _plot(self) -> None:
        """Draw what is wanted, reading in the background what was not read before."""
        shown, rows = self.shown, self._wanted()
        if shown is None or not rows:
            return
        runs, options = self.session.question(shown.view, self.subject)
        kept = self._kept if self._of == (self._epoch, self.subject) else {}
        if len(kept) > MOST_KEPT:
            kept = {}
        self._kept, self._of = kept, (self._epoch, self.subject)
        known = dict(kept)

        def job() -> tuple[list[Series], list[Marks], bool]:
            from ....analysis.metrics.picture import plotted

            return plotted(runs, options, rows, known)

        def take(value: Any) -> None:
            if isinstance(value, tuple):
                series, marks, pair = value
                kept.update({one.key: one for one in series})
                self.canvas.show(series, marks, pair)

        self._reading.ask(job, take)

    def wanted(self) -> list[str]:
        """The names of the keys that matter now, for the footer."""
        return [*super().wanted(), "pane_next", *(("zoom_in", "zoom_out", "fit") if self.shown else ())]
