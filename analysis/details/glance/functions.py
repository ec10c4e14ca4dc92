"""Beside the diff: both runs' launches of the function over each other, and its time cycle by cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options
from ...contract.sections import Section
from ...core import units
from ...core.text import display
from ...cycles.scope import scoped
from ...diff.present.details import BothSides, MatchedFunctions, OverCycles, matched_functions
from ...kernels.launch_index import LaunchIndex, launch_index
from ..suspects import pid_of, shape_of, verdict_section
from .kernels import latency_section

CELLS = 40  # Cells of a run's cycles; more cycles are drawn by the longest of each cell.


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """What gives the sections of a row of the diff; none where only a finished comparison was read."""
    if len(runs) != 2 or any(run.has("comparison") for run in runs):
        return lambda row: []
    functions = matched_functions((runs[0], runs[1]), options)
    indexes = [launch_index(run, scoped(run, options, side), with_ways=False)
               for run, side in zip(runs, SIDES, strict=True)]

    def of(row: dict[str, Any]) -> list[Section]:
        function, device = row["function"], row["device"]
        try:
            pids = pid_of(row["pid_a"]), pid_of(row["pid_b"])
            cycles = functions.over_cycles(function, device, *pids, row.get("rank"))
        except KeyError:
            cycles = None
        launched = _launches(functions, indexes, function, device)
        if cycles is None and not launched:
            return []
        if not launched and cycles is not None:
            launched = [Section("Time per launch, mean of each cycle", shape=shape_of(cycles.us, 1e3))]
        return [verdict_section(row), *launched, *(_by_cycle(cycles) if cycles is not None else [])]

    return of


def _launches(
    functions: MatchedFunctions, indexes: list[LaunchIndex], function: str, device: str | None
) -> list[Section]:
    places = (function, device), functions.in_b(function, device)
    spans = [index.durations(index.groups(name, device=where)) for index, (name, where) in zip(
        indexes, places, strict=True)]
    return [latency_section(spans)] if any(map(len, spans)) else []


def _by_cycle(cycles: OverCycles) -> list[Section]:
    """Both runs' cycles in order, drawn on one scale, with the range of each."""
    drawn = _on_one_scale(cycles.ms)
    rows = []
    for side, line, values in zip("AB", drawn, (cycles.ms.values_a, cycles.ms.values_b), strict=True):
        if len(values):
            low, middle, high = (units.duration(float(at) * 1e6) for at in np.quantile(values, (0, 0.5, 1)))
            rows.append((side, line, middle, f"{low} to {high}"))
    return [Section("Time per cycle, in order", tuple(rows), ("", "cycles", "median", "range"))] if rows else []


def _on_one_scale(both: BothSides) -> tuple[str, str]:
    a, b = _thinned(both.values_a.tolist()), _thinned(both.values_b.tolist())
    line = units.sparkline([*a, *b])
    return display(line[: len(a)]), display(line[len(a) :])


def _thinned(values: list[float]) -> list[float]:
    if len(values) <= CELLS:
        return values
    return [max(values[len(values) * at // CELLS : len(values) * (at + 1) // CELLS]) for at in range(CELLS)]
