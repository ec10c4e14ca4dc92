"""Open runs and how they are viewed: scope, run shown (A, B or both), and each view's filter, sort and marks.

Plain state without widgets: panes read it, actions change it, ``resume`` saves it for each set of inputs. Filters are
kept as the text the user typed, so that holding one imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from ...analysis.contract.column import Per
from ...analysis.contract.options import Options, Thresholds
from ...analysis.core.run_labels import scope_text
from .answers import Answers
from .opening import Run
from .reopening import MOST_RUNS, Reopening

if TYPE_CHECKING:
    from ...analysis.contract.view import Runs, View
    from ...analysis.table.table import Table

Subject = Literal["both", "A", "B"]
"""Which of two runs a view shows."""
SUBJECTS: tuple[Subject, ...] = get_args(Subject)
Choice = Literal["shown", "hidden", "wide"]
"""The user's setting for a column."""


MOST_OPEN = 8
"""Recordings open at once: A, B and those that ``O`` lists."""


class Arrangement(Struct, frozen=True):
    """Filter and sort order of a view: what ``u`` undoes."""

    filter: str = ""
    invert: bool = False
    sort: str | None = None
    descending: bool = True
    alternate: bool = False

    def shape(self, view: View) -> View:
        """The view, or its other shape (such as a tree) if ``alternate`` is set and it has one."""
        return view.other if self.alternate and view.other is not None else view

    def apply(self, table: Table, view: View) -> Table:
        """The table filtered and sorted. Raises BadFilter."""
        from ...analysis.table.filters import Filter

        if self.filter:
            table = table.filtered(Filter(self.filter, invert=self.invert))
        names = {column.name for column in table.columns}
        if self.sort in names:
            return table.sort(table.column_in_basis(str(self.sort)), self.descending)
        other = view.other_order(table.columns)
        if self.alternate and other is not None:
            return table.sort(other.name, not other.ascends)
        return table


class ViewState(Struct):
    """Filter, order, cursor, search and marks of one view."""

    arrangement: Arrangement = field(default_factory=Arrangement)
    past: list[Arrangement] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    cursor: int = 0
    search: str = ""
    matches: int = 0
    notes: dict[int, str] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)
    """Text of each marked row, for the triage page; only marked rows have notes."""
    rows: str | None = None
    """Which rows marks, cursor and notes are of (shape, run and scope); None before an answer was shown."""
    others: dict[str, ViewState] = field(default_factory=dict)
    """Marks, cursor and notes of other rows of this view."""

    def switch_rows(self, rows: str) -> None:
        """Other rows are shown: set marks, cursor and notes aside and take up those of these rows."""
        if rows == self.rows:
            return
        if self.rows is not None:
            self.others[self.rows] = replace(self, others={})
        if self.rows is not None or rows in self.others:
            back = self.others.pop(rows, ViewState())
            self.marks, self.cursor, self.notes, self.words = back.marks, back.cursor, back.notes, back.words
        self.rows = rows

    @property
    def scope(self) -> str:
        """The scope of the rows, in words."""
        return (self.rows or "").rpartition("|")[2]

    def change(self, arrangement: Arrangement) -> None:
        """Set the arrangement and push the old one on the undo stack."""
        if arrangement != self.arrangement:
            self.past = [*self.past[-19:], self.arrangement]
            self.arrangement = arrangement

    def undo(self) -> bool:
        """Restore the previous arrangement; False if there is none."""
        if not self.past:
            return False
        self.arrangement = self.past.pop()
        return True


class TimeNote(Struct, frozen=True):
    """A note on ``start`` to ``end`` (ns of the timeline) of a run (0 for A); ``where`` names the place it is on."""

    run: int
    start: int
    end: int
    where: str
    text: str


Span = tuple[int, int]
"""Start and end, ns on the clock of its run."""
Ranges = tuple[Span | None, Span | None]
"""The time ranges marked in A and in B."""


