"""What is open and how it is looked at: runs, scope, and for every view its filter, sort, subject and marks.

Plain state without widgets: panes read it, actions change it, ``resume`` writes it down per pair of runs. Filters
are kept as the text the user typed, so that nothing heavy is imported to hold one.
"""

from __future__ import annotations

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
"""What of two runs a view looks at."""
SUBJECTS: tuple[Subject, ...] = get_args(Subject)
Choice = Literal["shown", "hidden", "wide"]
"""What a user wants of a column."""


class Arrangement(Struct, frozen=True):
    """Which rows, in which order: what ``u`` goes back to."""

    filter: str = ""
    invert: bool = False
    sort: str | None = None
    descending: bool = True
    alternate: bool = False

    def shape(self, view: View) -> View:
        """The view, or its other shape where that is wanted and there is one."""
        return view.other if self.alternate and view.other is not None else view

    def apply(self, table: Table, view: View) -> Table:
        """The table so arranged. Raises BadFilter."""
        from ...analysis.table.filters import Filter

        if self.filter:
            table = table.filtered(Filter(self.filter, invert=self.invert))
        names = {column.name for column in table.columns}
        if self.sort in names:
            return table.sort(table.stand_in(str(self.sort)), self.descending)
        other = view.other_order(table.columns)
        if self.alternate and other is not None:
            return table.sort(other.name, not other.ascends)
        return table


class ViewState(Struct):
    """How one view is looked at."""

    arrangement: Arrangement = field(default_factory=Arrangement)
    past: list[Arrangement] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    cursor: int = 0
    search: str = ""
    matches: int = 0
    notes: dict[int, str] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)
    """What marked rows say, for a page that carries them away; notes are on marked rows."""
    aside: ViewState | None = None
    """Marks and cursor of the other shape, whose rows are others."""

    def turn(self) -> None:
        """The rows are those of the other shape: what was marked among these is for when they come back."""
        back = self.aside or ViewState()
        self.aside = replace(self, aside=None)
        self.marks, self.cursor, self.notes, self.words = back.marks, back.cursor, back.notes, back.words

    def change(self, arrangement: Arrangement) -> None:
        """Arrange otherwise, remembering how it was."""
        if arrangement != self.arrangement:
            self.past = [*self.past[-19:], self.arrangement]
            self.arrangement = arrangement

    def undo(self) -> bool:
        """Back to the arrangement before; False where there was none."""
        if not self.past:
            return False
        self.arrangement = self.past.pop()
        return True


class TimeNote(Struct, frozen=True):
    """A note on a stretch of a run (0 for A), from ``start`` to ``end`` (ns, as its timeline has them); ``where`` is
    what lies there."""

    run: int
    start: int
    end: int
    where: str
    text: str


Span = tuple[int, int]
"""From when to when, ns in the time of its run."""
Ranges = tuple[Span | None, Span | None]
"""The range of time marked in A, and in B."""


