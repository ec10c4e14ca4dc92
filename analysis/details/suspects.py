"""The details of a row of the diff: both distributions, the interval, its metrics before and after, who launches it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.text import display

if TYPE_CHECKING:
    from ..diff.present.details import BothSides, MetricChange, PartDetails

def suspect_sections(row: dict[str, Any], runs: tuple[Trace, ...], options: Options) -> list[Section]:
    """What the row rests on, from the same samples as its verdict; empty where only aggregates were compared."""
    from ..diff.present.details import function_details

    if len(runs) != 2:
        return []
    try:
        found = function_details(
            (runs[0], runs[1]), options, row["function"], row["device"], pid_of(row["pid_a"]), pid_of(row["pid_b"]),
            row.get("rank"),
        )
    except KeyError:
        return []
    sections = [verdict_section(row)]
    if row.get("parts") and found.parts:
        sections.append(parts_section(found.parts))
    if found.cycles_ms is not None and found.per_launch_us is not None:
        sections.append(_distribution("Time per cycle", found.cycles_ms, 1e6))
        sections.append(_distribution("Time per launch, mean of each cycle", found.per_launch_us, 1e3))
    elif found.launches_ns is not None:
        sections.append(Section("Launches", shape=shape_of(found.launches_ns, 1.0)))
    if found.metrics:
        sections.append(_metrics(found.metrics))
    for side, launchers in (("A", found.launchers_a), ("B", found.launchers_b)):
        if launchers:
            rows = tuple((display(one.name), units.count(one.launches)) for one in launchers)
            sections.append(Section(f"Launched by, in {side}", rows, ("operator", "launches")))
    return sections


def parts_section(parts: Sequence[PartDetails]) -> Section:
    """The rows that are part of this one."""
    rows = tuple(
        (display(one.name), f"{units.number(one.launches_a)} → {units.number(one.launches_b)}",
         units.amount(one.a_ms, one.b_ms), units.amount(one.b_ms - one.a_ms, signed=True))
        for one in parts[:MOST]
    )
    return Section("Parts, per cycle", rows, ("function", "launches", "time", "Δ"))


def pid_of(pid: Any) -> int | None:
    """A process of a row as a number; None where it names none."""
    return int(pid) if pid is not None and str(pid).lstrip("-").isdigit() else None


def verdict_section(row: dict[str, Any]) -> Section:
    """The row's verdict, its interval, and what of it chance could be."""
    rows = [("verdict", f"{row['verdict']}" + (f", {row['path']}" if row["path"] else ""))]
    if row["delta_ms"] is not None:
        interval = ""
        if row["ci_low_ms"] is not None and row["ci_high_ms"] is not None:
            low, high = units.rough_figure(row["ci_low_ms"]), units.rough_figure(row["ci_high_ms"])
            interval = f", 95% CI {low}…{high}"
        rows.append(("per cycle", units.amount(row["delta_ms"], signed=True) + interval))
    if row["q"] is not None:
        rows.append(("chance", f"q = {units.number(row['q'])} (false-alarm rate over the list)"))
    if row.get("noise_ms") is not None:
        rows.append(("noise", f"within A: up to {units.amount(row['noise_ms'])}"))
    return Section("Confidence", tuple(rows))


def _distribution(title: str, found: BothSides, unit_ns: float) -> Section:
    from ..diff.present.details import summary

    sides = (("A", summary(found.values_a)), ("B", summary(found.values_b)))
    rows = tuple(
        (
            f"{name} median",
            f"{units.duration(side.median * unit_ns)} ± {units.duration(side.spread * unit_ns)}, "
            f"{units.count(side.count)} cycles",
        )
        for name, side in sides if side is not None
    )
    return Section(title, rows, shape=shape_of(found, unit_ns))


def shape_of(found: BothSides, unit_ns: float) -> dict[str, Any]:
    """The histogram as sections draw it, in ns; ``unit_ns`` is the unit of the samples."""
    return {"edges_ns": [edge * unit_ns for edge in found.edges], "a": list(found.counts_a), "b": list(found.counts_b)}


def _metrics(metrics: Sequence[MetricChange]) -> Section:
    rows = tuple(
        (
            display(one.metric), units.number(one.mu_a), units.number(one.mu_b), one.unit,
            units.MISSING if one.p is None else units.number(one.p),
        )
        for one in metrics[:MOST]
    )
    capped = f", {MOST} of {len(metrics)}" if len(metrics) > MOST else ""
    return Section(f"Metrics while it ran{capped}", rows, ("metric", "A", "B", "unit", "p"))
