"""Frames: title, order and scope in the upper border of a panel, legend and position in the lower one.

A frame takes two lines. Its border is drawn with the panel, for a list as segments and for a picture as Content, from
the same pieces: a text and the role (``themes.Look``) of its style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from ...analysis.core.text import cut
from ..session.themes import Look, content_style
from ..terminal import sanitiser

Piece = tuple[str, str]
"""Text and its role; ``base`` for no special style."""
Pieces = tuple[Piece, ...]


class Frame(Struct, frozen=True):
    """Texts of a border: ``title``, ``note`` upper left, ``right`` upper right, ``legend`` and ``position`` below."""

    title: str = ""
    note: Pieces = ()
    right: Pieces = ()
    legend: Pieces = ()
    position: Pieces = ()

    @property
    def on_one_line(self) -> Frame:
        """The texts for the upper border alone, where the lower one is not drawn; the legend is left out."""
        return Frame(self.title, self.note, pieces_of((self.position, self.right), " · "))


def dim(text: str) -> Pieces:
    """Dim text for a border."""
    return ((text, "dim"),) if text else ()


def with_base(frame: Frame, facts: Mapping[str, Any], width: int) -> Frame:
    """The frame with what 100% is on this screen at its upper right; where there is no room, instead of its note."""
    bases = [one["base"] for one in (facts, facts.get("a") or {}, facts.get("b") or {}) if one.get("base")]
    if not bases:
        return frame
    text, short = bases[0]["label"], bases[0]["label_short"]
    if len(bases) > 1 and bases[0]["per"] == bases[1]["per"]:
        text = short = f"{short} → {bases[1]['label_short'].rpartition(', ')[2]}"
    head = pieces_of((((frame.title, "base"),), frame.note), " ")
    if _cells(head) + sanitiser.cells(text) + 10 <= width:
        return replace(frame, right=(*frame.right, *((("  ", "base"),) if frame.right else ()), (text, "dim")))
    if _cells(head) + sanitiser.cells(short) + 10 <= width:
        return replace(frame, right=((short, "dim"),))
    return replace(frame, note=(), right=((short, "dim"),))


def pieces_of(groups: Sequence[Pieces], gap: str = "  ") -> Pieces:
    """The groups that are not empty, separated by ``gap``."""
    some = [group for group in groups if group]
    return tuple(chain.from_iterable((((gap, "base"),) if at else ()) + group for at, group in enumerate(some)))


def widest(width: int, *ways: Sequence[Pieces]) -> Pieces:
    """A legend for a frame of that width: the first variant that fits, else the first parts that fit of the last."""
    for way in ways:
        if _cells(result := pieces_of(way)) <= width - 6:
            return result
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
    """A border with text at both ends; if both do not fit, the right one loses parts, then the left one is cut."""
    line = "focus" if focus else "frame"
    while right and _cells(left) + _cells(right) + (10 if left else 6) > width:
        right = right[:-2]  # the last part and the gap before it
    left = _cut(left, width - 6)
    filled = width - 2 - sum(_cells(side) + 3 for side in (left, right) if side)
    result: list[Piece] = [(corners[0] + ("─ " if left else ""), line), *left]
    result.append(((" " if left else "") + "─" * max(0, filled) + (" " if right else ""), line))
    return [*result, *right, ((" ─" if right else "") + corners[1], line)]


def _cells(pieces: Pieces) -> int:
    return sum(sanitiser.cells(text) for text, _ in pieces)


def _cut(pieces: Pieces, width: int) -> Pieces:
    result, room = [], max(0, width)
    for text, role in pieces:
        shown = cut(text, room) if sanitiser.cells(text) > room else text
        room -= sanitiser.cells(shown)
        result.append((shown, role))
    return tuple(result)


def strip(pieces: Sequence[Piece], look: Look) -> Strip:
    """Pieces as a line of a list."""
    return Strip([Segment(text, look.role(role)) for text, role in pieces])


def content(pieces: Sequence[Piece]) -> Content:
    """Pieces as Content."""
    return Content.assemble(*((text, "" if role == "base" else content_style(role)) for text, role in pieces))


def boxed(lines: Sequence[Content], frame: Frame, width: int, focus: bool = False) -> list[Content]:
    """Lines in a frame ``width`` cells wide, each cut to the ``width`` − 4 cells inside."""
    side = content_style("focus" if focus else "frame")
    room = width - 4
    result = [content(upper(frame, width, focus))]
    for line in lines:
        line = line.truncate(room, ellipsis=True)
        result.append(Content.assemble(("│ ", side), line, " " * (room - line.cell_length), (" │", side)))
    return [*result, content(lower(frame, width, focus))]
