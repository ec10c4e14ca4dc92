"""Lines of the timeline with their colours: its three frames and their content.

The content of a column comes from the analysis; this module adds styles and highlights the cursor. A ``Painter`` is
made for one theme, width and label width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ....analysis.core.text import cut_end, display
from ...list import cells, frame
from ...session.themes import Look

if TYPE_CHECKING:
    from ....analysis.timeline.lanes import Timeline
    from ....analysis.timeline.layout import Row
    from ....analysis.timeline.picture import Line
    from ....analysis.timeline.window import Window

_ROLES = {"annotation": "other", "dataloader": "copy", "sched": "device", "io": "device", "overhead": "device"}
"""Slice classes drawn in the colour of another class."""
_REVERSE, _BOLD = Style(reverse=True), Style(bold=True)
SIDES = 4
"""Cells of both sides of a frame together."""


class Selected(Struct, frozen=True):
    """Slice or gap under the cursor: name, note for the border, bars (run letter, text, length in ns, remark, severity
    of the remark) and sentences."""

    name: str = ""
    note: str = ""
    bars: tuple[tuple[str, str, int, str, str], ...] = ()
    lines: tuple[str, ...] = ()


class Painter(Struct, frozen=True):
    """Draws lines of ``width`` cells in the colours of ``look``; the first ``label`` cells hold a line's label."""

    look: Look
    width: int
    label: int
    focus: bool

    @property
    def columns(self) -> int:
        """Columns of a lane."""
        return max(10, self.width - SIDES - self.label)

    def upper(self, border: frame.Frame, focus: bool = False) -> Strip:
        """The upper border of a frame."""
        return frame.strip(frame.upper(border, self.width, focus and self.focus), self.look)

    def lower(self, border: frame.Frame = frame.Frame(), focus: bool = False) -> Strip:  # noqa: B008 - frozen
        """The lower border of a frame."""
        return frame.strip(frame.lower(border, self.width, focus and self.focus), self.look)

    def line(self, segments: Sequence[Segment], focus: bool = False) -> Strip:
        """A line between the sides of a frame."""
        side = self.look.focus if focus and self.focus else self.look.frame
        inner = Strip(segments).adjust_cell_length(max(0, self.width - SIDES), self.look.base)
        return Strip([Segment("│ ", side), *inner, Segment(" │", side)])

    def _label(self, side: str, text: str, style: Style) -> list[Segment]:
        """The label of a line, after the letter of its run."""
        room = self.label - 1 - 2 * bool(side)
        return [*([Segment(f"{side} ", self.look.top)] if side else []),
                Segment(cells.fit(brief(text, room), room) + " ", style)]

    def minimaps(self, runs: Sequence[Timeline], wholes: Sequence[Window], windows: Sequence[Window]) -> list[Strip]:
        """How busy the devices were over the whole of each run, with the window highlighted."""
        from ....analysis.timeline.picture import minimap

        look, result = self.look, []
        for at, (run, whole, window) in enumerate(zip(runs, wholes, windows, strict=True)):
            text, first, last = minimap(run, whole, window)
            side = "AB"[at] if len(runs) > 1 else ""
            style = look.role("gemm")
            lit = style + _REVERSE if last - first + 1 < len(text) else style
            result.append(self.line([
                *self._label(side, run.label, look.dim), Segment(text[:first], style),
                Segment(text[first : last + 1], lit), Segment(text[last + 1 :], style)]))
        return result

    def ruler(self, window: Window) -> Strip:
        """The time axis above the lanes."""
        from ....analysis.timeline.picture import axis

        text = axis(window)
        return self.line([Segment(" " * self.label, self.look.base), Segment(text, self.look.header)], True)

    def cycles(self, run: Timeline, window: Window) -> Strip:
        """The cycles of a run above its lanes."""
        from ....analysis.timeline.picture import marks

        return self.line([*self._label("", "cycles", self.look.gutter), Segment(marks(run, window), self.look.mark)],
                         True)

    def notes(self, notes: Sequence[tuple[int, str]], marked: tuple[int, int] | None, window: Window) -> Strip:
        """Notes of a run at their start times, and the marked range, in one line."""
        line = [" "] * window.columns
        if marked is not None:
            first, last = window.column(marked[0]), window.column(marked[1] - 1)
            for at in range(max(0, first), min(window.columns, last + 1)):
                line[at] = "├" if at == first else "┤" if at == last else "─"
        free = window.columns  # where the next note begins
        for start, text in sorted(notes, reverse=True):
            at = window.column(start)
            if 0 <= at < free:
                shown = "◆" + cells.fit(display(text, 40), min(40, free - at - 1)).rstrip()
                line[at : at + cell_len(shown)] = [shown, *[""] * (cell_len(shown) - 1)]
                free = at
        label = self._label("", "notes" if notes else "range", self.look.gutter)
        return self.line([*label, Segment("".join(line), self.look.match)], True)

    def seam(self) -> Strip:
        """The separator between two runs."""
        side = self.look.focus if self.focus else self.look.frame
        return Strip([Segment("│", side), Segment("┄" * (self.width - 2), self.look.faint), Segment("│", side)])

    def row(self, side: str, row: Row, line: Line, under: Sequence[str], column: int, here: bool) -> list[Strip]:
        """The lines of a row; ``under`` continues its label on the lines below, ``column`` is the cursor's."""
        look = self.look
        style = look.cursor if here else look.base if row.lane is not None and row.lane.tid is None else look.gutter
        labels = [self._label(side, row.label, style)]
        labels += [self._label(" " if side else "", text, look.dim) for text in under[: row.lines - 1]]
        labels += [[Segment(" " * self.label, look.base)]] * (row.lines - len(labels))
        if line.prefix:
            judged = row.counter.judgement if row.counter is not None else ""
            rest, cut = line.text, len(line.prefix)
            tone = look.role(judged) if judged else look.top if row.counter is not None else look.dim
            body = [Segment(rest[:cut], tone), Segment(rest[cut:], look.role(judged) if judged else look.spark)]
            return [self.line([*labels[0], *self._lit(body, column, here)], True)]
        strips: dict[tuple[object, ...], Strip] = {}  # lines of a tall lane repeat: 8 ms a frame of one stream, not 12
        keys = [(*label, line.lines[at], *(one[1:] for one in line.named if one[0] == at))
                for at, label in enumerate(labels)]
        for at, key in enumerate(keys):
            if key not in strips:
                strips[key] = self.line([*labels[at], *self._coloured(line, at, column, here)], True)
        return [strips[key] for key in keys]

    def _lit(self, segments: list[Segment], column: int, here: bool) -> list[Segment]:
        """The segments with the cursor's column highlighted."""
        strip = Strip(segments)
        before, at, after = strip.crop(0, column), strip.crop(column, column + 1), strip.crop(column + 1)
        lit = [Segment(one.text, self.look.cursor if here else (one.style or self.look.base) + self.look.cursor_blurred)
               for one in at]
        return [*before, *lit, *after]

    def _coloured(self, line: Line, number: int, column: int, here: bool) -> list[Segment]:
        """One line of a row in the colours of its classes, names inside their blocks, the cursor highlighted."""
        from ....analysis.timeline.classes import CLASSES

        look, text, named = self.look, list(line.lines[number]), [one for one in line.named if one[0] == number]
        inside = [False] * len(text)
        for _, first, last in named:
            inside[first : last + 1] = [True] * (last + 1 - first)
            if last > first:
                text[first], text[last] = "▏", " "
        roles: list[str | None] = [
            _ROLES.get(CLASSES[code], CLASSES[code]) if sign != " " or lit else None
            for code, sign, lit in zip(line.classes.tolist(), text, inside, strict=True)
        ]
        edges = [0, *(at for at in range(1, len(text))
                      if at in (column, column + 1) or roles[at] != roles[at - 1] or inside[at] != inside[at - 1]),
                 len(text)]
        result = []
        for begin, stop in pairwise(edges):
            role = roles[begin]
            style = look.role(role) if role else look.base
            style = style + _REVERSE if inside[begin] else style + _BOLD if text[begin].isalpha() else style
            if begin == column:
                style = look.cursor if here else style + look.cursor_blurred
            result.append(Segment("".join(text[begin:stop]), style))
        return result

    def selection(self, selected: Selected, lines: int) -> list[Strip]:
        """The slice or gap under the cursor in ``lines`` lines: bars of its length in both runs, or one line."""
        look, result = self.look, list[Strip]()
        most = max((length for _, _, length, _, _ in selected.bars), default=0)
        if lines < len(selected.lines) + len(selected.bars):
            short = [Segment(f"{side} {text}  ", look.base) for side, text, _, _, _ in selected.bars]
            short += [Segment(f"{remark}  ", look.role(judged or "base")) for *_, remark, judged in selected.bars[-1:]]
            line = " · ".join(filter(None, selected.lines))
            room = self.width - SIDES - sum(one.cell_length for one in short)
            cut = "" if short else cut_end(line, room)
            whole = next((one for one in _with_fewer_parts(line) if len(one) <= room), cut)
            return [self.line([*short, Segment(whole, look.dim)])]
        room = max(10, (self.width - SIDES) * 5 // 10)
        for side, text, length, remark, judged in selected.bars:
            bar = cells.bar(length / max(most, 1), room)
            result.append(self.line([
                Segment(f"{side} ", look.top), Segment(f"{text:>10}  ", look.role(judged or "base")),
                Segment(f"{bar:<{room}}", look.bar), Segment(f"  {remark}", look.role(judged or "dim"))]))
        for text in selected.lines[: lines - len(result)]:
            style = look.dim if result else look.base
            result.append(self.line([Segment(cells.fit(text, self.width - SIDES), style)]))
        return result + [self.line([])] * (lines - len(result))


def brief(label: str, room: int) -> str:
    """The label with its words shortened one by one until it fits: its numbers tell lanes apart."""
    for word, short in ((r"\brank (?=\d)", "r"), (r"\bthread (?=-?\d)", "th "), (r"\bstream (?=\d)", "s")):
        if cell_len(label) > room:
            label = re.sub(word, short, label, count=1)
    return label


def _with_fewer_parts(text: str) -> list[str]:
    """The text, then shortened from its end by one more part each time."""
    parts = re.split(r"(?= · | on thread | by )", text)
    return ["".join(parts[:count]) for count in range(len(parts), 0, -1)]


def calls(row: Row) -> str:
    """The calls a row stands for, or its label."""
    return " › ".join(cells.name(name, 40).strip() for name in row.crumbs[-4:]) or row.label.strip()
