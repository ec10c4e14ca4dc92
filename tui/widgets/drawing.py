"""Pictures in text: summaries, histograms, stacked bars and gauges, as Content of a given width.

Pure functions of numbers and display text. A is drawn in ``$primary``, B in ``$accent``, and each is also named, so
that no meaning rests on colour.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.histogram_lines import histogram_lines
from ...analysis.core.text import display
from ..list import cells

A, B = "$primary", "$accent"
QUIET = "dim"
_LABEL = re.compile(r"^\S{1,14}  +")
"""A word and at least two spaces: the column after it is where the text of all labelled lines begins."""


def joined(lines: Sequence[Content]) -> Content:
    """Lines one under the other."""
    return Content("\n").join(lines) if lines else Content("")


def wrapped(text: str, width: int, bullet: str = "") -> list[Content]:
    """A recorded or composed sentence as lines of at most ``width`` cells, continued under its first letter."""
    lines = textwrap.wrap(display(text), max(20, width), initial_indent=bullet, subsequent_indent=" " * len(bullet))
    return [Content(line) for line in lines or [""]]


def summary(lines: Sequence[str], width: int) -> Content:
    """The lines an answer opens with, wrapped; a label at the beginning of a line (``GPU     busy…``) stands out."""
    column = next((match.end() for line in lines if (match := _LABEL.match(line))), 0)
    made: list[Content] = []
    for line in map(display, lines):
        label = line[:column].rstrip()
        if not label or " " in label or line[column - 1 : column] != " ":
            made += [Content.assemble(" ", part) for part in wrapped(line, width - 2)]
            continue
        parts = textwrap.wrap(line[column:], max(20, width - column - 2)) or [""]
        made.append(Content.assemble(" ", (f"{label:<{column}}", "bold $primary"), parts[0]))
        made += [Content(" " * (column + 1) + part) for part in parts[1:]]
    return joined(made)


def side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    """Two blocks of lines next to one another, the left one in ``width`` cells."""
    made = []
    for one, other in zip_longest(left, right, fillvalue=Content("")):
        cut = one.truncate(width, ellipsis=True)
        made.append(Content.assemble(cut, " " * (width - cut.cell_length), other))
    return made


def histogram(shape: dict[str, Any], width: int, height: int) -> list[Content]:
    """How many cycles took how long, A above B on one axis; runs of empty bins become one line.

    ``shape`` has ``edges_ns`` and per side (``a``, ``b``) one count less.
    """
    sides = sum(bool(shape.get(side)) for side in ("a", "b"))
    unit, lines = histogram_lines(shape, max(3, (height - 1) // max(1, sides)))
    if not lines or width < 24:
        return []
    label = max(len(line.label) for line in lines) + 2
    most = units.count(max(line.cycles for line in lines))
    room = max(4, width - label - len(most) - 3 - (2 if sides > 1 else 0))
    made = [Content.styled(f" {unit:<{label}}", QUIET)]
    for line in lines:
        if not line.side:
            made.append(Content.styled(f" {'⋮':<{label}}", QUIET))
            continue
        drawn = (f"{line.side.upper()} " if sides > 1 else "") + cells.bar(line.share, room).rstrip()
        made.append(Content.assemble(
            (f" {line.label:<{label}}", QUIET), (drawn, A if line.side == "a" else B), f" {units.count(line.cycles)}"
        ))
    return made


def gauge(label: str, share: float, width: int, colour: str = "$primary") -> Content:
    """A name, a bar and a percentage."""
    bar = max(6, width - 26)
    drawn = (cells.bar(min(1.0, share), bar), colour)
    return Content.assemble((f" {label:<17} ", QUIET), drawn, f" {100 * share:5.1f}%")
