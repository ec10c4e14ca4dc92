"""Evidence of a verdict, below the rows: every cycle of both runs on one axis, and the counter named as the cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from ...analysis.core import units
from ...analysis.core.metrics import title
from ..list.frame import Frame, boxed, dim
from ..session.themes import content_style
from ..widgets.drawing import QUIET, A, B, side_by_side

if TYPE_CHECKING:
    from ...analysis.metrics.series import Series

LINES = 8
"""Lines inside the frames."""
_DOTS = {"a": "●", "b": "◆"}


def diff_evidence(facts: dict[str, Any], series: Sequence[Series], width: int) -> list[Content]:
    """Both pictures, framed, side by side; the cycles alone if there is no counter, nothing without cycles."""
    shape = facts.get("histogram") or {}
    plotted = [one for one in series if len(one.moments)]
    half = width // 2 if plotted else width
    dots = cycle_dots(shape, (facts.get("cycle_time") or {}).get("outliers") or [], half - 4, LINES)
    if not dots:
        return []
    left = boxed(dots, Frame("Evidence", dim("cycle times, one mark per cycle"), legend=dim("● A  ◆ B")), half)
    if not plotted:
        return left
    key = plotted[0].key
    frame = Frame(title(key.metric), dim(f"{key.device or ''}, {key.unit} over time"))
    return side_by_side(left, boxed(counter(plotted, width - half - 4, LINES), frame, width - half), half)


def cycle_dots(shape: dict[str, Any], outliers: list[dict[str, Any]], width: int, height: int) -> list[Content]:
    """Each run's cycles as marks along one axis, stacked per bin; outliers are labelled with their numbers."""
    edges = shape.get("edges_ns") or []
    if len(edges) < 2 or edges[-1] <= edges[0] or width < 40:
        return []
    room, low, high = width - 4, edges[0], edges[-1]
    rows = max(1, (height - 4) // 2)

    def place(ns: float) -> int:
        return min(room - 1, int((ns - low) / (high - low) * (room - 1) + 0.5))

    result = []
    for side, style in (("a", A), ("b", B)):
        lines = [[" "] * room for _ in range(rows)]
        for at, count in enumerate(shape.get(side) or ()):
            first = place((edges[at] + edges[at + 1]) / 2)
            for number in range(count):
                lines[rows - 1 - number % rows][min(room - 1, first + number // rows)] = _DOTS[side]
        named = [one for one in outliers if one["run"] == side.upper()]
        for number, line in enumerate(lines):
            label = side.upper() if number == rows - 1 else " "
            result.append(Content.assemble((f"{label}  ", "bold"), ("".join(line), style)))
        if named:
            result.append(_labels(named, place, room))
    while len(result) < height - 2:
        result.append(Content(""))
    return [*result[: height - 2], *_axis(low, high, room, place)]


def _labels(outliers: list[dict[str, Any]], place: Any, room: int) -> Content:
    line, used = "", 0
    for one in sorted(outliers, key=lambda one: float(one["ms"])):
        text = f"#{one['cycle']} {units.amount(one['ms'])}"
        at = max(used, min(room - len(text), place(one["ms"] * 1e6) - len(text) // 2))
        line, used = line.ljust(at) + text, at + len(text) + 2
    return Content.assemble("   ", (line, content_style("bad")))


def _axis(low: float, high: float, room: int, place: Any) -> list[Content]:
    factor, unit = units.axis(high)
    line, labels = ["─"] * room, ""
    for at in range(5):
        ns = low + (high - low) * at / 4
        line[place(ns)] = "┴"
        text = units.count(ns / factor) if high - low >= 8 * factor else units.number(round(ns / factor, 2))
        start = min(room - len(text), max(0, place(ns) - len(text) // 2))
        labels = labels.ljust(start) + text if start >= len(labels) else labels
    return [Content.styled(f"   {''.join(line)}", QUIET), Content.styled(f"{unit.strip():<3}{labels}", QUIET)]


def counter(series: Sequence[Series], width: int, height: int) -> list[Content]:
    """The counter over time, A and B on one axis."""
    from ...analysis.metrics.plot import LABEL, MARGIN, drawn, extent, panels, ruler
    from ...analysis.timeline.window import Window

    window = Window(*extent(series), max(10, width - LABEL - MARGIN))
    plot = drawn(panels(series, len(series))[0], window, height - 1)
    styles = [A, content_style("bad")]
    result = []
    for label, text, owners, end in zip(plot.labels, plot.lines, plot.owners.tolist(), plot.ends, strict=True):
        pieces = [(character, styles[owner] if 0 <= owner < 2 else "")
                  for character, owner in zip(text, owners, strict=True)]
        result.append(Content.assemble((label, QUIET), *pieces, (f" {end}", "bold")))
    return [*result, Content.styled(" " * LABEL + ruler(window, series[0].timed), QUIET)]
