"""History: cycle time over all runs with its steps marked, above the series; Enter opens the runs around a step."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ..list.frame import Frame, dim
from ..session.keys import Key
from ..session.messages import RunsRequest
from .table import TablePane

LEAST_HEIGHT = 16
"""Lines of the pane from which the picture is drawn."""


class HistoryPane(TablePane):
    """The history view: its series, or with ``s`` its runs."""

    lists_nothing = True

    def _runs(self) -> list[dict[str, Any]]:
        return list(self.shown.base.facts["runs"]) if self.shown is not None else []

    def evidence(self, width: int) -> list[Content]:
        """Cycle time per run, a mark at each step (▲ slower, ▼ faster), and the run numbers."""
        runs, steps = self._runs(), self.shown.base.facts["steps"] if self.shown is not None else []
        room = min(width - 8, len(runs))
        if room < 2 or self.size.height < LEAST_HEIGHT:
            return []
        line = units.series([None if run["not_tested"] else run["cycle_ns"] for run in runs], room)
        marks: list[tuple[str, str]] = [("·", "dim")] * room
        for step in sorted(steps, key=lambda one: abs(one["change"])):
            marks[min(room - 1, step["index"] * room // len(runs))] = (
                ("▲", "bad") if step["change"] > 0 else ("▼", "good"))
        drawn = [Content.assemble(("cycle   ", "dim"), (line, "spark"))] if line else []
        scale = f"1{str(len(runs)).rjust(room - 1)}" if room > 8 else ""
        return [*drawn, Content.assemble(("steps   ", "dim"), *marks), Content.assemble((f"run     {scale}", "dim"))]

    def answer_frame(self) -> Frame:
        """The number of runs, and of the series tested."""
        if self.shown is None:
            return Frame(self.entry.title)
        tested = self.shown.base.facts["tested"]
        title = f"{tested['series']} series tested in {units.counted(tested['runs'], 'run', 'runs')}"
        return Frame(units.counted(len(self._runs()), "run", "runs"), dim(title))

    def open_details(self, position: int, in_pager: bool = False) -> None:
        """The diff of the runs around the last step of a series, or the details of the row."""
        step = self.row().get("at")
        if step is None:
            super().open_details(position, in_pager)
            return
        before = [run["index"] for run in self._runs()[: int(step)] if run["not_tested"] is None]
        self._open_runs(before[-1], int(step))

    def action_place(self) -> None:
        """Open the run under the cursor by itself."""
        row = self.row()
        if "index" not in row:
            self.hint("t opens a run here: s lists the runs.")
            return
        self._open_runs(int(row["index"]))

    def _open_runs(self, *indices: int) -> None:
        """Open recordings, unless a later run overwrote one of the files, as a nightly job may do."""
        sources = [run["source"] for run in self._runs()]
        wanted = [sources[index] for index in indices]
        gone = [source for index, source in zip(indices, wanted, strict=True) if source in sources[index + 1:]]
        if gone:
            self.hint(f"A later run overwrote {display(gone[0], 40)}: give each recording its own file name.")
            return
        self.app.post_message(RunsRequest(wanted, opened_from=self._path))

    def key_label(self, key: Key) -> str:
        """``s`` and ``t`` have other labels here."""
        other = "series" if self._lists_runs else "runs"
        return {"order": other, "place": "open run"}.get(key.name, key.label)

    @property
    def _lists_runs(self) -> bool:
        return self.table is not None and self.table.columns[0].role == "order"

    def places_rows(self) -> bool:
        """Whether runs are listed, since ``t`` opens one."""
        return self._lists_runs

    @property
    def _path(self) -> str:
        return self.session.inputs[0].path
