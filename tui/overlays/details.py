"""Enter on a row: its details, looked up in the background, in a panel beside the list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from ...analysis.contract.options import Options
from ...analysis.core.text import display
from ...analysis.views import Entry
from ..session.jobs import QueryRunner
from ..session.messages import TerminalRequest
from ..session.programs import paged
from ..widgets.drawing import wrapped
from ..widgets.sections import heading, pairs, section_lines
from .overlay import Overlay

if TYPE_CHECKING:
    from ...analysis.contract.sections import Detail, Event, Section
    from ...analysis.contract.view import Runs, View
    from ...analysis.table.table import Table


class DetailsScreen(Overlay):
    """The details of one row."""

    def __init__(
        self, entry: Entry, view: View, table: Table, position: int, runs: Runs, options: Options,
        in_pager: bool = False,
    ) -> None:
        """``in_pager``: show them in the pager as soon as they are there, and close."""
        super().__init__(f"{entry.title}: details")
        self._in_pager = in_pager
        self._runner = QueryRunner(self.app)
        self._question = (view, table, position, runs, options)
        self._detail: Detail | None = None
        self._failed = ""
        self._recorded: dict[Event, tuple[tuple[str, str], ...]] = {}

    BINDINGS: ClassVar[list[BindingType]] = [Binding("vertical_line", "pager", "pager", id="pager")]

    def on_mount(self) -> None:
        """Start the lookup."""
        super().on_mount()

        def job() -> Any:
            from ...analysis.details.row_details import details

            return details(*self._question)

        self._runner.ask(job, self._take)

    def on_unmount(self) -> None:
        """Closed: discard the pending answer."""
        self._runner.drop()

    def _take(self, value: Any) -> None:
        if isinstance(value, Exception):
            self._failed = f"{type(value).__name__}: {display(str(value), 300)}"
        else:
            self._detail = value
            self._ask_recorded()
        self.fill()
        self._page_once()

    def _ask_recorded(self) -> None:
        """Look up the event arguments that only the trace files have."""
        events = [section.event for section in self._detail.sections if section.event] if self._detail else []
        recorded, runs = getattr(self.app, "recorded", None), self._question[3]
        if not events or recorded is None:
            return

        def job() -> Any:
            from ...analysis.details.event_arguments import rows_of

            answers = {}
            for event in events:
                try:
                    answers[event] = rows_of(recorded(runs[event.side].info, event.rank, event.offset, event.name))
                except Exception as error:
                    answers[event] = (("", display(str(error), 300)),)
            return answers

        self._runner.ask(job, self._take_recorded)

    def action_pager(self) -> None:
        """Show these lines in the pager."""
        text = self.lines.content.plain + "\n"

        def take(value: Any) -> None:
            if isinstance(value, Exception):
                self.notify(str(value), severity="error", markup=False)

        self.app.post_message(TerminalRequest(lambda: paged(text), take))

    def _page_once(self) -> None:
        if self._in_pager and not self._runner.busy:
            self._in_pager = False
            self.action_pager()
            self.dismiss()

    def _take_recorded(self, value: Any) -> None:
        self._recorded = value if isinstance(value, dict) else {}
        self.fill()
        self._page_once()

    def fill(self) -> None:
        """The sections, one below the other."""
        if self._detail is None:
            self.lines.show_text(Content(self._failed or "looking…"))
            return
        result: list[Content] = []
        for section in self._detail.sections:
            result += [*(heading(line.plain) for line in wrapped(section.title, self.room)), *self._section(section)]
            result.append(Content(""))
        self.lines.show_text(Content("\n").join(result))

    def _section(self, section: Section) -> list[Content]:
        if section.event is None:
            return section_lines(section, self.room)
        rows = self._recorded.get(section.event, (("", "reading the file…" if self._runner.busy else "not read"),))
        return pairs([(row[0], row[1]) for row in rows], self.room)
