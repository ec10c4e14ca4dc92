"""Plots of counters: panels with axes below the cycles of each run, a time cursor, and the values at the cursor.

The time window and the cursor's column are the only state. The characters of a panel come from the analysis, the same
as in an export; this module adds the colours of the lines and the shading of cycles. The cursor is a mark on the axis
and values in the legends, so that moving it redraws little of the screen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ....analysis.core import metrics
from ....analysis.core.text import display
from ...list import frame
from ...session import themes
from ...session.keys import bindings
from ...terminal.painting import lines_or_sentence

if TYPE_CHECKING:
    from ....analysis.metrics.plot import Drawn, Panel
    from ....analysis.metrics.series import Series
    from ....analysis.timeline.lanes import Marks
    from ....analysis.timeline.window import Window

LEAST_NS, ZOOM, PAN = 100, 2, 8
"""Narrowest window (ns); zoom factor per key press; a key press pans by 1/``PAN`` of the window."""
_COLOURS = ("gemm", "copy", "attention", "norm", "collective", "elementwise", "top", "mark")
INSET = 2
"""Cells of the border on each side."""
LEAST_HEIGHT = 5
"""Least lines of a panel without its legend."""


class MetricsCanvas(Widget, can_focus=True):
    """Panels of counters of one run or two."""

    DEFAULT_CSS = "MetricsCanvas { height: 3fr; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")

    class RowStepped(Message):
        """Move the list's cursor by ``step`` rows to another counter."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self) -> None:
        super().__init__()
        self.series: tuple[Series, ...] = ()
        self.marks: tuple[Marks, ...] = ()
        self.pair = False
        self.window_ns = (0, 1)
        self.column = 0
        self._fitted = True
        self._known: tuple[object, list[tuple[Panel, Drawn]]] | None = None

    def show(self, series: Sequence[Series], marks: Sequence[Marks], pair: bool) -> None:
        """Draw these series; the window stays unless it showed everything or lies outside the new series."""
        first = not self.series
        self.series, self.marks, self.pair = tuple(series), tuple(marks), pair
        if self._fitted or not self._within():
            self._fitted = True
            self.window_ns = self.whole()
        if first:
            self.column = self.window.columns // 2
        self._changed()

    def _within(self) -> bool:
        first, last = self.whole()
        return self.window_ns[0] < last and self.window_ns[1] > first

    def whole(self) -> tuple[int, int]:
        """The time from the first sample to the last."""
        from ....analysis.metrics.plot import extent

        return extent(self.series)

    @property
    def timed(self) -> bool:
        """Whether any series drawn has timestamps."""
        return any(one.timed for one in self.series)

    @property
    def window(self) -> Window:
        """The window, with the number of columns that fit on the screen."""
        from ....analysis.metrics.plot import LABEL, MARGIN
        from ....analysis.timeline.window import Window

        return Window(*self.window_ns, max(10, self.size.width - 2 * INSET - LABEL - MARGIN))

    @property
    def moment(self) -> int:
        """The middle of the cursor's column."""
        window = self.window
        return window.start + (window.end - window.start) * (2 * self.column + 1) // (2 * window.columns)

    def _look(self, start: int, end: int) -> None:
        first, last = self.whole()
        length = max(LEAST_NS, min(end - start, last - first))
        start = max(first, min(start, last - length))
        self.window_ns = (start, start + length)
        self._fitted = self.window_ns == (first, last)

    def _changed(self) -> None:
        self.column = max(0, min(self.column, self.window.columns - 1))
        self._known = None
        self.refresh()

    def action_pan(self, step: int) -> None:
        """Pan the window; if it cannot move, move the cursor."""
        start, end = self.window_ns
        by = step * max(1, (end - start) // PAN)
        self._look(start + by, end + by)
        if self.window_ns == (start, end):
            self.action_step(step * max(1, self.window.columns // PAN))
        else:
            self._changed()

    def action_step(self, step: int) -> None:
        """Move the cursor by columns, up to the edge."""
        self.column = max(0, min(self.column + step, self.window.columns - 1))
        self.refresh()

    def action_lane(self, step: int) -> None:
        """Go to the previous or next counter in the list."""
        self.post_message(self.RowStepped(step))

    def action_page(self, step: int) -> None:
        """Go five counters further in the list."""
        self.post_message(self.RowStepped(5 * step))

    def action_end(self, side: int) -> None:
        """Go to the beginning or the end at this zoom."""
        first, last = self.whole()
        length = self.window_ns[1] - self.window_ns[0]
        self._look(*((first, first + length) if side < 0 else (last - length, last)))
        self.column = 0 if side < 0 else self.window.columns - 1
        self._changed()

    def action_zoom(self, step: int) -> None:
        """Zoom in or out around the cursor."""
        start, end = self.window_ns
        at, columns = self.moment, self.window.columns
        length = max(LEAST_NS, (end - start) * ZOOM if step > 0 else (end - start) // ZOOM)
        begin = at - length * (2 * self.column + 1) // (2 * columns)
        self._look(begin, begin + length)
        self.column = self.window.column(at)
        self._changed()

    def action_fit(self) -> None:
        """Show everything."""
        at = self.moment
        self.window_ns, self._fitted = self.whole(), True
        self.column = self.window.column(at)
        self._changed()

    def action_open(self) -> None:
        """Ring the bell: there is no slice to zoom to."""
        self.app.bell()

    action_goto = action_open

    def action_same(self, step: int) -> None:
        """Ring the bell: there are no slices of the same name."""
        self.app.bell()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked column."""
        from ....analysis.metrics.plot import LABEL

        if event.x >= INSET + LABEL:
            self.column = min(event.x - INSET - LABEL, self.window.columns - 1)
            self.refresh()

    def on_resize(self) -> None:
        """The number of columns depends on the width."""
        if self.series:
            self._changed()

    @lines_or_sentence
    def render_lines(self, crop: Region) -> list[Strip]:
        """The visible lines."""
        look, (width, height) = themes.look(self.app.theme), self.size
        title = frame.Frame("Counters", frame.dim("over time" if self.timed else "in the order of the samples"))
        strips = [
            frame.strip(frame.upper(title, width, self.has_focus), look), *self._draw(look, height - 2),
            frame.strip(frame.lower(frame.Frame(), width, self.has_focus), look)][crop.y : crop.bottom]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, self.background_colors[1]) for strip in strips]
        return strips

    def _draw(self, look: themes.Look, height: int) -> list[Strip]:
        if not self.series or height < 4:
            return [self._strip([], look)] * height
        head = self._cycles(look)
        lines: list[Strip] = []
        shown = self._panels(height - len(head) - 1)
        hidden = len(self.series) - sum(len(panel.series) for panel, _ in shown)
        for panel, drawn in shown:
            lines.append(self._legend(panel, look, hidden if panel is shown[-1][0] else 0))
            lines += self._lines(panel, drawn, look)
        blank = [self._strip([], look)] * (height - len(head) - len(lines) - 1)
        return [*head, *lines, *blank[: max(0, len(blank))], self._axis(look)][:height]

    def _panels(self, room: int) -> list[tuple[Panel, Drawn]]:
        """As many panels as fit, each with its current drawing."""
        from ....analysis.metrics.plot import drawn, panels

        window = self.window
        key = (self.series, window, room)
        if self._known is None or self._known[0] != (id(self.series), window, room):
            result = panels(self.series, max(1, room // (LEAST_HEIGHT + 1)))
            height = room // max(1, len(result)) - 1
            self._known = (id(key[0]), window, room), [(panel, drawn(panel, window, height)) for panel in result]
        return self._known[1]

    def _cycles(self, look: themes.Look) -> list[Strip]:
        """One line of cycles for each run that has any."""
        from ....analysis.metrics.plot import LABEL
        from ....analysis.timeline.picture import cycle_line

        result = []
        for at, marks in enumerate(self.marks if self.timed else ()):
            if len(marks.starts):
                side = f"{'AB'[at] if self.pair else 'cycles':>{LABEL - 1}} "
                result.append(self._strip([
                    Segment(side, look.dim), Segment(cycle_line(marks, self.window), look.mark)], look))
        return result

    def _shades(self) -> list[bool]:
        """For each column whether it is shaded: in every second cycle of run A."""
        window = self.window
        shaded = [False] * window.columns
        marks = self.marks[0] if self.marks and self.timed else None
        if marks is None or len(marks.starts) > window.columns // 2:
            return shaded
        for at in range(1, len(marks.starts), 2):
            first = max(0, window.column(int(marks.starts[at])))
            last = min(window.columns, window.column(int(marks.ends[at])))
            for column in range(first, last):
                shaded[column] = True
        return shaded

    def _colour(self, panel: Panel, number: int, look: themes.Look) -> Style:
        colours = tuple(look.role(name) for name in _COLOURS)
        if self.pair and len(panel.series) <= 2:
            return (look.a, look.b)[panel.series[number].key.run]
        return colours[number % len(colours)]

    def _legend(self, panel: Panel, look: themes.Look, hidden: int) -> Strip:
        """Letter, name and value (last sample up to the cursor, else the first) per line; count of series hidden."""
        more = f" +{hidden} hidden " if hidden else ""
        room = max(24, (self.size.width - 2 * INSET - 1 - len(more)) // max(1, len(panel.series)))
        result = []
        for number, one in enumerate(panel.series):
            value = metrics.value_text(one.near(self.moment), panel.unit)
            letter = panel.letters[number]
            head = f" {letter} " + (f"{'AB'[one.key.run]} " if self.pair and letter.islower() else "")
            name = display(one.key.name, max(8, room - len(head) - len(value) - 2))
            result.append(Segment(head + name, self._colour(panel, number, look)))
            result.append(Segment(f" {value} ", look.top))
        return self._strip([*result, Segment(more, look.dim)], look)

    def _lines(self, panel: Panel, drawn: Drawn, look: themes.Look) -> list[Strip]:
        from ....analysis.metrics.plot import NOBODY

        shaded = self._shades()
        shade = Style(bgcolor=look.cursor_blurred.bgcolor)
        colours = [self._colour(panel, number, look) for number in range(len(panel.series))]
        result = []
        for label, line, owners, end in zip(drawn.labels, drawn.lines, drawn.owners.tolist(), drawn.ends, strict=True):
            segments, begin = [Segment(label, look.gutter)], 0
            for at in range(1, len(line) + 1):
                if at == len(line) or (owners[at], shaded[at]) != (owners[begin], shaded[begin]):
                    style = look.base if owners[begin] == NOBODY else colours[owners[begin]]
                    segments.append(Segment(line[begin:at], style + shade if shaded[begin] else style))
                    begin = at
            result.append(self._strip([*segments, Segment(f" {end}", look.top)], look))
        return result

    def _axis(self, look: themes.Look) -> Strip:
        """The time axis with the cursor's mark on it."""
        from ....analysis.metrics.plot import LABEL, place_text, ruler

        text = ruler(self.window, self.timed).ljust(self.window.columns)
        at = self.column
        under = next((one for one in re.finditer(r"\S+(?: \S+)*", text) if one.start() < at < one.end()), None)
        if under:  # the rest of a label cut by the mark would read as another number
            text = f"{text[: under.start()]}{' ' * len(under[0])}{text[under.end() :]}"
        here = look.cursor if self.has_focus else look.mark
        return self._strip([
            Segment(f"{place_text(self.moment, self.window, self.timed):>{LABEL - 1}} ", look.top),
            Segment(text[:at], look.header), Segment("▲", here),
            Segment(text[at + 1 :], look.header),
        ], look)

    def _strip(self, segments: list[Segment], look: themes.Look) -> Strip:
        side = look.focus if self.has_focus else look.frame
        inner = Strip(segments).adjust_cell_length(self.size.width - 2 * INSET, look.base)
        return Strip([Segment("│ ", side), *inner, Segment(" │", side)])
