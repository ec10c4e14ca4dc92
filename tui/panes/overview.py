"""Overview: where the time of a step goes, device utilisation, findings, and the top kernels.

The picture is the answer of the overview; the list below is that of the kernels view, and filter and sort act on it.
``e`` writes the triage page; ``E`` and ``y`` take the overview.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.content import Content

from ...analysis.views import VIEWS, Entry
from ..session.session import Session
from .picture import Picture
from .shown import Shown, arranged, scoped_table
from .table import TablePane

if TYPE_CHECKING:
    from ...analysis.table.table import Table


MOST = 0.85
"""The picture's largest share of the height: the list keeps three rows at 80×24."""


class OverviewPane(TablePane):
    """The first look at a run or a pair."""

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.overview: Table | None = None
        self.failed = ""
        self.drawing = Picture(self, self.picture, most=MOST)

    def forget(self) -> None:
        """Clear the rows and the page."""
        self.overview, self.failed = None, ""
        super().forget()

    @property
    def exported(self) -> Table | None:
        """The overview's table, not that of the kernels."""
        return self.overview or self.table

    def action_export(self) -> None:
        """Write the triage page, with the marked rows and their notes."""
        if self.later(self.action_export) or self.exported is None:
            return
        session, marked = self.session, self.session.marked
        entry = next(one for one in VIEWS if one.name == "triage")

        def job() -> Table:
            from ...analysis.query.ask import ask
            from ...analysis.views.triage import with_marked

            asked = session.question(entry.load())
            return with_marked(scoped_table(ask(entry.load(), *asked), *asked), marked)

        self.write_out(job, entry.name, None)

    def _question(self) -> Any:
        entry, session, arrangement = self.entry, self.session, self.state.arrangement

        def job() -> tuple[Table | str, Shown | None]:
            from ...analysis.contract.view import CannotAnswer
            from ...analysis.views.kernels import in_overview

            overview: Table | str
            asked = session.question(entry.load())
            try:
                overview = scoped_table(session.answers.ask(entry.load(), *asked, session.cached_runs), *asked)
            except CannotAnswer as error:
                overview = _instead(session) or str(error)
            view = in_overview(asked[0])
            try:
                table = session.answers.ask(view, *session.question(view), session.cached_runs).compared(session.per)
                return overview, arranged(view, table, arrangement)
            except CannotAnswer:
                return overview, None

        return job

    def _take(self, value: Any) -> None:
        if not isinstance(value, tuple):
            super()._take(value)
            return
        overview, kernels = value
        self.overview = None if isinstance(overview, str) else overview
        self.failed = overview if isinstance(overview, str) else ""
        if kernels is not None:
            super()._take(kernels)
        else:
            self.shown = None
            self.rows.show(None)
            self.show_text("")
            self.do_due()
            self.report_change()

    def make_room(self) -> None:
        """The side panel is never shown: the picture takes all the room."""
        self.drawing.limit()

    def picture(self, width: int) -> Content:
        """Time breakdown, gauges and findings."""
        from .overview_picture import overview_picture

        if self.message or (self.overview is None and not self.failed):
            return Content("")
        height = self.size.height
        most = int(MOST * height) if self.list_lines() > 4 else height - 3  # the least lines of the list
        return overview_picture(self.overview, self.failed, width, most, height - self.list_lines())


def _instead(session: Session) -> str:
    """What the recording is about where it has no device work: the answer of the view of what it holds, a sentence a
    line, and the key that opens it; '' if there is none."""
    from ...analysis.contract.view import CannotAnswer
    from ...analysis.query.answering import without_device_work

    for name in without_device_work(session.traces):
        entry = next(one for one in VIEWS if one.name == name)
        try:
            asked = session.question(entry.load())
            lines = session.answers.ask(entry.load(), *asked, session.cached_runs).summary
        except CannotAnswer:
            continue
        if lines:
            where = f"{entry.key} {entry.title}" if entry.key else f"{entry.title} (:)"
            return "\n".join([*lines, f"No kernel was recorded; all of it is in {where}."])
    return ""
