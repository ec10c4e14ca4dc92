"""State of the timeline: the window, the cursor's column and row, and the alignment of two runs.

The window is in run A's time; a second run is drawn at its offset, which aligns the start of the cycle in view.
``scene`` draws this state, ``canvas`` changes it on keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget

from ...list import frame
from ...session import themes
from .painter import Painter

if TYPE_CHECKING:
    from ....analysis.core.names.display_names import ShortNames
    from ....analysis.timeline.counters import Strip as CounterStrip
    from ....analysis.timeline.lanes import Lane, Timeline
    from ....analysis.timeline.layout import Group, Row
    from ....analysis.timeline.place import Place
    from ....analysis.timeline.window import Window
    from ...session.session import Ranges, TimeNote

LEAST_NS = 100
"""The narrowest window, ns."""
FRAMED, TALL = 18, 30
"""Heights from which each part has a frame of its own, and from which the selection has bars and more lines."""


class LaneView(Widget, can_focus=True):
    """The state of the canvas."""

    class Moved(Message):
        """The cursor or the window moved."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: tuple[Timeline, ...] = ()
        self.offsets: tuple[int, ...] = ()
        self.window_ns = (0, 1)
        self.column = 0
        self.selected = 0
        self.tops = [0, 0]
        self.names: ShortNames | None = None
        self.launch_note = ""
        self.frame = frame.Frame()
        self.toggled: set[tuple[int, Group]] = set()
        self.aligned_at: int | None = None
        self.families: set[str] = set()
        self.notes: list[TimeNote] = []
        self.ranges: Ranges = (None, None)
        self.in_scope: tuple[tuple[int, int], ...] = ()
        self.cycle_in_scope: int | None = None
        self._counters: list[tuple[CounterStrip, ...]] = []
        self._rows: list[tuple[int, Row]] = []
        self._laid_out: tuple[object, ...] = ()
        self.resting = 0

    def show(self, runs: tuple[Timeline, ...], offsets: tuple[int, ...]) -> None:
        """Draw these runs, from beginning to end unless the same ones were shown before, and keep their alignment if
        ``offsets`` are those in force."""
        from ....analysis.timeline.counters import strips

        same = [one.label for one in runs] == [one.label for one in self.runs] and self.runs
        if offsets is not self.offsets:
            self.aligned_at = None
        self.runs, self.offsets = runs, offsets
        self._counters = strips([one.counters for one in runs], [one.device for one in runs])
        if not same:
            self.selected, self.tops, self.toggled, self.in_scope, self._rows = 0, [0, 0], set(), (), []
            self.window_ns = self.whole()
            self.column = self.window(0).columns // 2
        self._laid_out = ()
        if not same:
            self.selected = max(range(len(self.rows())), key=lambda at: self.rows()[at][1].lines, default=0)
        self.changed()

    def whole(self) -> tuple[int, int]:
        """Start and end of everything recorded, in run A's time."""
        ends = [(one.start - off, one.end - off) for one, off in zip(self.runs, self.offsets, strict=True)]
        return (min(start for start, _ in ends), max(end for _, end in ends)) if ends else (0, 1)

    def window(self, run: int) -> Window:
        """The window in that run's time, with the number of columns that fit on the screen."""
        from ....analysis.timeline.window import Window

        offset = self.offsets[run] if self.runs else 0  # a key may be pressed before the lanes are loaded
        return Window(self.window_ns[0] + offset, self.window_ns[1] + offset, self.painter().columns)

    @property
    def moment(self) -> int:
        """The middle of the cursor's column, in the time of the run under the cursor."""
        window = self.window(self.run)
        return window.start + (window.end - window.start) * (2 * self.column + 1) // (2 * window.columns)

    @property
    def run(self) -> int:
        """The run under the cursor: 0 for A."""
        rows = self.rows()
        return rows[self.selected][0] if rows else 0

    @property
    def cycle(self) -> tuple[int, int, str] | None:
        """Start and end (ns, in its run's time) and label of the cycle under the cursor; None outside all cycles."""
        from ....analysis.timeline.window import cycle_at

        if not self.runs:
            return None
        return cycle_at(self.runs[self.run], self.moment)

    @property
    def lane(self) -> Lane | None:
        """The lane under the cursor; None on a counter or a folded thread."""
        rows = self.rows()
        return rows[self.selected][1].lane if rows else None

    def slice(self) -> int | None:
        """Index in its lane of the slice under the cursor; None on a gap."""
        from ....analysis.timeline.window import at_moment

        lane, window = self.lane, self.window(self.run)
        return None if lane is None else at_moment(lane, self.moment, (window.end - window.start) // window.columns)

    def _resting(self) -> int:
        """The middle of the slice under the cursor, or of its column on a gap: stays the same at any width."""
        lane, at = self.lane, self.slice()
        return self.moment if lane is None or at is None else int(lane.slices.starts[at] + lane.slices.ends[at]) // 2

    def rows(self) -> list[tuple[int, Row]]:
        """All rows of this window as (run, row), those of run A first. The cursor stays on its lane."""
        from ....analysis.timeline.layout import layout

        key = (*self.window_ns, self.size, self.offsets, len(self.toggled), self.noted(0), self.noted(1))
        if self._laid_out != key and self.runs:
            there = self._rows[self.selected] if self.selected < len(self._rows) else None
            room = (self.room() - len(self.runs) + 1) // len(self.runs) - self.cycle_lines
            self._rows = [
                (at, row) for at, one in enumerate(self.runs) for row in layout(
                    one, self.window(at), max(4, room - self.noted(at)),
                    {group for run, group in self.toggled if run == at}, self._counters[at])
            ]
            self._laid_out = key
            self.selected = next((at for at, (run, row) in enumerate(self._rows) if there and run == there[0]
                                  and row.shows == there[1].shows), min(self.selected, max(0, len(self._rows) - 1)))
        return self._rows

    def noted(self, run: int) -> bool:
        """Whether there is a line of notes and ranges above the lanes of the run."""
        return self.ranges[run] is not None or any(one.run == run for one in self.notes)

    @property
    def cycle_lines(self) -> bool:
        """Whether cycles are drawn above the lanes: if there are any and the view is not zoomed to one."""
        return self.cycle_shown() is None and any(len(one.marks.starts) for one in self.runs)

    def cycle_shown(self) -> int | None:
        """Index of run A's cycle: the scope's while the window is inside it, else the one at the middle of the window;
        None if there is none or the window is over twice as long."""
        from ....analysis.timeline.place import cycle_of

        if not self.runs:
            return None
        marks, (start, end) = self.runs[0].marks, self.window_ns
        if self.in_scope and self.cycle_in_scope in marks.numbers:  # its device work may run in later cycles
            first = self.in_scope[0][0]
            if first <= start and end - first <= max(end - start for start, end in self.in_scope):
                return marks.numbers.index(self.cycle_in_scope)
        at = cycle_of(marks, (start + end) // 2 + self.offsets[0])
        if at is None or end - start > 2 * int(marks.ends[at] - marks.starts[at]):
            return None
        return at

    def under_cursor(self) -> tuple[int, int, str]:
        """Start and end (ns) of the slice, or of the moment, under the cursor, and a description of it."""
        from ....analysis.core.names.short_name import fit_name

        lane, at, rows = self.lane, self.slice(), self.rows()
        if lane is not None and at is not None:
            name = fit_name(self.runs[self.run].names[int(lane.slices.names[at])], 60)
            return int(lane.slices.starts[at]), int(lane.slices.ends[at]), f"{name}, {lane.name}"
        return self.moment, self.moment, rows[self.selected][1].label.strip() if rows else ""

    def span_here(self) -> tuple[int, int]:
        """Start and end (ns) of the slice under the cursor; on a gap, of the cursor's column."""
        start, end, _ = self.under_cursor()
        window = self.window(self.run)
        half = (window.end - window.start) // (2 * window.columns) if start == end else 0
        return start - half, max(end + half, start + 1)

    def note_here(self) -> TimeNote | None:
        """The note within one column of the slice or moment under the cursor."""
        start, end, _ = self.under_cursor()
        width = (self.window_ns[1] - self.window_ns[0]) // max(1, self.window(0).columns)
        return next((one for one in self.notes if one.run == self.run and one.start <= max(end, start + width)
                     and one.end >= start - width), None)

    def align(self, run: int, moment: int) -> None:
        """Align the other run to the start of the same cycle; nothing changes if ``moment`` is in no common cycle."""
        from ....analysis.timeline.place import cycle_of, same_cycle

        if len(self.runs) < 2:
            return
        own, other = self.runs[run].marks, self.runs[1 - run].marks
        at = cycle_of(own, moment)
        there = None if at is None else same_cycle(own, other, at)
        if at is not None and there is not None:
            apart = int(other.starts[there]) - int(own.starts[at])
            self.offsets = (0, apart if run == 0 else -apart)
            self.aligned_at = at if run == 0 else there

    def go(self, place: Place, run: int = 0) -> None:
        """Zoom to a place with the cursor on it, for two runs wide enough for the same launch in the other one."""
        from ....analysis.timeline.place import counterpart

        self.align(run, place.start)
        length, offset = max(place.end - place.start, 1), self.offsets[run]
        start, end = place.start - offset, place.start + length - offset
        if len(self.runs) == 2 and place.lane is not None and place.slice is not None:
            there = counterpart((self.runs[0], self.runs[1]), run, self.runs[run].drawn[place.lane], place.slice)
            if there is not None:
                start = min(start, there.start - self.offsets[1 - run])
                end = max(end, there.end - self.offsets[1 - run])
        room = max(2 * (end - start), LEAST_NS)
        self.look(start - room, end + room)
        if place.lane is not None:
            self.select(run, self.runs[run].drawn[place.lane])
        self.column = self.window(run).column(place.start + length // 2)
        self.changed()

    def reach(self, place: Place, run: int) -> None:
        """Move the cursor to a place, panning no further than necessary; zoom in if its column holds another slice."""
        (start, end), offset = self.window_ns, self.offsets[run]
        at = (place.start + place.end) // 2 - offset
        room = (end - start) // 8
        if not start + room <= at < end - room:
            begin = at - room if at < start + room else at + room - (end - start)
            self.look(begin, begin + end - start)
        if place.lane is not None:
            self.select(run, self.runs[run].drawn[place.lane])
        self.column = self.window(run).column((place.start + place.end) // 2)
        if place.slice is not None and self.slice() != place.slice:
            half = max(LEAST_NS, (place.end - place.start) * self.window(run).columns // 2) // 2
            self.look(at - half, at + half)
            self.select(run, self.runs[run].drawn[place.lane or 0])
            self.column = self.window(run).column((place.start + place.end) // 2)
        self.changed()

    def span(self, start: int, end: int, run: int) -> None:
        """Show exactly this span of a run."""
        self.align(run, start)
        self.look(start - self.offsets[run], end - self.offsets[run])
        self.selected = next((at for at, (of, _) in enumerate(self.rows()) if of == run), 0)
        self.changed()

    def limit(self, cycles: tuple[tuple[int, int], ...], number: int | None) -> None:
        """Show the cycle of each run (ns) that the scope is limited to, in run A of that number; everything when the
        limit is lifted."""
        before, self.in_scope, self.cycle_in_scope = self.in_scope, cycles, number
        if cycles:
            self.offsets = tuple(start - cycles[0][0] for start, _ in cycles)
            numbers = self.runs[0].marks.numbers
            self.aligned_at = numbers.index(number) if number in numbers else None
        if cycles and cycles != before:
            self.look(cycles[0][0], cycles[0][0] + max(end - start for start, end in cycles))
        elif before and not cycles:
            self.window_ns = self.whole()
        self.changed()

    def select(self, run: int, lane: Lane) -> None:
        """Put the cursor on a lane, opening its group if it is folded."""
        for _ in range(2):
            for at, (of, row) in enumerate(self.rows()):
                if of == run and row.lane is lane:
                    self.selected = at
                    return
            for of, row in self.rows():  # it may be in a folded group
                if of == run and row.group is not None and row.group == self._group(lane):
                    self.toggled ^= {(run, row.group)}
                    break

    @staticmethod
    def _group(lane: Lane) -> Group:
        return ("streams", lane.rank) if lane.tid is None else ("thread", lane.rank, lane.pid, lane.tid)

    def look(self, start: int, end: int) -> None:
        """Move the window, clamped to the recording and to at least ``LEAST_NS``."""
        first, last = self.whole()
        length = max(LEAST_NS, min(end - start, last - first))
        start = max(first, min(start, last - length))
        self.window_ns = (start, start + length)

    def changed(self) -> None:
        """Bring rows and cursor into sight after any change of state, and draw again."""
        if len(self.runs) > 1 and (at := self.cycle_shown()) is not None and at != self.aligned_at:
            self.align(0, int(self.runs[0].marks.starts[at]))
        self._scroll()
        self.column = max(0, min(self.column, self.window(0).columns - 1)) if self.runs else 0
        self.launch_note = ""
        self.resting = self._resting() if self.runs else 0
        self.repaint()
        self.post_message(self.Moved())

    def _scroll(self) -> None:
        """Bring the selected row into sight, and the same row of the other run as far down in its share."""
        rows, rooms = self.rows(), self.rooms()
        if not rows:
            return
        run, row = rows[self.selected]
        of = [[at for at, (one, _) in enumerate(rows) if one == each] for each in range(len(self.runs))]
        top = min(max(self.tops[run], of[run][0]), self.selected)
        while top < self.selected and sum(one.lines for _, one in rows[top : self.selected + 1]) > rooms[run]:
            top += 1
        self.tops[run] = top
        for other in range(len(self.runs)):
            if other != run:
                name, first = row.label.partition(" +")[0], of[other][0]
                same = next((at for at in of[other] if rows[at][1].label.partition(" +")[0] == name),
                            first + self.selected - of[run][0])
                self.tops[other] = max(first, min(same - self.selected + top, of[other][-1] + 1 - rooms[other]))

    @property
    def chosen_lines(self) -> int:
        """Lines of text about the slice under the cursor."""
        return (3 if len(self.runs) > 1 else 2) if self.size.height >= TALL else 1

    def room(self) -> int:
        """Lines available for lanes."""
        head = len(self.runs) + 4 if self.size.height >= FRAMED else 2
        foot = self.chosen_lines + (3 if self.size.height >= FRAMED else 1)
        return max(1, self.size.height - head - foot)

    def rooms(self) -> list[int]:
        """Lines available for the rows of each run, below its cycles and notes: as many as it needs, else half of them.
        If that leaves a run without any, the run under the cursor has all."""
        heads = [self.cycle_lines + self.noted(run) for run in range(len(self.runs))]
        free = self.room() - sum(heads) - len(self.runs) + 1
        if len(self.runs) < 2:
            return [free]
        if free < 2:
            return [max(1, self.room() - heads[run]) if run == self.run else 0 for run in range(2)]
        need = [sum(row.lines for of, row in self.rows() if of == run) for run in range(2)]
        upper = min(need[0], max(free - free // 2, free - need[1]))
        return [upper, free - upper]

    def painter(self) -> Painter:
        """A painter for this size and theme."""
        width = self.size.width
        return Painter(themes.look(self.app.theme), width, max(17, min(24, width // 5 + 2)), self.has_focus)

    def repaint(self) -> None:
        """Draw again."""
        self.refresh()
