"""A view's answer on the screen: queried in the background, arranged, searched, shown as a list under its summary.

Invariants: a query never blocks the UI, a stale answer is never shown, and filter, order, scope and marks are kept when
a new answer arrives. What the keys do with the rows is ``table.TablePane``, its only heir.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import asdict, replace
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ...analysis.views import Entry
from ..list.frame import Frame, boxed, with_base
from ..list.table_list import TableList
from ..session import resume
from ..session.jobs import QueryRunner
from ..session.messages import PaneHost
from ..session.session import Arrangement, Session, ViewState
from ..widgets.drawing import NUMBER_LINES, fitting, joined, summary, with_number
from ..widgets.notice import Notice
from .picture import MOST_HEIGHT, Picture
from .shown import ELSEWHERE, Shown, absent, arranged, rows_of, scoped_table, sentence
from .side_panel import AMPLE, BELOW_HEIGHT, BELOW_WIDTH, LEAST_LINES, WIDE, SidePanel

if TYPE_CHECKING:
    from ...analysis.contract.column import Column
    from ...analysis.contract.view import View
    from ...analysis.details.row_details import Glance
    from ...analysis.table.table import Table


COMPUTING = "Rows appear here once they are computed."
LEAST_LED = 24
"""Lines of a pane from which its key figure is drawn in large digits."""


class AnsweredPane(Container, can_focus=False):
    """The answer of one view of the open runs."""

    BLANK = True
    """Only its children show anything, so Textual need not cache, crop and filter blank lines for it on every key."""
    draws_shares: bool | None = None
    """Whether shares of the base are shown; None: where the list has any fraction."""
    _search_due = False
    due: Callable[[], None] | None = None
    """What a key asked for before the rows were there; done with the rows, forgotten on ^C."""

    class Changed(Message):
        """The state shown in the lines around the pane changed."""

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(id=f"pane-{entry.name}")
        self.entry, self.session = entry, session
        self.shown: Shown | None = None
        self.own_options: dict[str, Any] = {}  # query options of this view only
        self.subject = ""
        self.message = ""
        self._epoch = -1
        self.runner, self.arranger = QueryRunner(self.app), QueryRunner(self.app)
        self.base_facts: dict[str, Any] = {}
        self._base_runner = QueryRunner(self.app)
        self.rows = TableList()
        self.side_panel = SidePanel()
        self.drawing = Picture(self, self.picture)
        self.notice = Notice(entry.title, classes="message")

    def compose(self) -> ComposeResult:
        """Picture above, list below; a message instead of the list if there is no answer."""
        yield self.drawing
        yield self.notice
        yield self.side_panel
        yield self.rows

    @property
    def state(self) -> ViewState:
        """Filter, order, cursor, search and marks of this view."""
        return self.session.state(self.entry.name)

    @property
    def main(self) -> PaneHost:
        """The screen, as the interface a pane may call."""
        return cast("PaneHost", self.screen)

    @property
    def runners(self) -> tuple[QueryRunner, ...]:
        """The query runners that ^C cancels: of the view, of filtering and sorting, and of the list's own sorting.

        They are separate, so that filtering the previous answer does not discard the view's query in progress.
        """
        return self.runner, self.arranger, self.rows.runner

    @property
    def is_deciding(self) -> bool:
        """Whether what was entered at the prompt is still being computed."""
        return self.arranger.busy

    @property
    def table(self) -> Table | None:
        """The rows shown, filtered and sorted."""
        return self.shown.table if self.shown else None

    lists_nothing = False
    """Whether the pane is of use without any row, as a prompt or a picture is."""

    @property
    def focused_part(self) -> Widget:
        """The widget to focus when the view is opened: the list, or the message in its place."""
        return self.notice if self.message else self.rows

    @property
    def view(self) -> View | None:
        """The view whose answer is on the screen; None if there is none."""
        return None if self.shown is None else self.shown.view

    @property
    def exported(self) -> Table | None:
        """The table an export writes: the rows as shown."""
        return self.table

    def queried_view(self) -> View:
        """The view to query, in its first shape."""
        return self.entry.load()

    def query_if_stale(self, force: bool = False) -> None:
        """The view came into sight: query it if runs or scope changed since the last query."""
        if not self.session.traces:
            self.forget()
            self.show_text(COMPUTING if self.session.loading else "")
        elif force or self._epoch != self.session.epoch:
            self._epoch = self.session.epoch
            self._ask_anew()
        else:
            self.make_room()
            self.do_due()
        self.report_change()

    def forget(self) -> None:
        """Clear the rows."""
        self.shown, self.base_facts = None, {}
        self._base_runner.drop()
        self.rows.show(None)
        self.side_panel.about(None)  # its lookup would keep the recordings in memory

    def _ask_anew(self) -> None:
        """Query the view; if filter or sort changed meanwhile, apply them to the answer."""
        arrangement = self.state.arrangement

        def take(value: Any) -> None:
            self._take(value)
            if self.shown is not None and arrangement != self.state.arrangement:
                self.rearrange()

        self.runner.ask(self._question(), take)

    def _question(self) -> Any:
        session, arrangement, own = self.session, self.state.arrangement, dict(self.own_options)

        def job() -> Shown:
            view = arrangement.shape(self.queried_view())
            runs, options = session.question(view)
            options = replace(options, **own)
            table = session.answers.ask(view, runs, options, session.cached_runs).compared(session.per)
            return arranged(view, scoped_table(table.without_empty_rows(), runs, options), arrangement)

        return job

    def rearrange(self) -> None:
        """Filter and sort the current answer by the view's state."""
        self.apply_arrangement(self.state.arrangement)

    def apply_arrangement(self, arrangement: Arrangement, keep_bad: bool = True) -> None:
        """Filter and sort the current answer; a bad filter is rejected at the prompt unless ``keep_bad``."""
        shown = self.shown
        if shown is None or self._other_shape(arrangement, shown):
            self.arranger.drop()
            self.state.change(arrangement)
            self.main.close_prompt()
            self.query_if_stale(force=True)
            return

        def take(value: Any) -> None:
            if self.shown is None or self.shown.base is not shown.base:  # a new answer arrived meanwhile
                self.apply_arrangement(arrangement, keep_bad)
                return
            if not keep_bad:
                if isinstance(value, Shown) and value.bad_filter:
                    self.main.refuse(value.bad_filter)
                    self.report_change()
                    return
                self.main.close_prompt()
            self.state.change(arrangement)
            self.session.undo_stack.append(self.entry.name)
            self._take(value)

        self.arranger.ask(lambda: self.arranged_anew(shown, arrangement), take)

    def arranged_anew(self, shown: Shown, arrangement: Arrangement) -> Shown:
        """An answer that is on the screen, filtered and sorted in another way."""
        return arranged(shown.view, shown.base, arrangement)

    def _other_shape(self, arrangement: Arrangement, shown: Shown) -> bool:
        """Whether this arrangement needs another shape of the view than the one shown."""
        view = self.queried_view()
        return view.other is not None and arrangement.shape(view) is not shown.view

    def caption(self, border: Frame) -> None:
        """Set the text in the border of the rows."""
        self.rows.caption(border)

    def report_change(self) -> None:
        """Report that the lines around the pane may have changed."""
        self.post_message(self.Changed())

    def _take(self, value: Any) -> None:
        if isinstance(value, Shown):
            other = self.shown is None or self.shown.base is not value.base
            self.state.switch_rows(rows_of(value, self.queried_view(), self.session))
            self.shown, self.subject = value, self.session.subject
            if other:
                self.side_panel.about(self._glance())
                self._ask_base(value.base)
            self.show_text("" if len(value.base) or self.lists_nothing else absent(value.base))
            self.show(value)
            self.search_again()
            self.do_due()
        else:
            self.due = None
            self.forget()
            self.show_text(f"○ {sentence(value)}\n{ELSEWHERE}")
        self.main.update_lines()  # a call, not a message: the lines around the pane belong to the same frame

    def _ask_base(self, table: Table) -> None:
        """Find out what 100% is, after the answer is there: finding cycles may take longer than the answer."""

        def take(value: Any) -> None:
            if isinstance(value, dict) and value != self.base_facts:
                self.base_facts = value
                self._settle()  # a large number beside the sentences wraps them

        if self._shows_shares(table.columns):
            self._base_runner.ask(lambda: table.all_facts, take)

    def _shows_shares(self, columns: Sequence[Column]) -> bool:
        return any(one.unit == "fraction" for one in columns) if self.draws_shares is None else self.draws_shares

    def show(self, shown: Shown) -> None:
        """Show the answer on the screen."""
        self.make_room()
        if (name := shown.view.name) not in self.session.columns:
            self.session.columns[name] = dict(resume.columns(name))
        self.rows.choose(self.session.columns[name])
        before, marked = self.rows.table, (set(self.state.marks), self.state.cursor)
        self.rows.show(shown.table)
        if not self.session.partial and not (before is not None and before.same_rows(shown.table)):
            self.rows.marks.update(mark for mark in marked[0] if self.still_there(mark, shown.table))
            self.rows.go(marked[1])
        self.follow_cursor()
        self.rows.empty = "No row matches the filter: Esc clears it, f changes it." if len(shown.base) else "No rows."
        self.drawing.redraw()
        self.call_after_refresh(self._settle)  # an early answer comes before the pane has a height

    def _settle(self) -> None:
        self.drawing.redraw()
        self.make_room()

    def _glance(self) -> Callable[[], Glance] | None:
        """Makes the details lookup of this answer; None where rows have no details or loading is not finished."""
        shown = self.shown
        if shown is None or shown.view.details is None or self.session.partial:
            return None
        view, asked = shown.view, self.session.question(shown.view, self.subject)  # those the rows on screen came from

        def make() -> Glance:
            from ...analysis.details.row_details import glance_of

            return glance_of(view, *asked)

        return make

    def list_lines(self) -> int:
        """Lines the list needs to show all its rows."""
        return self.rows.lines + 3

    def make_room(self) -> None:
        """Place the side panel where there is room, or hide it."""
        (width, height), shown = self.app.size, self.shown
        self.drawing.limit()
        wanted = shown is not None and shown.view.details is not None and len(shown.table) > 0
        wanted = wanted and self.session.details and not self.message
        left = self.size.height - self.drawing.lines - self.list_lines()
        right = wanted and width >= WIDE and height > LEAST_LINES and left < AMPLE
        small = width < BELOW_WIDTH or height < BELOW_HEIGHT or left < LEAST_LINES
        if self.side_panel.place(right, 0 if right or small or not wanted else left, width):
            self.follow_cursor()
            self.call_after_refresh(self._settle)  # the picture above wraps at another width now

    def follow_cursor(self) -> None:
        """Show the details of the row under the cursor in the side panel."""
        self.side_panel.follow(self.rows.table, self.rows.cursor)

    def show_text(self, text: str) -> None:
        """Show a sentence in place of the list; '' shows the list again."""
        self.message = text
        self.notice.show_text(text)
        self.notice.display = bool(text)
        self.rows.display = not text
        if text:
            self.side_panel.place(False, 0, 0)
        self._keep_keys()
        self.drawing.redraw()

    def _keep_keys(self) -> None:
        """Move the focus between the list and the sentence in its place, whichever is visible."""
        if self.is_attached and self.screen.focused in (self.rows, self.notice):
            self.screen.set_focus(self.focused_part)

    def picture(self, width: int) -> Content:
        """The drawing above the list: the summary and its evidence."""
        if self.shown is None or self.message:
            return Content("")
        from ...analysis.overview.leads import lead_of

        shown = self.shown
        number = lead_of(shown.base, self.base_facts) if self.size.height >= LEAST_LED else None
        led = None if number is None else asdict(number)
        sentences, below = self.sentences(shown), self.evidence(width - 4)
        most = max(4, int(MOST_HEIGHT * self.size.height) - 2 - len(below))
        beside = False

        def drawn(cells: int, room: int) -> list[Content]:
            nonlocal beside
            words = summary(fitting(sentences, lambda lines: summary(lines, cells), room), cells)
            beside = led is not None and len(words) + len(below) <= NUMBER_LINES
            return [*words, *(self.evidence(cells) if beside else ())]

        lines = [*with_number(led, drawn, width - 4, most), *(() if beside else below)]
        if not lines:
            return Content("")
        frame, listed = self.answer_frame(), [one for one in shown.base.columns if one.order is not None]
        if any(one.lasting for one in listed) and self._shows_shares(listed):
            frame = with_base(frame, self.base_facts, width)
        return joined(boxed(lines, frame, width, self.drawing.has_focus))

    def sentences(self, shown: Shown) -> tuple[str, ...]:
        """The summary above the list."""
        return shown.table.summary

    def evidence(self, width: int) -> list[Content]:
        """The drawing below the summary."""
        return []

    def drawn_text(self) -> tuple[str, ...]:
        """The evidence as text, for an export."""
        lines = self.evidence(96) if self.shown is not None and not self.message else []
        return tuple(line.plain.rstrip() for line in lines)

    def answer_frame(self) -> Frame:
        """Texts in the border of the answer."""
        return Frame(self.entry.title)

    def on_resize(self) -> None:
        """Lay out again: the drawings depend on the height."""
        self.call_after_refresh(self._settle)

    def search(self, text: str) -> None:
        """Go to the first row that contains the text, and keep it for n and N; '' ends the search."""
        self.state.search = text
        row = self.rows.search(text)
        self.state.matches = self.rows.table.matches(text) if row and self.rows.table is not None else 0
        self._search_due = bool(text) and not row and (
            self.shown is None or self.session.partial or self.runner.busy)
        if text and not row and self.shown is not None:
            self.main.refuse("No match.")
        self.report_change()

    def search_again(self) -> None:
        """Repeat a search that was typed before there were rows to find."""
        if self._search_due:
            self.search(self.state.search)

    @property
    def awaits_rows(self) -> bool:
        """Whether the rows of the whole recording are still to come."""
        return self.runner.busy or self.session.partial or (self.shown is None and self.session.loading)

    def later(self, action: Callable[[], None]) -> bool:
        """Whether the rows are still to come; then the action follows them."""
        if self.awaits_rows:
            self.due = action
        return self.awaits_rows

    def do_due(self) -> None:
        """The rows arrived: do what a key asked for before, if these are all."""
        if self.due is not None and not self.awaits_rows:
            action, self.due = self.due, None
            action()

    def still_there(self, mark: int, table: Table) -> bool:
        """Whether the mark of an earlier session is on the row it was set on: another scope has other rows."""
        from ...analysis.table.table import row_words

        place, words = table.position(mark), self.state.words.get(mark)
        if place is None or words is None:
            return mark < table.total_rows
        return row_words(table.columns, table.window(place, place + 1)[0]) == words

    def hint(self, text: str) -> None:
        """Say why a key does nothing here; the second time only ring the bell."""
        if text in self.session.hinted:
            self.app.bell()
            return
        self.session.hinted.add(text)
        self.notify(text, markup=False)
