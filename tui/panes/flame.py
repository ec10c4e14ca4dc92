"""Flame graph of a tree: box widths are device time, idle time or CPU samples.

The cursor is on one box; Enter zooms to it, ``=`` shows everything again. The boxes are those of
``analysis.table.flame``, which exports write too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ...analysis.core.names.short_name import fit_name
from ...analysis.core.text import display
from ...analysis.kernels.family import family
from ..list import cells, frame
from ..session import themes
from ..session.keys import bindings
from ..terminal.painting import lines_or_sentence

if TYPE_CHECKING:
    from ...analysis.table.flame import Flame, Frame

_REVERSE = Style(reverse=True)
_FOOT = 3
"""Lines below the boxes: two about the box under the cursor, and the border."""


class FlameCanvas(Widget, can_focus=True):
    """The boxes of one tree."""

    DEFAULT_CSS = "FlameCanvas { height: 1fr; width: 1fr; display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings("flame")

    class Weighed(Message):
        """Switch between device time and idle time."""

    def __init__(self) -> None:
        super().__init__()
        self.flame: Flame | None = None
        self.selected, self.zoomed = 0, -1
        self._frame = frame.Frame()

    def show(self, flame: Flame) -> None:
        """Draw these boxes; cursor and zoom stay if the boxes have the same names as before."""
        if self.flame is None or [one.name for one in self.flame.frames] != [one.name for one in flame.frames]:
            self.selected, self.zoomed = 0, -1
        self.flame = flame
        self.refresh()

    def caption(self, border: frame.Frame) -> None:
        """Set the text of the border."""
        self._frame = border
        self.refresh()

    def _span(self) -> tuple[int, int]:
        """Start and length of the range that fills the width."""
        assert self.flame is not None
        if self.zoomed < 0:
            return 0, max(1, self.flame.total)
        one = self.flame.frames[self.zoomed]
        return one.start, max(1, one.value)

    def _lines(self) -> list[list[tuple[Frame, int, int]]]:
        """The visible boxes by depth, each with its first cell and the cell after its last."""
        if self.flame is None:
            return []
        begin, length = self._span()
        width = max(10, self.size.width - 4)
        result: list[list[tuple[Frame, int, int]]] = []
        for one in self.flame.frames:
            first = round((max(one.start, begin) - begin) * width / length)
            last = round((min(one.start + one.value, begin + length) - begin) * width / length)
            inside = one.start < begin + length and one.start + one.value > begin
            if inside and (last > first or one.at == self.selected):
                while len(result) <= one.depth:
                    result.append([])
                result[one.depth].append((one, min(first, width - 1), min(width, max(last, first + 1))))
        return result

    def action_beside(self, step: int) -> None:
        """Go to the next or previous box on the same line."""
        for line in self._lines():
            places = [one.at for one, _, _ in line]
            if self.selected in places:
                self._select(places[max(0, min(len(places) - 1, places.index(self.selected) + step))])

    def action_deeper(self, step: int) -> None:
        """Go to the widest box below, or to the box above."""
        if self.flame is None or not self.flame.frames:
            return
        if step < 0:
            self._select(self.flame.frames[self.selected].above)
        else:
            self._select(max(self.flame.below(self.selected), key=lambda one: one.value, default=None))

    def find(self, text: str) -> bool:
        """Go to the next box whose name contains the text, after the last one to the first; False if there is none."""
        frames, text = self.flame.frames if self.flame is not None else (), text.lower()
        found = [one.at for one in frames if text in one.name.lower() or text in fit_name(one.name, 60).lower()]
        if found:
            self.selected = next((at for at in found if at > self.selected), found[0])
            begin, length = self._span()
            if not begin <= frames[self.selected].start < begin + length:
                self.zoomed = -1
            self.refresh()
        return bool(found)

    def _select(self, to: Frame | int | None) -> None:
        at = to if isinstance(to, int) or to is None else to.at
        if at is None or at < 0:
            self.app.bell()
            return
        self.selected = at
        self.refresh()

    def action_into(self) -> None:
        """Zoom to the box under the cursor."""
        self.zoomed = self.selected
        self.refresh()

    def action_whole(self) -> None:
        """Show the whole graph."""
        self.zoomed = -1
        self.refresh()

    def action_weigh(self) -> None:
        """Switch between device time and idle time."""
        self.post_message(self.Weighed())

    @lines_or_sentence
    def render_lines(self, crop: Region) -> list[Strip]:
        """The visible lines."""
        strips = self._draw()[crop.y : crop.bottom]
        for each in self.get_line_filters():
            strips = [strip.apply_filter(each, self.background_colors[1]) for strip in strips]
        return strips

    def _draw(self) -> list[Strip]:
        from ...analysis.table.export.flame_picture import described, title

        look, (width, height) = themes.look(self.app.theme), self.size
        if self.flame is None or not self.flame.frames or height < 5:
            return [Strip.blank(width, look.base)] * height
        lines, one = self._lines(), self.flame.frames[self.selected]
        room = height - 1 - _FOOT
        top = max(0, min(one.depth - room // 2, len(lines) - room))
        side = look.focus if self.has_focus else look.frame
        heading = title(self.flame)
        heading = heading if len(heading) <= width - 18 else heading.partition(";")[0]
        head = frame.Frame("Flame graph", frame.dim(heading), self._frame.right)
        result = [frame.strip(frame.upper(head, width, self.has_focus), look)]
        body = [self._boxes(line, look) for line in lines[top : top + room]]
        path = " › ".join(display(each.name, 40) for each in self.flame.stack(one.at)[-5:-1])
        said = [
            [Segment(fit_name(one.name, max(20, width // 2)), look.top), Segment(f"  {self._sign(one)}", look.base),
             Segment(described(self.flame, one), look.base)],
            [Segment(cells.fit(path, width - 4), look.dim)],
        ]
        for segments in (*body, *[[]] * (room - len(body)), *said):
            inner = Strip(segments).adjust_cell_length(max(0, width - 4), look.base)
            result.append(Strip([Segment("│ ", side), *inner, Segment(" │", side)]))
        position = f"level {one.depth + 1} of {1 + max(each.depth for each in self.flame.frames)}"
        other = "" if self.flame.weight == "samples" else "r device or idle time  "
        foot = frame.Frame(legend=frame.dim(f"{other}s list"), position=frame.dim(position))
        return [*result, frame.strip(frame.lower(foot, width, self.has_focus), look)][:height]

    def _boxes(self, line: list[tuple[Frame, int, int]], look: themes.Look) -> list[Segment]:
        """One line of boxes with their names; each starts with a separator glyph."""
        result, at = list[Segment](), 0
        nexts = [first for _, first, _ in line[1:]]
        for (one, first, last), following in zip(line, [*nexts, self.size.width], strict=True):
            first, last = max(first, at), min(last, following)
            if last <= first:
                continue
            if first > at:
                result.append(Segment(" " * (first - at), look.base))
            text = fit_name(one.name, last - first - 1) if last - first > 3 else ""
            text = f"▏{self._sign(one)}{text}"[: last - first]
            style = look.cursor if one.at == self.selected else self._style(one, look) + _REVERSE
            result.append(Segment(cells.fit(text, last - first), style))
            at = last
        return result

    @staticmethod
    def _sign(one: Frame) -> str:
        """The change of a box in B as text (``▲1.5×``, ``new``), so that it can be read without colour."""
        from ...analysis.table.export.flame_picture import changed

        if one.before is None or not (way := changed(one)):
            return ""
        if not one.before:
            return "new "
        return f"{'▲' if way > 0 else '▼'}{one.value / one.before:.1f}× "

    @staticmethod
    def _style(one: Frame, look: themes.Look) -> Style:
        from ...analysis.table.export.flame_picture import changed
        from ...analysis.table.flame import CALLS, OUTER

        if one.before is not None:
            return (look.dim, look.bad, look.good)[changed(one)]
        if one.kind in (*OUTER, *CALLS):
            return look.python if one.kind in OUTER else look.op
        return look.role(family(one.name, one.kind))
