"""Formats one value as exactly ``width`` terminal cells: alignment, bars and sparklines.

Text of numbers comes from ``analysis.core.units``, of recorded strings from ``analysis.core.text``; here it is only
aligned, numbers such that their units line up. Invariant: the text of a cell is exactly ``width`` cells wide, whatever
was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rich.cells import cell_len

from ...analysis.contract.column import Column
from ...analysis.core import text, units
from ...analysis.core.names import short_name
from ..terminal import sanitiser
from . import glyphs
from .columns import GRAPHIC, is_text

_UNIT_CELLS = {"ns": 3, "bytes": 4}
"""Cells of the unit and the space before it, for units that vary from row to row."""

_BAR_NUMBER = {"share": 7, "lost": 7}
"""Cells of the number after a bar, for columns where a tenth of a per cent matters; others have 4."""


def bar_number(column: Column) -> int:
    """Cells of the number after a bar."""
    return _BAR_NUMBER.get(column.bar, 4)


def is_bar(column: Column, width: int) -> bool:
    """Whether a column of this width is drawn as a bar with its number."""
    return bool(column.bar) and column.unit == "fraction" and width > bar_number(column) + 1


@lru_cache(maxsize=4096)
def name(raw: str, width: int) -> str:
    """The short form of a recorded name, padded to the width. Cached: a trace has few names and many rows."""
    return fit(text.cut(short_name.short_name(raw), width), width)


@lru_cache(maxsize=4096)
def words(raw: str, width: int) -> str:
    """Any other recorded text, cut or padded to the width."""
    return fit(text.display(raw, width), width)


def fit(shown: str, width: int, right: bool = False) -> str:
    """Display text padded to the width, or cut if it is longer."""
    size = sanitiser.cells(shown)
    if size > width:
        return text.cut(shown, width) + " " * (width - cell_len(text.cut(shown, width)))
    return " " * (width - size) + shown if right else shown + " " * (width - size)


def missing(value: Any) -> bool:
    """Whether there is no measured value: None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def cell(value: Any, column: Column, width: int, most: float = 1.0, mark: str = "") -> str:
    """The value in exactly ``width`` cells. A bar column gives bar and number, the bar full at ``most``; ``mark`` is
    put before the number."""
    if column.unit == "series" and value:
        return fit(units.series(value, width), width)
    if column.unit in GRAPHIC:
        return spark(value, width)
    if column.unit == "text" and not missing(value):
        shown = str(value)
        brief = dict(column.brief).get(shown, shown) if len(shown) > width else shown
        if column.role == "shapes":
            return fit(text.shapes(shown), width)
        if column.role == "frame":
            return fit(text.display(shown.rpartition("/")[2]), width)
        if column.role == "path":
            return fit(text.cut_path(text.clean(shown), width), width)
        return name(shown, width) if column.role == "name" else words(brief, width)
    if is_bar(column, width):
        behind = bar_number(column)
        share = None if missing(value) else value / most
        number = fit(mark + units.short(value, column), behind + len(mark), right=True)
        return bar(share, width - behind - len(mark)) + number
    shown = mark + units.short(value, column)
    if is_text(column):
        return fit(shown, width)
    if tail := _UNIT_CELLS.get(column.unit):
        number, _, unit = shown.partition(" ")
        shown = number + (" " + unit if unit else "").ljust(tail)
    if sanitiser.cells(shown) > width and isinstance(value, int | float):
        shown = f"{mark}{value:.2e}".replace("-", "−").replace("e+", "e")  # a number is never cut
    return fit(shown, width, right=True)


def bar(value: Any, width: int) -> str:
    """A fraction as a bar in eighths of a cell; blank if it is missing or not above 0."""
    if missing(value) or value <= 0:
        return " " * width
    eighths = max(1, min(8 * width, round(8 * width * float(value))))
    whole, part = divmod(eighths, 8)
    return (glyphs.FULL * whole + (glyphs.EIGHTHS[part] if part else "")).ljust(width)


def spark(values: Sequence[float | None] | None, width: int) -> str:
    """One glyph per number, scaled to the largest; with more numbers than cells, each cell shows its maximum."""
    return units.sparkline(values, width).ljust(width) if values else fit(units.MISSING, width)
