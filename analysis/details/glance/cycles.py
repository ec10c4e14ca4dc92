"""Beside the cycles: what made the one under the cursor different from those like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....loaders.trace import Trace
from ...contract.options import Options
from ...contract.sections import MOST, Section
from ...core import units
from ...core.names.short_name import fit_name
from ..cycle_differences import CyclePart, Difference, Differences, differences

LEAST_SHARE = 0.001  # A part that moved by less than this share of the cycle is not worth a line.


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """What gives the sections of a row of the cycles view, of one run or two."""
    known = [differences(run, options) for run in runs]

    def of(row: dict[str, Any]) -> list[Section]:
        if len(known) == 1:
            return _sections(known[0], row["cycle"], row["rank"], f"Cycle {row['cycle']}")
        return [
            section for side, one in zip("ab", known, strict=True) if row[f"cycle_{side}"] is not None
            for section in _sections(one, row[f"cycle_{side}"], row[f"rank_{side}"],
                                     f"Cycle {row[f'cycle_{side}']} of {side.upper()}")
        ]

    return of


def _sections(known: Differences, cycle: int, rank: int | None, title: str) -> list[Section]:
    found = known.of(cycle, rank, MOST)
    if found is None:
        return [Section(title, (("", "too few cycles are like it to say what is different"),))]
    rows = [("time", _against(found.time_ns, found.usual_ns))]
    for label, here, usual in (
        ("busy", found.busy_ns, found.usual_busy_ns), ("idle", found.idle_ns, found.usual_idle_ns)
    ):
        if here is not None and usual is not None:
            rows.append((label, _against(here, usual)))
    return [Section(f"{title} beside the median of {found.alike} like it", tuple(rows)), *_parts(found)]


def _against(here: float, usual: float) -> str:
    change = f" ({units.percent(100 * (here - usual) / usual, signed=True)})" if usual else ""
    return f"{units.duration(here)}, {units.duration(here - usual, signed=True)}{change}"


def _parts(found: Difference) -> list[Section]:
    rows = tuple(
        (f"idle: {one.name}" if one.idle else fit_name(one.name, 60),
         units.duration(one.here_ns), units.duration(one.delta_ns, signed=True), _launches(one))
        for one in found.parts if abs(one.delta_ns) >= LEAST_SHARE * found.time_ns
    )
    if not rows:
        said = "no kernel and no wait differs" if found.whole else "it was not recorded whole"
        return [Section("What is different", (("", said),))]
    return [Section("What is different", rows, ("kernel, or cause of idle time", "here", "Δ", "launches"))]


def _launches(one: CyclePart) -> str:
    """Launches here, and usually where that is another number; nothing for idle time."""
    if one.idle:
        return ""
    usual = round(one.usual_count)
    return units.count(one.count) + (f" of {units.count(usual)}" if usual != one.count else "")
