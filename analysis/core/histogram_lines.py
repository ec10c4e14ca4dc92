"""A histogram as text lines, for the screen and exports; without numpy, so the first frame does not wait for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import units


class HistogramLine(NamedTuple):
    """One line of a drawn histogram: bin label (empty if the line above has it), run, count, and share of the largest
    count. ``side`` is ``a`` or ``b``; empty for a run of empty bins.
    """

    label: str
    side: str
    cycles: int
    share: float


def histogram_lines(shape: dict[str, Any], most: int) -> tuple[str, list[HistogramLine]]:
    """The unit of the labels, and the lines of a ``histogram`` with at most ``most`` bins: neighbouring bins are merged
    if there are more. A run of empty bins becomes one line."""
    edges, sides = shape.get("edges_ns") or [], [side for side in ("a", "b") if shape.get(side)]
    if len(edges) < 2 or not sides:
        return "", []
    step = -(-(len(edges) - 1) // max(1, most))
    starts = range(0, len(edges) - 1, step)
    bins = [(edges[at], edges[min(at + step, len(edges) - 1)], at) for at in starts]
    counts = [{side: sum(shape[side][at : at + step]) for side in sides} for at in starts]
    factor, unit = units.axis(edges[-1])
    span = edges[-1] - edges[0]
    places = 0 if span >= 4 * factor * len(bins) else 1 if span >= factor else 3
    top = max(max(some.values()) for some in counts) or 1
    lines: list[HistogramLine] = []
    for (low, high, _), some in zip(bins, counts, strict=True):
        label = f"{low / factor:,.{places}f}–{high / factor:,.{places}f}"
        drawn = [(side, n) for side, n in some.items() if n]
        for at, (side, n) in enumerate(drawn):
            lines.append(HistogramLine("" if at else label, side, n, n / top))
        if not drawn and (not lines or lines[-1].side):
            lines.append(HistogramLine("", "", 0, 0.0))
    return unit, lines
