"""Roofline: the operators below the roof of their device, one dot per row on log-log axes, above the list."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log10
from typing import Any

from msgspec import Struct
from textual.content import Content

from ...analysis.core import units
from ...analysis.core.text import display
from ..list.frame import Frame, Pieces, dim, widest
from ..widgets.drawing import QUIET, A, B
from .table import TablePane

LEAST_HEIGHT, LEAST_WIDTH = 30, 60
"""Size of the screen, lines and cells, from which the plot is drawn."""
LINES = (9, 16)
"""Fewest and most lines of the plot; between them a third of the screen."""
MOST = 400
"""Rows drawn, counted from the top of the list."""
_NAMED = 9
_LABEL = 8
_DECADES = 3
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille character: left and right column, top to bottom."""


class Dot(Struct, frozen=True):
    """A row of the list: run, FLOPs per byte, FLOP/s, and the character it is drawn as."""

    side: int
    intensity: float
    rate: float
    sign: str


class Roof(Struct, frozen=True):
    """Peak FLOP/s of a data type and peak B/s of a run's device; ``clock`` names its SM clock if below the peak's."""

    side: int
    name: str
    flops: float
    bytes: float
    clock: str = ""


class RooflinePane(TablePane):
    """The roofline view with its plot."""

    def _sides(self) -> list[tuple[str, dict[str, Any]]]:
        """Column suffix and facts of each run."""
        facts = self.shown.base.facts if self.shown is not None else {}
        return [("", facts)] if "devices" in facts else [
            (f"_{side}", facts.get(side) or {}) for side in ("a", "b") if (facts.get(side) or {}).get("devices")]

    def _dots(self) -> list[Dot]:
        """The first ``MOST`` rows of the list that have FLOPs; the first nine are drawn as their row number."""
        table, result = self.table, []
        if table is None:
            return []
        for number, (suffix, _) in enumerate(self._sides()):
            names = [f"{name}{suffix}" for name in ("intensity", "flops_per_s")]
            for at, (intensity, rate) in enumerate(table.window(0, min(MOST, len(table)), names)):
                if intensity and rate:
                    sign = str(at + 1) if at < _NAMED else "○" if number else "•"
                    result.append(Dot(number, intensity, rate, sign))
        return result

    def _roofs(self) -> list[Roof]:
        """The roof of each run's first device for the data type with the most compute-bound time; for one run also
        that of plain fp32."""
        result = []
        for number, (suffix, facts) in enumerate(self._sides()):
            device = next((one for one in facts["devices"] if one["peak_flops"] and one["peak_bytes"]), None)
            if device is None:
                continue
            peaks, used = device["peak_flops"], self._type(suffix)
            model = str(device["model"] or "").removeprefix("NVIDIA ").removeprefix("AMD Instinct ")
            names = [name for name in dict.fromkeys((used, "fp32")) if name in peaks]
            doubt = " (claimed)" if device["claimed"] else ""
            low = device.get("clock_mhz")
            clock = f" (SM at {units.number(low)} of {units.number(device['peak_clock_mhz'])} MHz)" if low else ""
            for name in names if len(self._sides()) < 2 else names[:1]:
                result.append(Roof(number, f"{display(model, 24)} {name}{doubt}", peaks[name], device["peak_bytes"],
                                 clock if name == names[0] else ""))
        return result

    def _type(self, suffix: str) -> str:
        names, spent = ["dtype", f"device_ns{suffix}", f"bound{suffix}"], dict[str, int]()
        for dtype, took, bound in self.table.window(0, min(MOST, len(self.table)), names) if self.table else ():
            if dtype and bound == "compute":
                spent[dtype] = spent.get(dtype, 0) + (took or 0)
        return max(spent, key=lambda name: spent[name], default="")

    def _drawn(self) -> bool:
        """Whether there is room for the plot, and a dot to plot."""
        return self.app.size.height >= LEAST_HEIGHT and self.size.width >= LEAST_WIDTH and bool(self._dots())

    def evidence(self, width: int) -> list[Content]:
        """The plot where there is room, also in the width that it gets while the pane still has another size."""
        if not self._drawn() or width < LEAST_WIDTH - 4:
            return []
        return plot(self._dots(), self._roofs(), width, max(LINES[0], min(LINES[1], self.app.size.height // 3 - 1)))

    def answer_frame(self) -> Frame:
        """Legend of the roofs drawn."""
        roofs = self._roofs()
        legend: list[list[Pieces]] = [
            [(("─ ", "b" if roof.side else "a"), (said, "dim")) for roof, said in zip(roofs, way, strict=True)]
            for way in ([f"{one.name} {_flops(one.flops)}{one.clock}, {units.rate(one.bytes)}" for one in roofs],
                        [f"{one.name} {_flops(one.flops)}, {units.rate(one.bytes)}" for one in roofs],
                        [f"{one.name} {_flops(one.flops)}" for one in roofs])]
        signs = "1–9 are the first rows of the list; • A, ○ B" if len(self._sides()) > 1 else (
            "1–9 are the first rows of the list")
        return Frame("Roofline", dim(signs if self._drawn() else ""), legend=widest(self.drawing.size.width, *legend))


def plot(dots: list[Dot], roofs: list[Roof], width: int, height: int) -> list[Content]:
    """FLOP/s over FLOPs per byte, log-log: roofs as lines, one character per dot, the first rows' dots on top."""
    room, lines = width - _LABEL - 1, height - 1
    ridges = [roof.flops / roof.bytes for roof in roofs]
    left, right = _ends([dot.intensity for dot in dots] + ridges)
    low, high = _ends([dot.rate for dot in dots] + [roof.flops for roof in roofs])
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * room for _ in range(lines)]

    def line(rate: float) -> float:
        return (high - log10(rate)) / (high - low) * (lines - 1)

    for roof in roofs:
        cells: dict[tuple[int, int], int] = {}
        for point in range(2 * room):
            intensity = 10 ** (left + (right - left) * point / (2 * room - 1))
            y = round(4 * line(min(roof.flops, intensity * roof.bytes)) + 1.5)
            if 0 <= y < 4 * lines:
                cells[y // 4, point // 2] = cells.get((y // 4, point // 2), 0) | _DOTS[point % 2][y % 4]
        for (y, x), bits in cells.items():
            grid[y][x] = chr(0x2800 + bits), B if roof.side else A
    for dot in reversed(dots):
        x = round((log10(dot.intensity) - left) / (right - left) * (room - 1))
        grid[min(lines - 1, max(0, round(line(dot.rate))))][x] = (dot.sign, f"bold {B if dot.side else A}")
    marks = {round(line(10.0**power)): _flops(10.0**power) for power in _ticks(low, high)}
    result = [Content.assemble((f"{marks.get(y, ''):>{_LABEL}} ", QUIET), *_runs(row)) for y, row in enumerate(grid)]
    axis = [" "] * (room + _LABEL + 1)
    for power in range(ceil(left), floor(right) + 1):
        text = f"{10.0**power:g}"
        at = _LABEL + 1 + round((power - left) / (right - left) * (room - 1))
        axis[at : at + len(text)] = text
    axis[: _LABEL] = f"{'FLOP/B':>{_LABEL}}"
    return [*result, Content.styled("".join(axis)[:width], QUIET)]


def _ends(values: list[float]) -> tuple[float, float]:
    """Ends of an axis as powers of ten: a little beyond the values, and at least ``_DECADES`` apart."""
    low, high = (log10(end) for end in (min(values), max(values)))
    lacks = max(0.0, _DECADES - (high - low)) / 2
    return low - lacks - 0.1, high + lacks + 0.1


def _ticks(low: float, high: float) -> Iterator[int]:
    yield from range(ceil(low), floor(high) + 1)


def _flops(rate: float) -> str:
    return units.work(rate).replace("FLOP", "F/s")


def _runs(row: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Merge neighbouring cells of one style."""
    result: list[tuple[str, str]] = []
    for sign, style in row:
        if result and result[-1][1] == style:
            result[-1] = result[-1][0] + sign, style
        else:
            result.append((sign, style))
    return result