class Session(Struct):
    """State of the whole app. ``epoch`` rises when any answer may have changed: a trace loaded, the scope changed."""

    inputs: list[Run] = field(default_factory=list)
    """What is shown: one input, or A and B."""
    recordings: list[str] = field(default_factory=list)
    """The paths of all open recordings, ``MOST_OPEN`` at most, in the order in which they were opened."""
    cycle: int | None = None
    cycle_b: int | None = None
    rank: int | None = None
    rank_b: int | None = None
    ranges: Ranges = (None, None)
    """Marked in the timeline; they limit every view once each run has one."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    per: Per = "cycle"
    subject: Subject = "both"
    """Which runs every view shows that has the choice; ``x`` switches it for the whole app."""
    views: dict[str, ViewState] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    query: str = ""
    """The SQL statement of the view ``sql``."""
    current: str = ""
    epoch: int = 0
    details: bool = True
    """Whether the side panel with the details of the current row is shown, where there is room."""
    place: tuple[int, dict[str, Any]] | None = None
    """A row to show in the timeline, with the index of its run (0 for A)."""
    columns: dict[str, dict[str, Choice]] = field(default_factory=dict)
    """Column choices of each view, by column name."""
    time_notes: list[TimeNote] = field(default_factory=list)
    hinted: set[str] = field(default_factory=set)
    undo_stack: list[str] = field(default_factory=list)
    """Undo stack of ``u``, newest last: the view whose arrangement changed, or '' for the scope."""
    scopes: list[tuple[int | None, int | None, int | None, int | None, Ranges]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    """Further command-line options: cycle_anchor, and scopes that no key changes."""
    opened_from: str = ""
    """The history from which the open runs were chosen; '' if from none."""
    opened: Runs = ()
    labelled: Runs = ()
    """``opened`` with distinct labels; the same objects as long as the open runs are the same."""
    labelled_before: list[tuple[Runs, Runs]] = field(default_factory=list)
    answers: Answers = field(default_factory=Answers)
    reopening: Reopening = field(default_factory=Reopening)

    def add(self, paths: Sequence[str], in_place: bool = False) -> bool:
        """Add these to the open recordings. Beyond ``MOST_OPEN`` nothing is added and the answer is False; with
        ``in_place`` the ones opened first give way instead."""
        every = [*self.recordings, *(path for path in dict.fromkeys(paths) if path not in self.recordings)]
        if len(every) > MOST_OPEN:
            if not in_place:
                return False
            old = [path for path in every if path not in paths][: len(every) - MOST_OPEN]
            every = [path for path in every if path not in old]
        self.recordings = every
        return True

    @property
    def traces(self) -> Runs:
        """The runs in the form views take: one run, or A and B."""
        if len(self.inputs) == 1:
            return self.inputs[0].traces[:2]
        opened = tuple(trace for run in self.inputs for trace in run.traces[:1])[:2]
        if not (len(opened) == len(self.opened) and all(a is b for a, b in zip(opened, self.opened, strict=True))):
            self.opened, self.labelled = opened, self._labelled(opened)
        return self.labelled

    def _labelled(self, opened: Runs) -> Runs:
        for before, labelled in self.labelled_before:
            if len(before) == len(opened) and all(a is b for a, b in zip(before, opened, strict=True)):
                return labelled
        from ...analysis.core.run_labels import distinct_labels

        self.labelled_before.append((opened, distinct_labels(opened)))
        del self.labelled_before[:-MOST_RUNS]
        return self.labelled_before[-1][1]

    @property
    def cached_runs(self) -> Runs:
        """The runs whose answers stay cached: those open now, and those that reopening their path returns."""
        traces = self.reopening.traces
        pairs = (
            labelled for before, labelled in self.labelled_before
            if all(any(one is trace for trace in traces) for one in before)
        )
        return (*self.traces, *traces, *(trace for pair in pairs for trace in pair))

    @property
    def marked(self) -> list[tuple[str, str, str]]:
        """View, row text and note ('' for none) of every marked row whose text is known; then every time note."""
        return [
            (name, " · ".join(filter(None, (state.words[mark], state.scope))), state.notes.get(mark, ""))
            for name, shown in self.views.items() for state in (shown, *shown.others.values())
            for mark in sorted(state.marks) if mark in state.words
        ] + [("timeline", self.note_position(one), one.text) for one in self.time_notes]

    def note_position(self, note: TimeNote) -> str:
        """The position of a time note, in words."""
        from ...analysis.core import units

        side = f"{'AB'[note.run]} " if len(self.traces) > 1 else ""
        length = f" for {units.duration(note.end - note.start)}" if note.end > note.start else ""
        return f"{side}{note.where} at {units.when(note.start, note.end - note.start)}{length}"

    @property
    def loading(self) -> bool:
        """Whether an input is still being read."""
        return any(run.state == "loading" for run in self.inputs)

    @property
    def partial(self) -> bool:
        """Whether an input is still being read, or a run is shown by its first rows only."""
        return self.loading or self.preview

    @property
    def preview(self) -> bool:
        """Whether a run is shown by its first rows only, so that no figure holds for the whole run."""
        return any(run.partial for run in self.inputs)

    def state(self, view: str) -> ViewState:
        """The state of that view, created on first use."""
        return self.views.setdefault(view, ViewState())

    def subjects(self, view: View) -> tuple[Subject, ...]:
        """The values ``x`` cycles through in that view."""
        if len(self.traces) < 2:
            return ("both",)
        if view.free_columns:
            return ("both",)
        if not view.two_runs or view.pair_columns == view.columns:
            return ("A", "B")  # it shows one run at a time
        return ("both", "A", "B") if view.one_run else ("both",)

    @property
    def options(self) -> Options:
        """The options of every query, for both runs."""
        given = Options(cycle=self.cycle, cycle_b=self.cycle_b, thresholds=self.thresholds, **self.extra)
        ranks = {name: rank for name, rank in (("rank", self.rank), ("rank_b", self.rank_b)) if rank is not None}
        if self.ranged:
            (first, last), window_b = self.ranges[0] or (None, None), self.ranges[1]
            return replace(given, from_ns=first, to_ns=last, window_b=window_b, **ranks)
        return replace(given, **ranks)

    @property
    def ranged(self) -> bool:
        """Whether each open run has a range, so that views are limited to them."""
        return self.would_limit(self.ranges)

    def would_limit(self, ranges: Ranges) -> bool:
        """Whether there is a range for each open run."""
        return all(ranges[: max(1, len(self.traces))])

    def question(self, view: View, subject: str = "") -> tuple[Runs, Options]:
        """Runs and options to query the view with, for ``subject`` or, if empty, the one currently chosen."""
        subjects = self.subjects(view)
        subject = subject or self.subject
        subject = subject if subject in subjects else subjects[0]
        options = self.options.any_cycle() if view.lists_cycles else self.options
        runs = self.traces
        if subject == "A":
            return runs[:1], options
        if subject == "B":
            return runs[1:2], options.swapped()
        return runs, options

    def visit(self, view: str) -> None:
        """Switch to a view and push the current one on the history."""
        if view != self.current:
            if self.current:
                self.history = [*self.history[-49:], self.current]
            self.current = view

    def back(self) -> str | None:
        """Return to the previous view and give its name; None if there is none."""
        if not self.history:
            return None
        self.current = self.history.pop()
        return self.current

    def scope(
        self, cycle: int | None, cycle_b: int | None = None, rank: int | None = None, rank_b: int | None = None,
        ranges: Ranges = (None, None),
    ) -> None:
        """Limit every view to one cycle, one rank or one time range of each run; None: no limit."""
        self.scopes.append((self.cycle, self.cycle_b, self.rank, self.rank_b, self.ranges))
        self.cycle, self.cycle_b = cycle, cycle_b
        self.rank, self.rank_b = rank, rank_b
        self.ranges = ranges
        self.epoch += 1

    @property
    def scope_text(self) -> str:
        """The scope in words, for the status line; empty if there is none."""
        return scope_text(self.options, max(1, len(self.traces)))
