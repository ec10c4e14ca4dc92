"""Plots of counters: those in exports, as text below the cycles, and the samples that a screen draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options
from ..core import metrics, units
from ..core.device_pairs import mapped
from ..core.text import display
from ..cycles.scope import scoped
from ..timeline.lanes import Marks, cycle_marks
from ..timeline.picture import cycle_line
from ..timeline.window import Window
from .plot import LABEL, MARGIN, Panel, drawn, extent, panels, ruler
from .series import Key, Series, moved, offsets, series_of

MOST_PANELS, HEIGHT = 4, 9  # Panels in an export, and lines per panel.
_ROLES = {"capacity": 0, "room": 1, "own use": 2}


def telling(rows: pl.DataFrame, most: int = MOST_PANELS) -> list[list[dict[str, Any]]]:
    """The counters worth plotting, as rows per device: those that vary, capacities before own use."""
    varying = rows.filter(pl.col("samples") > 1, pl.col("max") > pl.col("min"))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in varying.filter((pl.col("max") - pl.col("min")).is_finite()).iter_rows(named=True):
        groups.setdefault((str(row["metric"]), str(row["unit"])), []).append(row)

    def weight(name: tuple[str, str]) -> tuple[int, float, str]:
        spread = max((row["max"] - row["min"]) / (abs(row["max"]) or 1.0) for row in groups[name])
        return _ROLES[metrics.metric(name[0], name[1] or None, 0.0).role], -round(spread, 2), name[0]

    return [groups[name] for name in sorted(groups, key=weight)[:most]]


def key_of(row: dict[str, Any], run: int = 0, pooled: bool = False) -> Key:
    """The counter that a summary row is about; ``pooled`` if rows do not distinguish processes and ranks."""
    return Key(str(row["metric"]), row["device"] and str(row["device"]), str(row["unit"] or ""),
               row.get("pid"), row.get("rank"), run, pooled)


def lines_of(panel: Panel, window: Window, height: int, sides: bool = False) -> list[str]:
    """A panel below its legend."""
    result = drawn(panel, window, height)
    names = [
        f"{letter} {'AB'[one.key.run] + ' ' if sides and letter.islower() else ''}{display(one.key.name, 40)}"
        for letter, one in zip(panel.letters, panel.series, strict=False)
    ]
    rows = [
        f"{label}{line} {end}".rstrip()
        for label, line, end in zip(result.labels, result.lines, result.ends, strict=True)
    ]
    return ["   ".join(names), *rows]


def picture(runs: Sequence[Trace], groups: Sequence[list[Key]], marks: Sequence[Marks], shifts: Sequence[int],
            width: int) -> list[str]:
    """One panel per group of counters, on a common time axis, below the cycles of each run."""
    series = {
        one.key: one for at, run in enumerate(runs)
        for one in series_of(run, [key for group in groups for key in group if key.run == at], shifts[at])
    }
    shown = [panel for group in groups for panel in panels([series[key] for key in group], 1)]
    if not shown:
        return []
    every: list[Series] = [one for panel in shown for one in panel.series]
    timed = any(one.timed for one in every)
    window = Window(*extent(every), max(10, width - LABEL - MARGIN))
    lines = [
        f"{'' if len(runs) < 2 else 'AB'[at]:<{LABEL}}{text}".rstrip()
        for at, one in enumerate(marks) if timed and (text := cycle_line(one, window)).strip()
    ]
    for panel in shown:
        lines += [*lines_of(panel, window, HEIGHT, len(runs) > 1), ""]
    span = f"over {units.duration(window.end - window.start)}" if timed else "in the order of the samples"
    return [*lines[:-1], " " * LABEL + ruler(window, timed).rstrip(), f"{'':<{LABEL}}{span}"]


def plotted(
    runs: Sequence[Trace], options: Options, rows: Sequence[Mapping[str, Any]], measured: Mapping[Key, Series]
) -> tuple[list[Series], list[Marks], bool]:
    """Samples for each row, A before B; the cycles of each run; and whether there are two runs. ``known``: samples
    already read. Raises CannotAnswer if the runs cannot be limited to the scope of the options."""
    pair = len(runs) > 1
    limited = tuple(scoped(run, options, side) for run, side in zip(runs, SIDES, strict=False))
    marks, shifts = limited[0].remember("marks", (*limited[1:], options), lambda: _placed(limited, options), most=1)
    names = _devices(limited) if pair else {}
    keys = []
    for row in rows:
        key = key_of(dict(row), 0, pair)
        keys.append(key)
        if pair:
            device = names.get(key.device or "", key.device)
            keys.append(Key(key.metric, device, key.unit, run=1, pooled=True))
    result = dict(measured)
    for at, run in enumerate(limited):
        result |= {one.key: one for one in series_of(run, [key for key in keys if key.run == at and key not in result],
                                                    shifts[at])}
    series = [result[key] for key in keys]
    return [one for one in series if len(one.moments)] or series, marks, pair


def _placed(runs: tuple[Trace, ...], options: Options) -> tuple[list[Marks], tuple[int, ...]]:
    """Cycles and time offsets of the runs."""
    marks = [cycle_marks(run, options) for run in runs]
    shifts = offsets(runs, marks)
    return [moved(one, shift) for one, shift in zip(marks, shifts, strict=True)], shifts


def _devices(runs: tuple[Trace, ...]) -> dict[str, str]:
    """A's device → B's, if the view paired them in order."""
    listed = [
        run.metrics.select(pl.col("device").unique()).collect(engine="streaming")["device"].cast(pl.String).to_list()
        for run in runs
    ]
    return {own: theirs for theirs, own in mapped(*listed).items()}
