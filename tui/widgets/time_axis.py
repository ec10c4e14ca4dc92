"""A recording on one time axis: its phases, the load of its devices, and the times below. Pure functions of facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from textual.content import Content

from ..session.themes import content_style
from .drawing import QUIET

_BLOCKS = "▁▂▃▄▅▆▇█"
_LEAST_LABEL = 4
"""Cells from which a phase has room for its label."""


def resampled(busy: Sequence[float], width: int) -> list[float]:
    """The busy shares of equal columns as ``width`` equal columns, each the mean over its part of the time."""
    if not busy or width < 1:
        return []
    sums = [0.0, *accumulate(busy)]

    def until(at: float) -> float:
        whole = min(len(busy) - 1, int(at))
        return sums[whole] + (at - whole) * busy[whole]

    edges = [until(one * len(busy) / width) for one in range(width + 1)]
    return [max(0.0, after - before) * width / len(busy) for before, after in pairwise(edges)]


def load_text(busy: Sequence[float], width: int) -> str:
    """One cell per column: a dot for no work at all, else an eighth of a cell for each eighth of the column's time."""
    return "".join("·" if one < 1e-6 else _BLOCKS[min(7, max(0, round(8 * one) - 1))] for one in resampled(busy, width))


def load_line(label: str, busy: Sequence[float], width: int, label_width: int, role: str = "bar") -> Content:
    """A device's load with its name before it, in ``width`` cells of time."""
    return Content.assemble((f"{label:<{label_width}}", QUIET), (load_text(busy, width), content_style(role)))


def phase_line(
    phases: Sequence[dict[str, Any]], length_ns: float, width: int, label_width: int, head: str, step: str
) -> Content:
    """The phases, each from its first column on: '├ step 5 ──├ 6 ───├ pause ──'; ``step`` names the steps."""
    cells, first = [" "] * width, f"{step} "
    for one in phases:
        begin, end = (min(width, max(0, round(one[name] / length_ns * width))) for name in ("from_ns", "to_ns"))
        if end <= begin:
            continue
        kind = one["label"] if one["kind"] == "step" else one["kind"]
        if one["kind"] == "step":
            kind = f"{first}{kind}" if len(first + kind) + _LEAST_LABEL <= end - begin else kind
            first = ""
        label = f"├ {kind} " if len(kind) + _LEAST_LABEL <= end - begin else f"├{kind}"
        cells[begin:end] = label[: end - begin].ljust(end - begin, "─") if len(label) <= end - begin + 1 else (
            "├".ljust(end - begin, "─"))
    return Content.assemble((f"{head:<{label_width}}", QUIET), ("".join(cells), content_style("frame")))


def axis_line(length_ns: float, width: int, label_width: int) -> Content:
    """Times below the columns, at round steps: '╵0 ms      ╵200      ╵400'."""
    scales = (1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")
    scale, unit = next((pair for pair in scales if length_ns >= 5 * pair[0]), scales[-1])
    step = _round_step(length_ns / scale / max(1, width // 16))
    cells, at = [" "] * width, 0
    while (place := round(at * step * scale / length_ns * width)) < width:
        text = f"╵{at * step:,g}{f' {unit}' if not at else ''}"
        if place + len(text) <= width:
            cells[place : place + len(text)] = text
        at += 1
    return Content.styled(" " * label_width + "".join(cells), QUIET)


def _round_step(least: float) -> float:
    size = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(one * size for one in (1, 2, 5, 10) if one * size >= least * (1 - 1e-9))


def step_bar(parts: Sequence[tuple[str, str, float]], width: int, whole: float) -> Content:
    """(letter, role, size) parts as one bar of letters, each on its colour; ``whole`` fills ``width`` cells."""
    result: list[tuple[str, str]] = []
    used, exact = 0, 0.0
    for letter, role, size in parts:
        exact += size / (whole or 1.0) * width
        room = max(0, min(width, round(exact)) - used)
        used += room
        result.append(((letter or "·") * room, f"reverse {content_style(role)}"))
    return Content.assemble(*result)
