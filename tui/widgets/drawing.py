"""Drawings in text: summaries, histograms, stacked bars and gauges, as Content of a given width.

Pure functions of numbers and display text. A is drawn muted and B bright, and both are also named, so that no meaning
depends on colour.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.histogram_lines import histogram_lines
from ...analysis.core.text import display
from ..list import cells
from ..session.themes import content_style
from .digits import big

A, B = content_style("a"), content_style("b")
QUIET = content_style("dim")
SEAM = "▏"
NUMBER_LINES = 4
"""Least lines of a large number with its caption."""
NARROW = 96
"""Below this width sentences get the cells of the large number if they need them."""
_CLAUSE = re.compile(r"(?<=\.) (?=[A-Z#])|(?<=;) ")
_LABEL = re.compile(r"^\S{1,14}  +")
"""A word and at least two spaces: the text of all labelled lines starts in the column after it."""


def joined(lines: Sequence[Content]) -> Content:
    """Lines, one below the other."""
    return Content("\n").join(lines) if lines else Content("")


def wrapped(text: str, width: int, bullet: str = "") -> list[Content]:
    """A sentence as lines of at most ``width`` cells; continuation lines are indented by the bullet."""
    lines = textwrap.wrap(display(text), max(20, width), initial_indent=bullet, subsequent_indent=" " * len(bullet))
    return [Content(line) for line in lines or [""]]


def summary(lines: Sequence[str], width: int, judged: Mapping[str, str] | None = None) -> list[Content]:
    """The summary of an answer, wrapped; a label at the start of a line (``GPU     busy…``) is bold.

    ``judged`` maps labels to a severity, whose mark and colour they get.
    """
    column = next((match.end() for line in lines if (match := _LABEL.match(line))), 0)
    result: list[Content] = []
    for line in map(display, lines):
        label = line[:column].rstrip()
        if not label or " " in label or line[column - 1 : column] != " ":
            result += wrapped(line, width)
            continue
        judgement = (judged or {}).get(label, "")
        style = f"bold {judged_style(judgement)}" if judgement else "bold"
        sign = f"{MARKS[judgement]} " if judgement else "  " if judged else ""
        parts = textwrap.wrap(line[column:], max(20, width - column - len(sign))) or [""]
        result.append(Content.assemble((f"{sign}{label:<{column}}", style), parts[0]))
        result += [Content(" " * (column + len(sign)) + part) for part in parts[1:]]
    return result


def side_by_side(left: Sequence[Content], right: Sequence[Content], width: int) -> list[Content]:
    """Two blocks of lines side by side, the left one ``width`` cells wide."""
    result = []
    for one, other in zip_longest(left, right, fillvalue=Content("")):
        cut = one.truncate(width, ellipsis=True)
        result.append(Content.assemble(cut, " " * (width - cut.cell_length), other))
    return result


def histogram(shape: dict[str, Any], width: int, height: int) -> list[Content]:
    """Histogram of cycle times, A above B in each bin on one axis; runs of empty bins become one line.

    ``shape`` has ``edges_ns`` and per side (``a``, ``b``) the counts, one fewer than edges.
    """
    sides = sum(bool(shape.get(side)) for side in ("a", "b"))
    unit, lines = histogram_lines(shape, max(3, (height - 1) // max(1, sides)))
    if not lines or width < 24:
        return []
    label = max(len(line.label) for line in lines) + 2
    most = units.count(max(line.cycles for line in lines))
    room = max(4, width - label - len(most) - 3 - (2 if sides > 1 else 0))
    result = [Content.styled(f" {unit:<{label}}", QUIET)]
    for line in lines:
        if not line.side:
            result.append(Content.styled(f" {'⋮':<{label}}", QUIET))
            continue
        drawn = (f"{line.side.upper()} " if sides > 1 else "") + cells.bar(line.share, room).rstrip()
        result.append(Content.assemble(
            (f" {line.label:<{label}}", QUIET), (drawn, A if line.side == "a" else B), f" {units.count(line.cycles)}"
        ))
    return result


def gauge(label: str, share: float, width: int, colour: str = "") -> Content:
    """A label, a bar and a percentage."""
    bar = max(4, width - len(label) - 8)
    drawn = (f"{cells.bar(min(1.0, share), bar):<{bar}}", colour or content_style("bar"))
    return Content.assemble((f"{label} ", QUIET), drawn, f" {units.percent(100 * share):>6}")


MARKS = {"bad": "✗", "look": "!", "good": "✓", "same": "=", "unchecked": "○", "": "·"}
"""The mark of each severity: no colour is used without it."""
_ROLES = {"bad": "bad", "look": "warn", "good": "good", "same": "base", "unchecked": "dim", "": "dim"}


def judged_style(judgement: str) -> str:
    """The style of a severity."""
    return "" if judgement == "same" else content_style(_ROLES[judgement])


def marked(finding: tuple[str, str], width: int) -> list[Content]:
    """A severity and its sentence, wrapped beside the mark."""
    judgement, sentence = finding
    lines = wrapped(sentence, width - 2)
    first = Content.assemble((MARKS[judgement], f"bold {judged_style(judgement)}".strip()), " ", lines[0])
    return [first, *(Content.assemble("  ", line) for line in lines[1:])]


def stacked(parts: Sequence[tuple[str, str, float]], width: int) -> Content:
    """One bar of (name, role, size) parts, with a separator glyph between parts so that colour is not needed, and the
    name inside a part where it fits. The length is exact: a part without a cell of its own goes into the next one."""
    total, used, exact = sum(size for _, _, size in parts) or 1.0, 0, 0.0
    result: list[tuple[str, str]] = []
    for name, role, size in parts:
        exact += size / total * width
        room = max(0, min(width, round(exact)) - used)
        used += room
        share = f" {name} {100 * size / total:.0f}%"
        text = share if len(share) <= room else f" {name}" if len(name) < room else " "
        drawn = (SEAM if result else " ") + text[1:].ljust(room - 1) if room else ""
        result.append((drawn, f"reverse {content_style(role)}"))
    return Content.assemble(*result)


def fitting(sentences: Sequence[str], draw: Callable[[Sequence[str]], list[Content]], room: int) -> list[str]:
    """As much of the sentences as ``draw`` fits into ``room`` lines. If not all fit: the first clauses of as many
    sentences as possible, from the first on, then their further clauses. Clauses are never cut, and follow only the
    one before them; the first clause is always there."""
    if len(draw(sentences)) <= room:
        return list(sentences)
    clauses = [_clauses(one) for one in sentences]
    taken = [1] * len(clauses)

    def text() -> list[str]:
        return [_closed(" ".join(parts[:count])) for parts, count in zip(clauses, taken, strict=False)]

    while len(taken) > 1 and len(draw(text())) > room:
        taken.pop()
    for at, parts in enumerate(clauses[: len(taken)]):
        while taken[at] < len(parts):
            taken[at] += 1
            if len(draw(text())) > room:
                taken[at] -= 1
                break
    return text()


def _clauses(sentence: str) -> list[str]:
    result: list[str] = []
    for part in _CLAUSE.split(sentence):
        if result and result[-1].count("(") > result[-1].count(")"):
            result[-1] = f"{result[-1]} {part}"
        else:
            result.append(part)
    return result


def _closed(text: str) -> str:
    return f"{text[:-1]}." if text.endswith(";") else text


def stacked_text(parts: Sequence[tuple[str, str, float]]) -> str:
    """The same bar in words, for exports, which have no colours."""
    total = sum(size for _, _, size in parts) or 1.0
    return " · ".join(f"{name} {units.percent(100 * size / total)}" for name, _, size in parts)


def with_number(
    lead: dict[str, Any] | None, lines: Callable[[int, int], list[Content]], width: int, room: int, stays: bool = False
) -> list[Content]:
    """Sentences in ``room`` lines, drawn by ``lines(cells, lines)``, with the answer's number in large digits to their
    left. On a narrow screen the number is dropped before a sentence is, unless ``stays``."""
    if lead is None or width < 72:
        return lines(width, room)[:room]
    style = judged_style(lead["judgement"]) if lead["judgement"] else content_style("top")
    number = big(lead["number"], lead["caption"], style)
    left, tall = max(line.cell_length for line in number) + 3, max(room, len(number))
    if width < NARROW and not stays and len(lines(width - left, 99)) > tall:
        return lines(width, room)[:room]
    return side_by_side(number, lines(width - left, tall)[:tall], left)
