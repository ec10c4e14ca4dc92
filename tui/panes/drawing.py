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
from ...analysis.core.text import display
from ..list import cells

A, B = "$primary", "$accent"
QUIET = "dim"
_LABEL = re.compile(r"^\S{1,14}  +")
"""A word and at least two spaces: the column after it is where the text of all labelled lines begins."""

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


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


def beside(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
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
    edges, sides = shape.get("edges_ns") or [], [side for side in ("a", "b") if side in shape]
    if len(edges) < 2 or not sides or width < 24:
        return []
    bins = [(edges[at], edges[at + 1], [shape[side][at] for side in sides]) for at in range(len(edges) - 1)]
    bins = _merged(bins, max(3, (height - 1) // len(sides)))
    factor, unit = next((pair for pair in _UNITS if edges[-1] >= 2 * pair[0]), _UNITS[-1])
    places = 0 if edges[-1] - edges[0] >= 4 * factor * len(bins) else 1 if edges[-1] - edges[0] >= factor else 3
    most = max(max(counts) for _, _, counts in bins) or 1
    label = max(len(_span(low, high, factor, places)) for low, high, _ in bins) + 2
    room = max(4, width - label - len(units.count(most)) - 3 - (2 if len(sides) > 1 else 0))
    made, empty = [Content.styled(f" {unit:<{label}}", QUIET)], False
    for low, high, counts in bins:
        if not any(counts):
            if not empty:
                made.append(Content.styled(f" {'⋮':<{label}}", QUIET))
            empty = True
            continue
        empty = False
        head = _span(low, high, factor, places)
        for at, count in enumerate(counts):
            if count:
                side = f"{'AB'[at]} " if len(sides) > 1 else ""
                drawn = cells.bar(count / most, room).rstrip()
                made.append(Content.assemble(
                    (f" {head:<{label}}", QUIET), (side + drawn, (A, B)[at]), f" {units.count(count)}"
                ))
                head = ""
    return made


def _merged(bins: list[Any], most: int) -> list[Any]:
    """At most that many bins, neighbours taken together."""
    step = -(-len(bins) // most)
    return [
        (part[0][0], part[-1][1], [sum(values) for values in zip(*(counts for _, _, counts in part), strict=True)])
        for part in (bins[at : at + step] for at in range(0, len(bins), step))
    ]


def _span(low: float, high: float, factor: float, places: int) -> str:
    return f"{low / factor:,.{places}f}–{high / factor:,.{places}f}"


def gauge(label: str, share: float, width: int, colour: str = "$primary") -> Content:
    """A name, a bar and a percentage."""
    bar = max(6, width - 26)
    drawn = (cells.bar(min(1.0, share), bar), colour)
    return Content.assemble((f" {label:<17} ", QUIET), drawn, f" {100 * share:5.1f}%")
