"""Diff: the verdict in a few lines, then the ranked functions; asks for a second trace if only one is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.content import Content

from ...analysis.views import Entry
from ..list.frame import Frame, boxed
from ..list.table_list import TableList
from ..session.jobs import QueryRunner
from ..session.session import Arrangement, Session
from ..widgets.answer_lines import answer_frame
from ..widgets.drawing import joined
from .answered import COMPUTING
from .diff_evidence import diff_evidence
from .picture import Picture
from .shown import Shown, arranged
from .table import TablePane

if TYPE_CHECKING:
    from ...analysis.metrics.series import Series
    from ...analysis.table.table import Table

LOW, TALL = 20, 30
"""Lines of the pane from which four lines of the answer are shown, and from which all are."""
PROOF_HEIGHT, PROOF_WIDTH = 34, 100
"""Size of the pane, lines and cells, from which the evidence below the list is drawn."""


def _with_rows(shown: Shown, plain: Table, arrangement: Arrangement) -> Shown:
    """The answer with the rows that an export writes: all of them, whatever is folded on the screen."""
    from ...analysis.table.parts import unfolded

    return replace(shown, rows=unfolded(arranged(shown.view, plain, arrangement).table), plain=plain)


class DiffPane(TablePane):
    """The diff of two runs."""

    DEFAULT_CSS = "DiffPane #proof { max-height: 12; }"

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.proof = Picture(self, self.draw_evidence, "proof")
        self._series: list[Series] = []
        self._reading = QueryRunner(self.app)

    def compose(self) -> ComposeResult:
        """The verdict, the rows, and below them the evidence."""
        yield from super().compose()
        yield self.proof

    def show(self, shown: Shown) -> None:
        """Show the answer; the samples of the counter named as the cause are read in the background."""
        super().show(shown)
        self.proof.redraw()
        resource = (shown.base.facts.get("cause") or {}).get("resource")
        if resource is None or self._series:
            return
        runs, options = self.session.question(shown.view, self.subject)
        row = {name: resource[name] for name in ("metric", "device", "unit")}

        def job() -> list[Series]:
            from ...analysis.metrics.picture import plotted

            return plotted(runs, options, [row], {})[0]

        def take(value: Any) -> None:
            self._series = value if isinstance(value, list) else []
            self.proof.redraw()

        self._reading.ask(job, take)

    def query_if_stale(self, force: bool = False) -> None:
        """Query once there are two runs."""
        if self._epoch != self.session.epoch:
            self._series = []
        self._wake(force)

    def draw_evidence(self, width: int) -> Content:
        """The evidence of the verdict, where there is room for it."""
        if self.shown is None or self.message or self.size.height < PROOF_HEIGHT or width < PROOF_WIDTH:
            return Content("")
        return joined(diff_evidence(self.shown.base.facts, self._series, width))

    def drawn_text(self) -> tuple[str, ...]:
        """The evidence as text, for an export."""
        lines = diff_evidence(self.shown.base.facts, self._series, 116) if self.shown is not None else []
        return tuple(line.plain.rstrip() for line in lines)

    @property
    def exported(self) -> Table | None:
        """The rows without the groups shown on the screen."""
        return None if self.shown is None else self.shown.rows or self.shown.table

    def show_text(self, text: str) -> None:
        """Show a sentence in place of the rows and the evidence."""
        super().show_text(text)
        self.proof.redraw()

    def list_lines(self) -> int:
        """Evidence takes the room below the list, so that the side panel with details does not."""
        return super().list_lines() + (self.size.height if self.size.height >= PROOF_HEIGHT else 0)

    def _question(self) -> Any:
        ask, arrangement = super()._question(), self.state.arrangement

        def job() -> Shown:
            from ...analysis.diff.groups import grouped

            shown: Shown = ask()
            return _with_rows(arranged(shown.view, grouped(shown.base), arrangement), shown.base, arrangement)

        return job

    def arranged_anew(self, shown: Shown, arrangement: Arrangement) -> Shown:
        """The groups of the screen and the rows of an export, arranged alike."""
        return _with_rows(super().arranged_anew(shown, arrangement), shown.plain or shown.base, arrangement)

    def picture(self, width: int) -> Content:
        """The verdict: its number, and its lines, each with its mark; the first two are always there."""
        if self.shown is None or self.message:
            return Content("")
        facts, height = self.shown.base.facts, self.size.height
        frame, drawn = answer_frame(
            Frame("Verdict"), facts.get("lines") or (), facts.get("lead"), width,
            2 if height < LOW else 4 if height < TALL else 8)
        return joined(boxed(drawn, frame, width))

    def _wake(self, force: bool) -> None:
        session = self.session
        if len(session.traces) == 1 and not session.partial:
            self.shown = None
            self.rows.show(None)
            self.show_text("A diff needs two runs. Press o and open the second, or O if it is open and b there.")
            self.report_change()
        elif len(session.traces) == 1:
            self.show_text("Waiting for the second run. Views 1 to 5 show the first one meanwhile.")
            self.report_change()
        else:
            if self.shown is None and self.message:
                self.show_text(COMPUTING)
            super().query_if_stale(force)

    def action_fold(self, step: int) -> None:
        """Open or close the row under the cursor; on a part, close the row it belongs to."""
        from ...analysis.table.parts import opened, row_of

        table = self.rows.table
        if self.shown is None or table is None or not len(table):
            self.app.bell()
            return
        row = table.row_id(self.rows.cursor)
        base = opened(self.shown.base, row, step > 0)
        if base is None and step < 0 and (above := row_of(self.shown.base, row)) is not None:
            base = opened(self.shown.base, above, False)
        if base is None:
            self.app.bell()
            return
        self.shown = replace(self.shown, base=base)
        self.rearrange()

    def on_table_list_opened(self, event: TableList.Opened) -> None:
        """Enter on a group opens or closes it; any other row goes on to the handler of the base class."""
        if self.row().get("kind") not in ("cause", "unchanged"):
            return
        event.stop()
        event.prevent_default()
        assert self.shown is not None and self.rows.table is not None
        before = len(self.shown.base)
        self.action_fold(1)
        if len(self.shown.base) == before:
            self.action_fold(-1)

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        opens = self.table is not None and self.table.kept is not None
        return [*super().footer_keys(), *(["fold", "unfold"] if opens else [])]
