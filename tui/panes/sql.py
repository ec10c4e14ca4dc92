"""SQL: a prompt, opened by the view's key, and the result of the last query as a list like any other.

A query that fails leaves the previous result in place and shows its error while the prompt stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textual.content import Content

from ...analysis.core.text import display
from ...analysis.views import Entry
from ..list.frame import boxed
from ..session import resume
from ..session.session import Session
from ..session.themes import content_style
from ..widgets.drawing import joined, wrapped
from .shown import Shown, arranged, scoped_table
from .table import TablePane

MOST = 1_000_000
"""Most rows of a result that are kept."""


class SqlPane(TablePane):
    """The SQL prompt and the result of a query."""

    lists_nothing = True

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self.wrong = ""
        self._typed = ""
        self._past: list[str] | None = None

    def query_if_stale(self, force: bool = False) -> None:
        """Run the last query again if runs or scope changed."""
        if not self.session.traces or self.session.query:
            super().query_if_stale(force)
            return
        self._epoch = 0
        self.show_text("Type a query at the prompt: Tab completes, ↑ brings back queries typed before, Enter runs. "
                 f"0 opens the prompt again. {self._names()}.")
        self.report_change()

    @property
    def is_deciding(self) -> bool:
        """Whether a typed query is being computed."""
        return bool(self._typed) and self.runner.busy

    def opened_by_key(self) -> None:
        """Open the prompt."""
        self.view_key_repeated()

    def _tables(self) -> Mapping[str, tuple[str, ...]]:
        from ...analysis.table.sql import tables

        return tables(len(self.session.traces) or 1)  # no traces while a run is reloaded under an open prompt

    def _names(self) -> str:
        """The tables that have rows, in words; those of two runs once, without prefix."""
        both = ", each with a_ before its name for run A and b_ for run B" if len(self.session.traces) > 1 else ""
        return f"Tables{both}: {', '.join(self._filled()) or 'none has a row'}"

    def _filled(self) -> list[str]:
        from ...analysis.table.sql import filled

        return filled(self.session.traces)

    def _first(self) -> str:
        """Placeholder of the empty prompt, short enough for a narrow terminal."""
        if not self.session.traces:
            return "select * from kernels limit 10"
        table = next(iter(self._filled()), "kernels")
        prefix = "" if len(self.session.traces) == 1 else "a_" if self.session.traces[0].has(table) else "b_"
        return f"select * from {prefix}{table} limit 10"

    def view_key_repeated(self) -> None:
        """Open the prompt with the last query."""
        self.main.ask_for("sql", self._typed or self.session.query, self._first(), self)

    def completions(self, before: str, after: str) -> tuple[int, tuple[str, ...]]:
        """Complete tables, columns, keywords and functions."""
        from ...analysis.table.sql_completion import completions

        return completions(before, self._tables(), after)

    def history(self) -> list[str]:
        """Queries typed in this session and in earlier ones."""
        if self._past is None:
            self._past = resume.queries()
        return self._past

    def prompt_changed(self, kind: str, text: str, final: bool) -> None:
        """Run a query typed at the prompt."""
        if kind != "sql":
            super().prompt_changed(kind, text, final)
        elif final and text.strip() and not self.session.traces:
            self.main.refuse("Nothing is read yet; Enter runs the query then.")
        elif final and text.strip():
            self._typed = text.strip()
            self._past = resume.keep_query(self._typed)
            self.runner.ask(self._job(self._typed), self._take_result)
            self.report_change()

    def prompt_cancelled(self, kind: str) -> None:
        """The prompt was cancelled: discard its query."""
        if kind == "sql":
            self.runner.drop()
            self._typed = ""
            self._fail("")
        super().prompt_cancelled(kind)

    def _question(self) -> Any:
        return self._job(self.session.query)

    def _job(self, statement: str) -> Any:
        view, session, arrangement = self.entry, self.session, self.state.arrangement
        runs, options = session.traces, session.options

        def job() -> Shown:
            from ...analysis.contract.options import SIDES
            from ...analysis.cycles.scope import scoped
            from ...analysis.table.sql import query

            limited = tuple(scoped(run, options, side) for run, side in zip(runs, SIDES, strict=False))
            return arranged(view.load(), scoped_table(query(limited, statement, MOST), runs, options), arrangement)

        return job

    def _take_result(self, value: Any) -> None:
        """Result of a typed query: it becomes the view's query, or the prompt stays open and shows the error."""
        if isinstance(value, Shown):
            if self._typed != self.session.query:
                self.state.marks.clear()
            self.session.query, self._typed = self._typed, ""
            self._fail("")
            self.main.close_prompt()
            self._take(value)
        else:
            self._fail(_reason(value))
            self.main.refuse("The query cannot run.")
            self.main.update_lines()

    def _take(self, value: Any) -> None:
        """Result of the view's own query, run again."""
        if isinstance(value, Shown):
            super()._take(value)
            return
        self.shown = None
        self.rows.show(None)
        self.show_text(_reason(value))
        self.main.update_lines()

    def _fail(self, reason: str) -> None:
        self.wrong = reason
        self.drawing.redraw()

    def evidence(self, width: int) -> list[Content]:
        """The error of the query at the prompt."""
        lines = wrapped(self.wrong, width) if self.wrong else []
        return [Content.styled(line.plain, content_style("bad")) for line in lines]

    def picture(self, width: int) -> Content:
        """The answer, or the error of the query at the prompt."""
        if self.wrong and (self.message or self.shown is None):
            return joined(boxed(self.evidence(width - 4), self.answer_frame(), width))
        return super().picture(width)

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        return [name for name in super().footer_keys() if name != "place"]


def _reason(value: object) -> str:
    from ...analysis.table.sql import BadQuery
    from .shown import sentence

    return display(str(value)) if isinstance(value, BadQuery) else sentence(value)
