"""The timeline as it is drawn and moved in: a minimap, a ruler, one line per lane, and what lies under the cursor.

The window, the column and the lane of the cursor are the only state; every key changes them and draws the lines in
sight anew. All moments are in the time of run A; a second run is drawn at the same place by its offset.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ...list import frame
from ...session import themes
from ...session.keys import bindings
from . import painter

if TYPE_CHECKING:
    from ....analysis.core.names.display_names import ShortNames
    from ....analysis.timeline.lanes import Lane, Timeline
    from ....analysis.timeline.picture import Row
    from ....analysis.timeline.place import Place
    from ....analysis.timeline.window import Window

LEAST_NS = 100
"""The narrowest window."""
ZOOM = 2
PAN = 8
"""A key moves by one in so many parts of the window."""
_HEAD, _FOOT = 3, 3
"""Lines above and below the lanes: border, minimap and ruler; what lies under the cursor, and the border."""


class TimelineCanvas(Widget, can_focus=True):
    """Lanes of one run or two."""

    DEFAULT_CSS = "TimelineCanvas { height: 1fr; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")

    class Moved(Message):
        """The cursor or the window moved; ``slice`` is what is under the cursor."""

    class Wanted(Message):
        """A time or a launch is to be typed."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: tuple[Timeline, ...] = ()
        self.offsets: tuple[int, ...] = ()
        self.window_ns = (0, 1)
        self.column = 0
        self.selected = 0
        self.names: ShortNames | None = None
        self.told = ""
        self._top = 0
        self._rows: list[tuple[int, Row]] = []
        self._laid_out: tuple[object, ...] = ()
        self._painted: tuple[tuple[object, ...], list[Strip]] | None = None
        self._frame = frame.Frame()

    # State -----------------------------------------------------------------------------------------------------------

    def show(self, runs: tuple[Timeline, ...], offsets: tuple[int, ...]) -> None:
        """Draw these runs, from their beginning to their end unless they are the ones already shown."""
        same = [one.label for one in runs] == [one.label for one in self.runs] and self.runs
        self.runs, self.offsets = runs, offsets
        if not same:
            self.selected, self._top = 0, 0
            self.window_ns = self.whole()
            self.column = self.window(0).columns // 2
        self._laid_out = ()
        self._changed()

    def caption(self, said: frame.Frame) -> None:
        """What stands in the border."""
        if said != self._frame:
            self._frame = said
            self._painted = None
            self.refresh()

    def whole(self) -> tuple[int, int]:
        """Everything recorded, in the time of run A."""
        ends = [(one.start - off, one.end - off) for one, off in zip(self.runs, self.offsets, strict=True)]
        return (min(start for start, _ in ends), max(end for _, end in ends)) if ends else (0, 1)

    def window(self, run: int) -> Window:
        """The window in the time of that run, as wide as the screen has columns for it."""
        from ....analysis.timeline.window import Window

        offset = self.offsets[run] if self.runs else 0  # keys come before lanes do
        return Window(self.window_ns[0] + offset, self.window_ns[1] + offset, max(10, self.size.width - self._label()))

    @property
    def moment(self) -> int:
        """The middle of the column under the cursor, in the time of the run of the lane."""
        window = self.window(self.run)
        return window.start + (window.end - window.start) * (2 * self.column + 1) // (2 * window.columns)

    @property
    def run(self) -> int:
        """The run of the lane under the cursor: 0 for A."""
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
        """The place in its lane of the slice under the cursor; None on a gap."""
        from ....analysis.timeline.window import at_moment

        lane, window = self.lane, self.window(self.run)
        return None if lane is None else at_moment(lane, self.moment, (window.end - window.start) // window.columns)

    def rows(self) -> list[tuple[int, Row]]:
        """The lines of lanes there are in this window: run and row; streams of both runs first, then their threads."""
        from ....analysis.timeline.picture import layout

        key = (*self.window_ns, self.size.width, len(self.runs))
        if self._laid_out != key and self.runs:
            made = [(at, row) for at, one in enumerate(self.runs) for row in layout(one, self.window(at))]
            if len(self.runs) > 1:  # told by what a row is: to compare rows is to compare the arrays of their lanes
                made.sort(key=lambda pair: pair[1].lane is None or pair[1].lane.tid is not None)
            self._rows = made
            self._laid_out = key
            self.selected = min(self.selected, max(0, len(self._rows) - 1))
        return self._rows

    def go(self, place: Place, run: int = 0) -> None:
        """Show a place with room around it, the cursor on it."""
        length = max(place.end - place.start, 1)
        room = max(2 * length, LEAST_NS)
        start = place.start - self.offsets[run]
        self._look(start - room, start + length + room)
        if place.lane is not None:
            self._select(run, self.runs[run].drawn[place.lane])
        self.column = self.window(run).column(place.start + length // 2)
        self._changed()

    def _select(self, run: int, lane: Lane) -> None:
        for at, (of, row) in enumerate(self.rows()):
            if of == run and row.lane is lane:
                self.selected = at
                return

    def _look(self, start: int, end: int) -> None:
        """Move the window there, within what was recorded and no narrower than ``LEAST_NS``."""
        first, last = self.whole()
        length = max(LEAST_NS, min(end - start, last - first))
        start = max(first, min(start, last - length))
        self.window_ns = (start, start + length)

    def _changed(self) -> None:
        self.rows()
        room = self._room()
        self._top = max(self.selected - room + 1, min(self._top, self.selected), 0)
        self.column = max(0, min(self.column, self.window(0).columns - 1)) if self.runs else 0
        self.told = ""
        self._painted = None
        self.refresh()
        self.post_message(self.Moved())

    def _room(self) -> int:
        return max(1, self.size.height - _HEAD - _FOOT - (1 if any(len(one.marks.starts) for one in self.runs) else 0))

    def _label(self) -> int:
        return max(14, min(26, self.size.width // 5))

    # Keys ------------------------------------------------------------------------------------------------------------

    def action_pan(self, step: int) -> None:
        """Earlier or later by a part of the window; the cursor stays where it is on the screen."""
        start, end = self.window_ns
        by = step * max(1, (end - start) // PAN)
        before = self.window_ns
        self._look(start + by, end + by)
        if self.window_ns == before:  # at the end of what was recorded the cursor goes on
            self.column += step * max(1, self.window(0).columns // PAN)
        self._changed()

    def action_step(self, step: int) -> None:
        """The cursor by one column; at the edge the window follows."""
        self.column += step
        if not 0 <= self.column < self.window(0).columns:
            self.action_pan(step)
            return
        self._changed()

    def action_lane(self, step: int) -> None:
        """The lane above or below."""
        self.selected = max(0, min(len(self.rows()) - 1, self.selected + step))
        self._changed()

    def action_page(self, step: int) -> None:
        """A screenful of lanes."""
        self.action_lane(step * self._room())

    def action_end(self, side: int) -> None:
        """The beginning or the end of the run, at this zoom."""
        first, last = self.whole()
        length = self.window_ns[1] - self.window_ns[0]
        self._look(*((first, first + length) if side < 0 else (last - length, last)))
        self.column = 0 if side < 0 else self.window(0).columns - 1
        self._changed()

    def action_zoom(self, step: int) -> None:
        """Closer or wider around the cursor."""
        start, end = self.window_ns
        columns = self.window(0).columns
        at = start + (end - start) * (2 * self.column + 1) // (2 * columns)
        length = max(LEAST_NS, (end - start) * ZOOM if step > 0 else (end - start) // ZOOM)
        lane, run = self.lane, self.run
        self._look(at - length * (2 * self.column + 1) // (2 * columns), 0)
        self._look(self.window_ns[0], self.window_ns[0] + length)
        self._keep(run, lane)
        self.column = self.window(0).column(at)
        self._changed()

    def _keep(self, run: int, lane: Lane | None) -> None:
        """Stay on the lane when the lines around it come and go."""
        if lane is not None:
            self._select(run, lane)

    def action_fit(self) -> None:
        """The whole run."""
        lane, run = self.lane, self.run
        self.window_ns = self.whole()
        self._keep(run, lane)
        self._changed()

    def action_open(self) -> None:
        """Zoom to the slice or gap under the cursor."""
        from ....analysis.timeline.window import gap_at

        lane, at, run = self.lane, self.slice(), self.run
        if lane is None:
            self.app.bell()
            return
        if at is not None:
            start, end = int(lane.slices.starts[at]), int(lane.slices.ends[at])
        else:
            gap = gap_at(lane, self.moment)
            if gap is None:
                self.app.bell()
                return
            start, end = gap
        margin, offset = max(1, (end - start) // 10), self.offsets[run]
        self._look(start - margin - offset, end + margin - offset)
        self._keep(run, lane)
        self.column = self.window(run).column((start + end) // 2)
        self._changed()

    def action_same(self, step: int) -> None:
        """The next or previous slice of the same name in this lane."""
        from ....analysis.timeline.window import same_name

        lane, at, run = self.lane, self.slice(), self.run
        found = None if lane is None or at is None else same_name(lane, at, step)
        if lane is None or found is None:
            self.app.bell()
            return
        middle = (int(lane.slices.starts[found]) + int(lane.slices.ends[found])) // 2 - self.offsets[run]
        start, end = self.window_ns
        if not start <= middle < end:
            self._look(middle - (end - start) // 2, middle + (end - start + 1) // 2)
        self._keep(run, lane)
        self.column = self.window(run).column(middle + self.offsets[run])
        self._changed()

    def action_goto(self) -> None:
        """A time or a launch number is to be typed."""
        self.post_message(self.Wanted())

    def on_click(self, event: events.Click) -> None:
        """The cursor goes where it was clicked; a second click zooms there."""
        row = self._top + event.y - (self.size.height - _FOOT - self._room())
        if 0 <= row < len(self.rows()) and event.x >= self._label():
            self.selected, self.column = row, event.x - self._label()
            self._changed()
            if event.chain == 2:
                self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel goes through the lanes."""
        event.stop()
        self.action_lane(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel goes through the lanes."""
        event.stop()
        self.action_lane(-1)

    def on_resize(self) -> None:
        """Another width has other columns."""
        if self.runs:
            self._changed()

    def say(self, text: str) -> None:
        """What else is known of the slice under the cursor."""
        if text != self.told:
            self.told = text
            if self._painted is not None:
                self._painted[1][-_FOOT:] = self._filtered(self._foot())
            self.refresh(Region(0, self.size.height - _FOOT, self.size.width, _FOOT))

    # Drawing ---------------------------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in sight, drawn once for each place they show: Textual asks for all of them when one changed."""
        key = (themes.look(self.app.theme), self.size, self.background_colors[1])
        if self._painted is None or self._painted[0] != key:
            from ....analysis.core.names.display_names import speaking_of

            with speaking_of(self.names) if self.names is not None else nullcontext():
                self._painted = key, self._filtered(self._draw())
        return self._painted[1][crop.y : crop.bottom]

    def _filtered(self, strips: list[Strip]) -> list[Strip]:
        background = self.background_colors[1]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, background) for strip in strips]
        return strips

    def _draw(self) -> list[Strip]:
        """The head, the lanes in sight, blank lines, the foot."""
        look, (width, height) = themes.look(self.app.theme), self.size
        if not self.runs or height < 4:
            return [Strip.blank(width, look.base)] * height
        windows, label = [self.window(run) for run in range(len(self.runs))], self._label()
        upper = frame.strip(frame.upper(self._frame, width, self.has_focus), look)
        head = [upper, *painter.head(self.runs, windows[0], label, look, width)]
        room = height - len(head) - _FOOT
        rows = self.rows()[self._top : self._top + room]
        cursor = self.selected - self._top, self.column
        lanes = painter.lanes(self.runs, rows, windows, cursor, label, look, width)
        blank = [Strip.blank(width, look.base)] * (room - len(lanes))
        return [*head, *lanes, *blank, *self._foot()][:height]

    def on_focus(self) -> None:
        """The border shows whether keys go here."""
        self._painted = None
        self.refresh()

    on_blur = on_focus

    def _foot(self) -> list[Strip]:
        from ....analysis.timeline.place import describe

        lane, rows = self.lane, self.rows()
        if lane is not None:
            text = describe(self.runs[self.run], lane, self.slice(), self.moment)
        else:
            text = painter.calls(rows[self.selected][1]) if rows else ""
        if len(rows) > (room := self._room()):
            text = f"lanes {self._top + 1}–{min(self._top + room, len(rows))} of {len(rows)} · {text}"
        look, width = themes.look(self.app.theme), self.size.width
        lower = frame.strip(frame.lower(self._frame, width, self.has_focus), look)
        return [*painter.foot(text, self.told, look, width), lower]
