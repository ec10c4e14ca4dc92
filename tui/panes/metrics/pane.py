"""Metrics: plots of the counter under the cursor and of the marked ones, above the list of all."""

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
"""Lines of the pane from which plots are drawn above the list."""
MOST_KEPT = 64
"""Counters whose samples are cached."""


class MetricsPane(TablePane):
    """The plots above the list of counters."""

    lists_nothing = True

    DEFAULT_CSS = "MetricsPane TableList { height: 2fr; } MetricsPane Picture { display: none; }"

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.canvas = MetricsCanvas()
        self._reading = QueryRunner(self.app)
        self._kept: dict[Key, Series] = {}
        self._of: object = None

    def compose(self) -> ComposeResult:
        """Plots above, list below."""
        yield self.notice
        yield self.canvas
        yield self.rows

    def picture(self, width: int) -> Content:
        """Nothing: the canvas draws."""
        return Content("")

    def show(self, shown: Shown) -> None:
        """Show the answer and its plots."""
        super().show(shown)
        self._plot()

    def show_text(self, text: str) -> None:
        """Show a sentence in place of plots and list; '' shows them again."""
        super().show_text(text)
        self.canvas.display = not text and self.size.height >= LEAST_PLOT

    def on_resize(self) -> None:
        """Hide the plots on a low pane, where the list needs all lines."""
        super().on_resize()
        self.canvas.display = not self.message and self.size.height >= LEAST_PLOT

    def on_table_list_highlighted(self, event: TableList.Highlighted) -> None:
        """Another counter is under the cursor, or marks changed."""
        super().on_table_list_highlighted(event)
        self._plot()

    def on_metrics_canvas_row_stepped(self, event: MetricsCanvas.RowStepped) -> None:
        """Move in the list while the plots keep the focus."""
        event.stop()
        self.rows.action_move(event.step)

    def _wanted(self) -> list[dict[str, Any]]:
        """The rows to plot: the one under the cursor, then the marked ones in the order they were recorded."""
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
        """Plot these rows; counters not cached yet are read in the background."""
        shown, rows = self.shown, self._wanted()
        if shown is None or not rows:
            return
        runs, options = self.session.question(shown.view, self.subject)
        cached = self._kept if self._of == (self._epoch, self.subject) else {}
        if len(cached) > MOST_KEPT:
            cached = {}
        self._kept, self._of = cached, (self._epoch, self.subject)
        known = dict(cached)

        def job() -> tuple[list[Series], list[Marks], bool]:
            from ....analysis.metrics.picture import plotted

            return plotted(runs, options, rows, known)

        def take(value: Any) -> None:
            if isinstance(value, tuple):
                series, marks, pair = value
                cached.update({one.key: one for one in series})
                self.canvas.show(series, marks, pair)

        self._reading.ask(job, take)

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        return [*super().footer_keys(), "pane_next", *(("zoom_in", "zoom_out", "fit") if self.shown else ())]
