"""Timeline: lanes of streams and threads, at any zoom from the whole run to 100 ns.

The canvas handles navigation; the pane reads the lanes in the background and looks up what launched the slice under the
cursor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import BindingType

from ....analysis.core.text import display
from ....analysis.views import Entry
from ...list.frame import Frame
from ...session.jobs import QueryRunner
from ...session.keys import bindings
from ...session.messages import ScopeChanged, ViewRequest
from ...session.session import Session, Span, TimeNote
from ..shown import sentence
from ..side_panel import REST
from .canvas import TimelineCanvas
from .exports import TimelineExports

if TYPE_CHECKING:
    from ....analysis.contract.view import Runs, View
    from ....analysis.core.names.display_names import ShortNames
    from ....analysis.timeline.lanes import Timeline
    from ....analysis.timeline.place import Place


class TimelinePane(TimelineExports):
    """The timeline canvas in place of the list."""

    lists_nothing = True

    is_picture = True
    DEFAULT_CSS = "TimelinePane TableList, TimelinePane Picture { display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings("pane")

    def __init__(self, entry: Entry, session: Session) -> None:
        super().__init__(entry, session)
        self._looking, self._marking = QueryRunner(self.app), QueryRunner(self.app)
        self._asked: object = None
        self._begun: dict[int, Span] = {}

    def compose(self) -> ComposeResult:
        """The canvas, or a sentence in its place; the list stays hidden."""
        yield self.notice
        yield self.canvas
        yield self.rows

    @property
    def view(self) -> View | None:
        """The view whose lanes are shown."""
        return self._view

    @property
    def focused_part(self) -> TimelineCanvas:
        """The widget to focus when the view is opened."""
        return self.canvas

    def _question(self) -> Any:
        entry, session = self.entry, self.session

        def job() -> tuple[View, Runs, tuple[Timeline, ...], tuple[int, ...], ShortNames, tuple[tuple[int, int], ...]]:
            from ....analysis.contract.options import SIDES
            from ....analysis.contract.view import CannotAnswer
            from ....analysis.core.names.display_names import short_names_of
            from ....analysis.cycles.whole import steps_in_scope
            from ....analysis.timeline.lanes import timeline_of
            from ....analysis.views.timeline import aligned

            view = entry.load()
            runs, options = session.question(view)
            lanes = tuple(timeline_of(run, options, marks=len(runs) > 1) for run in runs)  # marks align two runs
            for run, one in zip(runs, lanes, strict=True):
                if not one.drawn:
                    raise CannotAnswer(f"{run.info.label} holds no activity or call with a time.")
            names = short_names_of(runs)
            len(names.names)  # computes the display names here, not on the UI thread
            scoped = [steps_in_scope(run, options, side) for run, side in zip(runs, SIDES, strict=False)
                      if options.scope(side).cycle is not None]
            cycles = tuple(one.bounds for one in scoped if one is not None)
            return (view, runs, lanes, aligned([one.extent for one in lanes]), names,
                    cycles if len(cycles) == len(runs) else ())

        return job

    def _take(self, value: Any) -> None:
        if isinstance(value, tuple):
            self._view, self._runs, lanes, offsets, self.canvas.names, cycles = value
            self.subject = self.session.subject
            self.show_text("")
            self.canvas.notes = self.session.time_notes
            self._show_ranges()
            self.canvas.show(lanes, offsets)
            self.canvas.limit(cycles, self.session.question(self._view)[1].scope("a").cycle)
            self._arrive()
            self._ask_more(lanes)
            self.do_due()
        else:
            self.show_text(sentence(value))
        self.main.update_lines()

    def _ask_more(self, lanes: tuple[Timeline, ...]) -> None:
        """Compute queue depths and, for one run, cycle marks in the background; both are added when ready."""
        if self._view is None:
            return
        runs, options = self._runs, self.session.question(self._view)[1]

        def job() -> tuple[Timeline, ...]:
            from ....analysis.timeline.lanes import cycle_marks
            from ....analysis.timeline.queue_depth import queue_depths

            result = []
            for run, one in zip(runs, lanes, strict=True):
                marks = one.marks if len(lanes) > 1 else cycle_marks(run, options)
                result.append(replace(one, marks=marks, counters=(*queue_depths(run, one.clocks), *one.counters)))
            return tuple(result)

        def take(value: Any) -> None:
            if not isinstance(value, Exception) and self.canvas.runs is lanes:
                self.canvas.show(value, self.canvas.offsets)

        self._marking.ask(job, take)

    def on_timeline_canvas_arrow_followed(self, event: TimelineCanvas.ArrowFollowed) -> None:
        """Go to the other end of the launch under the cursor."""
        from ....analysis.timeline.classes import CODES

        event.stop()
        lane, at, run = self.canvas.lane, self.canvas.slice(), self.canvas.run
        if lane is None or at is None or run >= len(self._runs):
            self.hint("No kernel or call is under the cursor. a goes from a kernel to the call that launched it, and "
                      "from that call to its kernel.")
            return
        trace, timeline = self._runs[run], self.canvas.runs[run]
        none = "This slice launches nothing itself; a goes from a launch call to its kernel."
        if lane.tid is None or lane.slices.classes[at] == CODES["launch"]:
            none = "No launch was recorded for this slice."

        def job() -> Any:
            from ....analysis.timeline.place import arrow

            return arrow(trace, timeline, lane, at)

        def take(place: Any) -> None:
            if place is None or isinstance(place, Exception):
                why = none if place is None else sentence(place)
                self.notify(why, markup=False)
            else:
                self.canvas.reach(place, run)

        self._looking.ask(job, take)

    def on_timeline_canvas_path_request(self, event: TimelineCanvas.PathRequest) -> None:
        """Show the critical path of the run under the cursor, through its cycle of median length, or no more."""
        from ....analysis.timeline.window import cycle_at

        event.stop()
        run, view = self.canvas.run, self._view
        if view is None or run >= len(self.canvas.runs):
            return
        lanes = self.canvas.runs

        def put(one: Timeline) -> None:
            self.canvas.show(tuple(one if at == run else each for at, each in enumerate(self.canvas.runs)),
                             self.canvas.offsets)

        if lanes[run].path is not None:
            put(replace(lanes[run], path=None))
            return
        trace, options = self._runs[run], self.session.question(view)[1]

        def job() -> Timeline:
            from ....analysis.timeline.path_lane import with_path

            return with_path(lanes[run], trace, options.swapped() if run else options)

        def take(value: Any) -> None:
            if isinstance(value, Exception):
                self.notify(sentence(value), markup=False)
            elif self.canvas.runs is lanes and value.path is not None:
                put(value)
                start, end = int(value.path.slices.starts[0]), int(value.path.slices.ends.max())
                self.canvas.span(start, end, run)
                if (cycle := cycle_at(value, (start + end) // 2)) is not None and len(value.marks.starts) > 1:
                    self.hint(f"This is the critical path of {display(cycle[2], 40)}, the cycle of median length.")

        self._marking.ask(job, take)

    def on_timeline_canvas_range_request(self, event: TimelineCanvas.RangeRequest) -> None:
        """Begin, end or drop a range at the cursor; once both runs have one, their diff opens."""
        event.stop()
        if not self.canvas.runs:
            return
        run, other_end, here = self.canvas.run, self._begun.pop(self.canvas.run, None), self.canvas.span_here()
        if self.session.ranges[run] is not None:
            self._limit(run, None)
        elif other_end is None:
            self._begun[run] = here
            self.hint("The range begins here; c at its last slice ends it, Esc drops it.")
        else:
            self._limit(run, (min(other_end[0], here[0]), max(other_end[1], here[1])))
        self._show_ranges()

    def _limit(self, run: int, span: Span | None) -> None:
        """Set or drop a run's range; the scope of all views changes once each run has one, or no longer has."""
        session = self.session
        a, b = session.ranges
        ranges, before = (span, b) if run == 0 else (a, span), session.ranged
        if not before and not session.would_limit(ranges):
            session.ranges = ranges
            self.hint(f"The range of {'AB'[run]} is marked; mark one in {'BA'[run]}, too, and their diff is shown.")
            return
        session.scope(None, None, session.rank, session.rank_b, ranges)
        session.undo_stack.append("")
        self.app.post_message(ScopeChanged() if before or len(session.traces) < 2 else ViewRequest("diff"))

    def leave(self) -> bool:
        """Drop a range that has no end yet; True if there was one."""
        left = bool(self._begun)
        self._begun.clear()
        self._show_ranges()
        return left

    def forget(self) -> None:
        """Clear the rows and any range begun in the previous runs."""
        self._begun.clear()
        super().forget()

    def _show_ranges(self) -> None:
        a, b = self.session.ranges
        self.canvas.ranges = self._begun.get(0, a), self._begun.get(1, b)
        self.canvas.changed()

    def query_if_stale(self, force: bool = False) -> None:
        """The view came into sight, possibly to show the place of a row."""
        super().query_if_stale(force)
        if self.canvas.runs and not self.runner.busy:
            self._arrive()

    def _arrive(self) -> None:
        """Go to the row on which ``t`` was pressed."""
        from ....analysis.timeline.place import find

        wanted, self.session.place = self.session.place, None
        if wanted is None:
            return
        run, row = wanted
        run = min(run, len(self.canvas.runs) - 1)
        if row.get("start_ns") is None and len(self.canvas.runs) > 1 and self.session.subject == "both":
            run = 1 if find(self.canvas.runs[1], row) is not None else 0  # a row of both runs: show the change, in B
        place = find(self.canvas.runs[run], row)
        if place is None:
            self.notify("This row has no time, so the timeline cannot show it.", markup=False)
        else:
            self.canvas.go(place, run)

    def show_text(self, text: str) -> None:
        """Show a sentence in place of the canvas; '' shows the canvas again."""
        self.message = text
        self.notice.show_text(text)
        self.notice.display = bool(text)
        self.canvas.display = not text

    def make_room(self) -> None:
        """No side panel: the lanes take all the room."""

    def caption(self, border: Frame) -> None:
        """Set the text in the border of the lanes."""
        self.canvas.caption(border)

    def action_note(self) -> None:
        """Prompt for a note at the cursor; an existing one can be edited."""
        if not self.canvas.runs:
            self.app.bell()
            return
        note = self.canvas.note_here()
        self.main.ask_for("note", note.text if note else "", "what to remember of this time")

    def _note(self, text: str) -> None:
        """Save the note at the cursor; '' removes it."""
        note, notes = self.canvas.note_here(), self.session.time_notes
        if note is not None:
            notes.remove(note)
        if text:
            start, end, where = self.canvas.under_cursor()
            notes.append(TimeNote(self.canvas.run, start, end, where, text))
        self.canvas.notes = notes
        self.canvas.changed()

    def on_lane_view_moved(self, event: TimelineCanvas.Moved) -> None:
        """Look up what launched the slice, once the cursor rests, so that no frame shares CPU time with the lookup."""
        event.stop()
        lane, at, run = self.canvas.lane, self.canvas.slice(), self.canvas.run
        self._looking.drop()
        if lane is None or at is None or lane.tid is not None or run >= len(self._runs):
            return
        trace = self._runs[run]

        def job() -> str:
            from ....analysis.timeline.place import launcher

            return launcher(trace, lane, at)

        def take(note: Any) -> None:
            self.canvas.show_text(note if isinstance(note, str) else "")

        self._looking.ask_after(REST, job, take, slow=lambda: None)

    def on_timeline_canvas_goto_request(self, event: TimelineCanvas.GotoRequest) -> None:
        """Prompt for a time or a launch number."""
        event.stop()
        self.main.ask_for("goto", "", "12.5ms   3,400us   #1204 for a launch")

    def prompt_changed(self, kind: str, text: str, final: bool) -> None:
        """Prompt input for this view."""
        if kind != "goto":
            super().prompt_changed(kind, text, final)
        elif final:
            self._go(text)

    def _go(self, text: str) -> None:
        from ....analysis.timeline.place import typed

        run, (start, end) = self.canvas.run, self.canvas.window_ns
        if run >= min(len(self._runs), len(self.canvas.runs)):
            self.main.refuse("nothing is drawn yet")
            return
        trace, timeline = self._runs[run], self.canvas.runs[run]
        self._visit(lambda: typed(trace, timeline, text, (end - start) // 10), self.canvas.go,
                    "no such launch" if text.strip().startswith("#") else "a time, as 12.5ms, or #1204")

    def find_name(self, text: str) -> None:
        """Go to the next slice whose name contains the text."""
        from ....analysis.core.names.display_names import speaking_of
        from ....analysis.timeline.place import named

        canvas, names = self.canvas, self.canvas.names
        if not canvas.runs or names is None:
            return
        timeline, moment = canvas.runs[canvas.run], max(canvas.moment, canvas.under_cursor()[0])

        def job() -> Place | None:
            with speaking_of(names):
                return named(timeline, text, moment)

        self._visit(job, canvas.reach, "No match.")

    def _visit(self, find: Callable[[], Place | None], go: Callable[[Place, int], None], refusal: str) -> None:
        """Find a place of the run under the cursor in the background, then go there; without one the prompt stays."""
        run = self.canvas.run

        def take(place: Any) -> None:
            if place is None or isinstance(place, Exception):
                self.main.refuse(refusal)
            else:
                self.main.close_prompt()
                go(place, run)

        self._looking.ask(find, take)

    def footer_keys(self) -> list[str]:
        """The names of the keys to show in the footer."""
        if self.message:
            return ["palette", "quit"]
        return ("zoom_in zoom_out fit zoom_to search goto same_next same_previous arrow fold_lanes critical_path range "
                "unscope note earlier later column_left column_right export copy open_trace palette help quit").split()
