"""Beside the launches: where the one under the cursor stands among those of its kernel, and who launched it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....loaders.trace import Trace
from ...contract.options import Options
from ...contract.sections import Section
from ...core import units
from ...core.names.short_name import fit_name
from ...core.text import display
from ...cycles.scope import scoped
from ...kernels.launch_index import LaunchIndex, launch_index
from .kernels import latency_section

_SHAPE = ("grid", "block", "stream", "cycle", "correlation")


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """What gives the sections of a row of the launches view."""
    index = launch_index(runs[0], scoped(runs[0], options), with_ways=False)

    def of(row: dict[str, Any]) -> list[Section]:
        return [_launched_by(row), *_among_its_like(index, row)]

    return of


def _launched_by(row: dict[str, Any]) -> Section:
    rows = [("duration", units.duration(row["dur_ns"]) if row["dur_ns"] is not None else units.MISSING)]
    for label, name in (("operator", "op"), ("of forward", "op_forward"), ("module", "module")):
        if row[name] is not None:
            rows.append((label, display(str(row[name]), 200)))
    if row["frame"] is not None:
        rows.append(("Python line", fit_name(str(row["frame"]), 200)))
    if row["launch_ns"] is not None and row["start_ns"] is not None:
        rows.append(("launched", f"{units.duration(row['start_ns'] - row['launch_ns'])} before it began"))
    rows += [(name, display(str(row[name]))) for name in _SHAPE if row[name] is not None]
    return Section("This launch", tuple(rows))


def _among_its_like(index: LaunchIndex, row: dict[str, Any]) -> list[Section]:
    same = index.durations(index.groups(str(row["name"]), kind=row["kind"], device=row["device"], rank=row["rank"]))
    if len(same) < 2 or row["dur_ns"] is None:
        return []
    longer = len(same) - int(np.searchsorted(same, row["dur_ns"], side="right"))
    middle = float(same[len(same) // 2])
    beside = f"{row['dur_ns'] / middle:.2f}× the median, " if middle else ""
    said = "the longest" if not longer else f"{units.count(longer)} of {units.count(len(same))} are longer"
    return [Section("Among the launches of its kernel", (("", f"{beside}{said}"),)), latency_section([same])]
