"""Ranks: who is late, the stages of a pipeline over one cycle, a heat strip of ranks × cycles, and the list."""

from __future__ import annotations

from typing import Any

import numpy as np
from textual.content import Content

from ...analysis.contract.options import SIDES
from ...analysis.core import units
from ...analysis.core.text import display
from ..widgets.drawing import QUIET, A, B
from .table import TablePane

LEAST_HEIGHT, LEAST_WIDTH = 20, 50
"""Size in cells under which only the list is shown."""
_SHADES = " ·░▒▓█"
MOST_LINES, SAID = 6, 10
"""Ranks in the strip if the list needs the room, and lines of the summary above it including the frame."""


class RanksPane(TablePane):
    """The ranks view with its heat strip."""

    draws_shares = False

    def evidence(self, width: int) -> list[Content]:
        """The strip of each run where there is room."""
        assert self.shown is not None
        result: list[Content] = []
        if self.app.size.height >= LEAST_HEIGHT and width >= LEAST_WIDTH:
            facts = self.shown.base.facts
            if "heat" in facts:
                return self._strips(facts, width, max(MOST_LINES, self._spare()))
            heats = [(facts.get(side) or {}).get("heat") for side in SIDES]
            order = list(dict.fromkeys(name for heat in reversed(heats) if heat for name in heat["ranks"]))
            for side, colour, heat in zip(SIDES, (A, B), heats, strict=True):
                known = {**(facts.get(side) or {}), "heat": in_order(heat, order)}
                result += self._strips(known, width, max(MOST_LINES, self._spare()) // 2, f"{side.upper()} ", colour)
        return result


    def _spare(self) -> int:
        return self.size.height - self.list_lines() - SAID

    def _strips(
        self, facts: dict[str, Any], width: int, lines: int, side: str = "", colour: str = A
    ) -> list[Content]:
        """The pipeline and the waits of one run."""
        assert self.shown is not None
        return [*pipeline_picture(facts.get("pipeline"), width, side, colour),
                *heat_strip(facts.get("heat"), width, lines, len(self.shown.base), side, colour)]


def in_order(heat: dict[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    """The heat map with its ranks in that order, so that two runs have the same ranks in the same lines."""
    if not heat or not heat["ranks"]:
        return heat
    rows = dict(zip(heat["ranks"], heat["caused_ns"], strict=True))
    none = [0] * len(heat["caused_ns"][0])
    return {**heat, "ranks": names, "caused_ns": [rows.get(name, none) for name in names]}


MOST_STAGES = 8


def pipeline_picture(pipeline: dict[str, Any] | None, width: int, side: str = "", colour: str = A) -> list[Content]:
    """One line per stage over one cycle, with the share of its bubble at the end; empty without a pipeline."""
    picture = (pipeline or {}).get("picture")
    if not picture or not picture["lines"]:
        return []
    names = [f"stage {line['stage']}" + ("" if line["rank"] is None else f" rank {line['rank']}")
             for line in picture["lines"]]
    room, tail = max(map(len, names)) + 2, 5
    cells = max(10, min(len(picture["lines"][0]["cells"]), width - room - tail))
    left = len(names) - MOST_STAGES
    more = f", {left} more stages" if left > 0 else ""
    result = [Content.styled(
        f"{side}pipeline, one cycle of {units.duration(picture['length_ns'])}: F forward, B backward, W waits, · idle; "
        f"share of the bubble{more}", QUIET)]
    for name, line in list(zip(names, picture["lines"], strict=True))[:MOST_STAGES]:
        text = line["cells"]
        shown = "".join(text[at * len(text) // cells] for at in range(cells))
        share = units.percent(100 * line["bubble"], places=0)
        result.append(Content.assemble(f"{name:<{room}}", (shown, colour), f"{share:>{tail}}"))
    return result


def heat_strip(
    heat: dict[str, Any] | None, width: int, lines: int, total: int = 0, side: str = "", colour: str = A
) -> list[Content]:
    """One line per rank and one cell per cycle, darker the longer others waited for the rank; empty without waits.
    ``total`` is the number of ranks, 0 where unknown.

    If there are more cycles than cells, neighbouring cycles are summed; ranks without a line are only counted.
    """
    if not heat or not heat["ranks"]:
        return []
    names = [display(name, 16) for name in heat["ranks"][:lines]]
    room = max(map(len, names)) + 2
    grid = np.array(heat["caused_ns"], dtype=np.float64)
    cells = max(1, min(grid.shape[1], width - room))
    edges = np.linspace(0, grid.shape[1], cells + 1).astype(np.int64)[:-1]
    grid = np.add.reduceat(grid, edges, axis=1)
    most = float(grid.max()) or 1.0
    left = len(heat["ranks"]) - len(names)
    quiet = total - len(heat["ranks"])
    others = f", {left} more waited for" if left else f"; nobody waited for the other {quiet}" if quiet > 0 else ""
    result = [Content.styled(
        f"{side}waits caused by each rank, one cell per {heat['parts']}: {_SHADES[1:]} up to "
        f"{units.duration(most)}{others}", QUIET
    )]
    for name, row in zip(names, grid[: len(names)], strict=True):
        marks = "".join(_SHADES[_shade(value / most)] for value in row)
        result.append(Content.assemble(f"{name:<{room}}", (marks, colour)))
    return result


def _shade(share: float) -> int:
    """The shade of a share of the maximum; any share above 0 is visible."""
    return 0 if share <= 0 else 1 + min(len(_SHADES) - 2, int(share * (len(_SHADES) - 1)))
