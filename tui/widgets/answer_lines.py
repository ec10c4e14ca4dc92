"""The lines of an answer (the fact ``lines``) in a frame: the most important first, each in its long form where that
fits, else in its short one; what does not fit is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ...analysis.core import units
from ..list.frame import Frame, Pieces, dim
from .drawing import MARKS, judged_style, with_number, wrapped

Lines = Sequence[dict[str, str]]
WRAPS = 100
"""Cells of a terminal from which a line may take a second one."""
_JUDGED = {mark: judgement for judgement, mark in MARKS.items()}
_NEVER_WRAPPED = ("verdict", "cause")


def answer(lines: Lines, width: int, room: int, wraps: bool) -> tuple[list[Content], Lines]:
    """At most ``room`` drawn lines of ``width`` cells, and the lines that were left out. With ``wraps`` a long form
    that does not fit is wrapped where there is room for it, verdict and cause excepted."""
    taken = lines[:room]
    forms = [one["long"] if cell_len(one["long"]) <= width - 2 else one["short"] for one in taken]
    drawn = [_drawn(one["mark"], text, width, one=True) for one, text in zip(taken, forms, strict=True)]
    spare = room - len(drawn)
    for at, one in enumerate(taken):
        if not wraps or spare <= 0 or forms[at] == one["long"] or one["kind"] in _NEVER_WRAPPED:
            continue
        whole = _drawn(one["mark"], one["long"], width)
        if len(whole) - 1 <= spare:
            spare -= len(whole) - 1
            drawn[at] = whole
    return [line for one in drawn for line in one], lines[len(taken):]


def answer_frame(
    frame: Frame, lines: Lines, lead: dict[str, Any] | None, width: int, room: int
) -> tuple[Frame, list[Content]]:
    """The answer inside a frame ``width`` cells wide: the key figure in large digits to the left where there is room,
    the lines that fit into ``room``, and in the frame how many do not."""
    left: Lines = ()

    def drawn(cells: int, most: int) -> list[Content]:
        nonlocal left
        result, left = answer(lines, cells, most, width >= WRAPS)
        return result

    result = with_number(lead if width >= WRAPS else None, drawn, width - 4, room, stays=True)
    return replace(frame, position=left_out(left)), result


def _drawn(mark: str, text: str, width: int, one: bool = False) -> list[Content]:
    parts = [Content(text)] if one else wrapped(text, width - 2)
    first = Content.assemble((mark or "·", f"bold {judged_style(_JUDGED.get(mark, ''))}".strip()), " ", parts[0])
    return [first, *(Content.assemble("  ", part) for part in parts[1:])]


def left_out(lines: Lines) -> Pieces:
    """What is cut, for the frame, and the key that shows all of it: '▾ 3 more (w): 1 not checked, 2 data'."""
    if not lines:
        return ()
    kinds = [one["kind"] for one in lines]
    parts = [units.counted(kinds.count(kind), *_KINDS.get(kind, (kind, kind))) for kind in dict.fromkeys(kinds)]
    return dim(f"▾ {len(lines)} more (w): {', '.join(parts)}")


_KINDS = {"unchecked": ("not checked", "not checked"), "effect": ("effect", "effects"),
          "finding": ("finding", "findings")}