class Session(Struct):
    """Everything open. ``epoch`` rises when any answer may have changed: traces came, the scope moved."""

    inputs: list[Run] = field(default_factory=list)
    cycle: int | None = None
    cycle_b: int | None = None
    rank: int | None = None
    rank_b: int | None = None
    ranges: Ranges = (None, None)
    """Marked in the timeline; every view is limited to them once each run has one."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    per: Per = "cycle"
    subject: Subject = "both"
    """What of two runs every view shows that can show it; ``x`` switches it for the whole app."""
    views: dict[str, ViewState] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    query: str = ""
    """The SQL that the view of that name shows the result of."""
    current: str = ""
    epoch: int = 0
    details: bool = True
    """Whether the details of the row under the cursor stand beside the list, where there is room."""
    place: tuple[int, dict[str, Any]] | None = None
    """A row to be shown in the timeline, and the run it is of (0 for A)."""
    columns: dict[str, dict[str, Choice]] = field(default_factory=dict)
    """What was chosen of the columns of each view, by their names."""
    time_notes: list[TimeNote] = field(default_factory=list)
    hinted: set[str] = field(default_factory=set)
    deeds: list[str] = field(default_factory=list)
    """What ``u`` undoes, the last one last: the view whose arrangement changed, or '' for the scope."""
    scopes: list[tuple[int | None, int | None, int | None, int | None, Ranges]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    """Further options of the command line: cycle_anchor, and scopes that no key changes."""
    opened_from: str = ""
    """The history that what is open was chosen from; '' where it was not."""
    opened: Runs = ()
    labelled: Runs = ()
    """``opened`` under titles that tell them apart; the same objects as long as what is open is the same."""
    labelled_before: list[tuple[Runs, Runs]] = field(default_factory=list)
    answers: Answers = field(default_factory=Answers)
    reopening: Reopening = field(default_factory=Reopening)

    @property
    def traces(self) -> Runs:
        """The runs as views take them: one, or A and B."""
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
    def remembered(self) -> Runs:
        """The runs of which answers are kept: those open now, and those that opening their path again gives back."""
        known = self.reopening.traces
        pairs = (
            labelled for before, labelled in self.labelled_before
            if all(any(one is trace for trace in known) for one in before)
        )
        return (*self.traces, *known, *(trace for pair in pairs for trace in pair))

    @property
    def marked(self) -> list[tuple[str, str, str]]:
        """Every marked row that was seen: view, what the row says, the note on it or ''; and every note on a time."""
        return [
            (name, state.words[mark], state.notes.get(mark, ""))
            for name, shown in self.views.items() for state in (shown, shown.aside or ViewState())
            for mark in sorted(state.marks) if mark in state.words
        ] + [("timeline", self.told(one), one.text) for one in self.time_notes]

    def told(self, note: TimeNote) -> str:
        """Where a note on a time is, in words."""
        from ...analysis.core import units

        side = f"{'AB'[note.run]} " if len(self.traces) > 1 else ""
        length = f" for {units.duration(note.end - note.start)}" if note.end > note.start else ""
        return f"{side}{note.where} at {units.duration(note.start)}{length}"


    @property
    def loading(self) -> bool:
        """Whether an input is still being read."""
        return any(run.state == "loading" for run in self.inputs)

    @property
    def partial(self) -> bool:
        """Whether what is shown are first rows only, or one run of two."""
        return self.loading or self.preview

    @property
    def preview(self) -> bool:
        """Whether a run is shown by its first rows only: no figure of it is one of the run."""
        return any(run.partial for run in self.inputs)

    def state(self, view: str) -> ViewState:
        """How that view is looked at."""
        return self.views.setdefault(view, ViewState())

    def subjects(self, view: View) -> tuple[Subject, ...]:
        """What ``x`` goes through in that view."""
        if len(self.traces) < 2:
            return ("both",)
        if view.free_columns:
            return ("both",)
        if not view.two_runs or view.pair_columns == view.columns:
            return ("A", "B")  # it shows one at a time
        return ("both", "A", "B") if view.one_run else ("both",)

    @property
    def options(self) -> Options:
        """What every question is asked with, apart from which run."""
        given = Options(cycle=self.cycle, cycle_b=self.cycle_b, thresholds=self.thresholds, **self.extra)
        ranks = {name: rank for name, rank in (("rank", self.rank), ("rank_b", self.rank_b)) if rank is not None}
        if self.ranged:
            (first, last), window_b = self.ranges[0] or (None, None), self.ranges[1]
            return replace(given, from_ns=first, to_ns=last, window_b=window_b, **ranks)
        return replace(given, **ranks)

    @property
    def ranged(self) -> bool:
        """Whether each run has a range, so that views are limited to them."""
        return self.would_limit(self.ranges)

    def would_limit(self, ranges: Ranges) -> bool:
        """Whether these are one for each run that is open."""
        return all(ranges[: max(1, len(self.traces))])

    def question(self, view: View, subject: str = "") -> tuple[Runs, Options]:
        """The runs and options to ask the view with, of the runs chosen last or of that ``subject``."""
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
        """Go to a view, remembering where we were."""
        if view != self.current:
            if self.current:
                self.history = [*self.history[-49:], self.current]
            self.current = view

    def back(self) -> str | None:
        """The view before this one, which becomes the current one; None at the start."""
        if not self.history:
            return None
        self.current = self.history.pop()
        return self.current

    def scope(
        self, cycle: int | None, cycle_b: int | None = None, rank: int | None = None, rank_b: int | None = None,
        ranges: Ranges = (None, None),
    ) -> None:
        """Limit every view to one cycle of each run, and of a job to one rank's, or to a range of time of each; None
        and None is all of them."""
        self.scopes.append((self.cycle, self.cycle_b, self.rank, self.rank_b, self.ranges))
        self.cycle, self.cycle_b = cycle, cycle_b
        self.rank, self.rank_b = rank, rank_b
        self.ranges = ranges
        self.epoch += 1

    @property
    def scope_text(self) -> str:
        """The scope in words, for the state line; empty where there is none."""
        return scope_text(self.options, max(1, len(self.traces)))
