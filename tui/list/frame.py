"""Frames: what a panel is, its order and scope in the upper border; its legend and where one is in the lower one.

A frame costs two rows. Its border is drawn by whoever draws the panel, a list as segments and a picture as Content,
from the same pieces: text and the role (``themes.Look``) that it is drawn in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from ...analysis.core.text import cut
from ..session.themes import Look, content_style
from ..terminal import sanitiser

Piece = tuple[str, str]
"""Text and its role; ``base`` for none."""
Pieces = tuple[Piece, ...]


class Frame(Struct, frozen=True):
    """What stands in the border: ``title`` and ``note`` upper left, ``right`` upper right, ``legend``, ``position``."""

    title: str = ""
    note: Pieces = ()
    right: Pieces = ()
    legend: Pieces = ()
    position: Pieces = ()

    @property
    def on_one_line(self) -> Frame:
        """The upper border with what the lower one says, where that is not drawn."""
        return Frame(self.title, self.note, pieces_of((self.position, self.right), " · "))


def dim(text: str) -> Pieces:
    """Quiet text in a border."""
    return ((text, "dim"),) if text else ()


def pieces_of(groups: Sequence[Pieces], gap: str = "  ") -> Pieces:
    """What of it there is, apart from one another."""
    some = [group for group in groups if group]
    return tuple(chain.from_iterable((((gap, "base"),) if at else ()) + group for at, group in enumerate(some)))


def widest(width: int, *ways: Sequence[Pieces]) -> Pieces:
    """A legend for the border of a frame of that width: the first way to say it that fits, else what fits of the last,
    a part of it whole or not at all."""
    for way in ways:
        if _cells(made := pieces_of(way)) <= width - 6:
            return made
    last = list(ways[-1])
    while len(last) > 1 and _cells(pieces_of(last)) > width - 6:
        last.pop()
    return pieces_of(last)


def upper(frame: Frame, width: int, focus: bool) -> list[Piece]:
    """The upper border."""
    title = ((frame.title, "top" if focus else "header_sorted"),) if frame.title else ()
    return _edge("╭╮", pieces_of((title, frame.note), " "), frame.right, width, focus)


def lower(frame: Frame, width: int, focus: bool) -> list[Piece]:
    """The lower border."""
    return _edge("╰╯", frame.legend, frame.position, width, focus)


def _edge(corners: str, left: Pieces, right: Pieces, width: int, focus: bool) -> list[Piece]:
    """A border with text at both ends; where both do not fit the right one loses parts, then the left one its end."""
    line = "focus" if focus else "frame"
    while right and _cells(left) + _cells(right) + (10 if left else 6) > width:
        right = right[:-2]  # a part and what keeps it from the one before
    left = _cut(left, width - 6)
    filled = width - 2 - sum(_cells(side) + 3 for side in (left, right) if side)
    made: list[Piece] = [(corners[0] + ("─ " if left else ""), line), *left]
    made.append(((" " if left else "") + "─" * max(0, filled) + (" " if right else ""), line))
    return [*made, *right, ((" ─" if right else "") + corners[1], line)]


def _cells(pieces: Pieces) -> int:
    return sum(sanitiser.cells(text) for text, _ in pieces)


def _cut(pieces: Pieces, width: int) -> Pieces:
    made, room = [], max(0, width)
    for text, role in pieces:
        shown = cut(text, room) if sanitiser.cells(text) > room else text
        room -= sanitiser.cells(shown)
        made.append((shown, role))
    return tuple(made)


def strip(pieces: Sequence[Piece], look: Look) -> Strip:
    """Pieces as a line of a list."""
    return Strip([Segment(text, look.role(role)) for text, role in pieces])


def content(pieces: Sequence[Piece]) -> Content:
    """Pieces as Content."""
    return Content.assemble(*((text, "" if role == "base" else content_style(role)) for text, role in pieces))


def boxed(lines: Sequence[Content], frame: Frame, width: int, focus: bool = False) -> list[Content]:
    """Lines in a frame ``width`` cells wide; they have two cells less on each side, and are cut there."""
    side = content_style("focus" if focus else "frame")
    room = width - 4
    made = [content(upper(frame, width, focus))]
    for line in lines:
        line = line.truncate(room, ellipsis=True)
        made.append(Content.assemble(("│ ", side), line, " " * (room - line.cell_length), (" │", side)))
    return [*made, content(lower(frame, width, focus))]
