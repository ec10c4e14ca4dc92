"""Navigation of the timeline: keys and clicks change the view state, and the visible lines are drawn again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from ...list import frame
from ...session import themes
from ...session.keys import bindings
from ...terminal.painting import lines_or_sentence
from . import painter, scene
from .view import LEAST_NS, LaneView

if TYPE_CHECKING:
    from ....analysis.timeline.lanes import Lane

ZOOM = 2
PAN = 8
"""A key press pans by 1/``PAN`` of the window."""


class TimelineCanvas(LaneView):
    """Lanes of one run or two."""

    DEFAULT_CSS = "TimelineCanvas { height: 1fr; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")

    class GotoRequest(Message):
        """Prompt for a time or a launch number to go to."""

    class ArrowFollowed(Message):
        """Go to the other end of the launch under the cursor."""

    class PathRequest(Message):
        """Toggle the critical path."""

    class RangeRequest(Message):
        """Begin or end a time range at the cursor, or drop the existing one."""

    def __init__(self) -> None:
        super().__init__()
        self._painted: tuple[tuple[object, ...], list[Strip]] | None = None
        self._lines: list[int | None] = []

    def repaint(self) -> None:
        """Discard the cached drawing."""
        self._painted = None
        super().repaint()

    def caption(self, border: frame.Frame) -> None:
        """Set the text in the border."""
        if border != self.frame:
            self.frame = border
            self.repaint()

    def action_pan(self, step: int) -> None:
        """Pan by a part of the window; the cursor keeps its column on the screen."""
        start, end = self.window_ns
        by = step * max(1, (end - start) // PAN)
        before = self.window_ns
        self.look(start + by, end + by)
        if self.window_ns == before:  # at the end of the recording the cursor moves instead
            self.column += step * max(1, self.window(0).columns // PAN)
        self.changed()

    def action_step(self, step: int) -> None:
        """Move the cursor by one column; at the edge pan."""
        self.column += step
        if not 0 <= self.column < self.window(0).columns:
            self.action_pan(step)
            return
        self.changed()

    def action_lane(self, step: int) -> None:
        """Go to the lane above or below."""
        self.selected = max(0, min(len(self.rows()) - 1, self.selected + step))
        self.changed()

    def action_fold(self) -> None:
        """Open or close the streams or the thread under the cursor."""
        rows = self.rows()
        if not rows or rows[self.selected][1].group is None:
            self.app.bell()
            return
        run, row = rows[self.selected]
        self.toggled ^= {(run, row.group or ())}
        self._laid_out = ()
        self.selected = next((at for at, (of, one) in enumerate(self.rows())
                              if of == run and one.group == row.group), self.selected)
        self.changed()

    def action_page(self, step: int) -> None:
        """Move by a screenful of lanes."""
        self.action_lane(step * self.rooms()[self.run])

    def action_end(self, side: int) -> None:
        """Go to the beginning or the end of the run at this zoom."""
        first, last = self.whole()
        length = self.window_ns[1] - self.window_ns[0]
        self.look(*((first, first + length) if side < 0 else (last - length, last)))
        self.column = 0 if side < 0 else self.window(0).columns - 1
        self.changed()

    def action_zoom(self, step: int) -> None:
        """Zoom in or out around the cursor."""
        start, end = self.window_ns
        columns = self.window(0).columns
        at = start + (end - start) * (2 * self.column + 1) // (2 * columns)
        length = max(LEAST_NS, (end - start) * ZOOM if step > 0 else (end - start) // ZOOM)
        lane, run = self.lane, self.run
        self.look(at - length * (2 * self.column + 1) // (2 * columns), 0)
        self.look(self.window_ns[0], self.window_ns[0] + length)
        self._keep(run, lane)
        self.column = self.window(0).column(at)
        self.changed()

    def _keep(self, run: int, lane: Lane | None) -> None:
        """Stay on the lane when rows around it appear or disappear."""
        if lane is not None:
            self.select(run, lane)

    def action_fit(self) -> None:
        """Show the whole run."""
        lane, run = self.lane, self.run
        self.window_ns = self.whole()
        self._keep(run, lane)
        self.changed()

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
        self.look(start - margin - offset, end + margin - offset)
        self._keep(run, lane)
        self.column = self.window(run).column((start + end) // 2)
        self.changed()

    def action_same(self, step: int) -> None:
        """Go to the next or previous slice of the same name in this lane."""
        from ....analysis.timeline.window import same_name

        lane, at, run = self.lane, self.slice(), self.run
        other = None if lane is None or at is None else same_name(lane, at, step)
        if lane is None or other is None:
            self.app.bell()
            return
        middle = (int(lane.slices.starts[other]) + int(lane.slices.ends[other])) // 2 - self.offsets[run]
        start, end = self.window_ns
        if not start <= middle < end:
            self.look(middle - (end - start) // 2, middle + (end - start + 1) // 2)
        self._keep(run, lane)
        self.column = self.window(run).column(middle + self.offsets[run])
        self.changed()

    def action_arrow(self) -> None:
        """Go to the other end of a launch."""
        self.post_message(self.ArrowFollowed())

    def action_critical_path(self) -> None:
        """Toggle the critical path."""
        self.post_message(self.PathRequest())

    def action_range(self) -> None:
        """Begin a range at the cursor, end it there, or drop the existing one."""
        self.post_message(self.RangeRequest())

    def action_goto(self) -> None:
        """Prompt for a time or a launch number."""
        self.post_message(self.GotoRequest())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked place; a double click zooms to it."""
        row = self._lines[event.y] if event.y < len(self._lines) else None
        left = self.painter().label + painter.SIDES // 2
        if row is not None and event.x >= left:
            self.selected, self.column = row, event.x - left
            self.changed()
            if event.chain == 2:
                self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go to the next lane."""
        event.stop()
        self.action_lane(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go to the previous lane."""
        event.stop()
        self.action_lane(-1)

    def on_resize(self) -> None:
        """The number of columns depends on the width; the cursor stays on its slice."""
        if self.runs:
            resting = self.resting
            self.column = self.window(self.run).column(resting)
            self.changed()
            self.resting = resting

    def show_text(self, text: str) -> None:
        """Show further facts about the slice under the cursor."""
        if text != self.launch_note:
            self.launch_note = text
            if self._painted is not None:
                with self._speaking():
                    foot = self._filtered(scene.foot(self))
                self._painted[1][-len(foot):] = foot
            self.refresh(Region(0, self.size.height - self.chosen_lines - 2, self.size.width, self.chosen_lines + 2))

    @lines_or_sentence
    def render_lines(self, crop: Region) -> list[Strip]:
        """The visible lines, drawn once per state: Textual asks for all of them when one changed."""
        key = (themes.look(self.app.theme), self.size, self.background_colors[1])
        if self._painted is None or self._painted[0] != key:
            with self._speaking():
                strips, self._lines = scene.draw(self)
                self._painted = key, self._filtered(strips)
        return self._painted[1][crop.y : crop.bottom]

    def _speaking(self) -> AbstractContextManager[None]:
        from ....analysis.core.names.display_names import speaking_of

        return speaking_of(self.names) if self.names is not None else nullcontext()

    def _filtered(self, strips: list[Strip]) -> list[Strip]:
        background = self.background_colors[1]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, background) for strip in strips]
        return strips

    def on_focus(self) -> None:
        """Draw again: the border shows whether the canvas has the focus."""
        self.repaint()

    on_blur = on_focus
