"""Exports of the timeline's window: markdown, a picture, or a Chrome trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ....analysis.core.text import display
from ....analysis.views import Entry
from ...session.exporting import free_name, new_trace
from ...session.messages import TaskRequest
from ...session.session import Session
from ..shown import scoped_table
from ..table import TablePane
from .canvas import TimelineCanvas

if TYPE_CHECKING:
    from ....analysis.contract.view import Runs, View
    from ....analysis.table.table import Table


class TimelineExports(TablePane):
    """The canvas, the runs and the view it was made from, and what is written of them."""

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.canvas = TimelineCanvas()
        self._runs: Runs = ()
        self._view: View | None = None

    def export_job(self) -> Callable[[], Table] | None:
        """The answer of the view for the current window."""
        view, runs = self._view, self._runs
        if not self.canvas.runs or view is None:
            return None
        start, end = self.canvas.window_ns
        options = replace(self.session.question(view)[1], from_ns=start, to_ns=end, window_b=None)
        command = f"{self.command} --from {start} --to {end}"
        noted = [f"Note on {self.session.note_position(one)}: {one.text}" for one in self.session.time_notes]

        def job() -> Table:
            from ....analysis.query.ask import ask

            table = scoped_table(ask(view, runs, options), runs, options)
            return replace(table, notes=(*table.notes, *noted), command=command)

        return job

    def action_export(self) -> None:
        """Offer the window as a picture or as a Chrome trace."""
        from ...overlays.choice import ChoiceScreen

        if self.later(self.action_export) or not self.canvas.runs or self._view is None:
            return
        choices = {"m": "markdown, a picture of this window", "s": "SVG, a picture of this window",
                   "t": "Chrome trace of this window, which Perfetto opens"}
        cycle = self.canvas.cycle
        if cycle is not None:
            choices["c"] = f"Chrome trace of {display(cycle[2], 40)}, the cycle under the cursor"
        self.app.push_screen(ChoiceScreen("Export the timeline", choices), self._chosen)

    def _chosen(self, key: str | None) -> None:
        if key == "m":
            super().action_export()
        elif key == "s":
            self._export(self._picture_name())
        elif key in ("t", "c"):
            self._slice(self.canvas.cycle if key == "c" else None)

    def _picture_name(self) -> str:
        """An unused file name for a picture of the window."""
        runs = [re.sub(r"[^A-Za-z0-9._-]+", "-", one.label).strip("-.")[:36] for one in self.canvas.runs]
        return str(free_name("-".join(["warplens", self.entry.name, *runs])[:100] + ".svg"))

    def _slice(self, span: tuple[int, int, str] | None) -> None:
        """Write events that begin in the span, or else in the window, of the run under the cursor as a trace."""
        run, view = self.canvas.run, self._view
        assert view is not None
        trace = self._runs[run]
        window = self.canvas.window(run)
        start, end = (window.start, window.end) if span is None else span[:2]
        asked = self.session.question(view)[1].any_cycle()
        options = replace(asked.swapped() if run else asked, from_ns=start, to_ns=end, window_b=None)

        def job() -> Path:
            from ....analysis.timeline.chrome_trace import sliced

            return new_trace(sliced(trace, options), trace.info.label)

        self.app.post_message(TaskRequest("writing", job, self.report_written))
