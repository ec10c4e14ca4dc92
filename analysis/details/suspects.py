"""The details of a row of the diff: both distributions, the interval, its metrics before and after, who launches it."""

from __future__ import annotations

from typing import Any

from ...loaders.trace import Trace
from ..core import units
from ..core.options import Options
from ..core.text import display
from .sections import MOST, Section

_NS = {"ms": 1e6, "µs": 1e3, "ns": 1.0}


def suspect_sections(row: dict[str, Any], runs: tuple[Trace, ...], options: Options) -> list[Section]:
    """What the row rests on, from the same samples as its verdict; empty where only aggregates were compared."""
    from ..diff.present.details import suspect

    if len(runs) != 2:
        return []
    try:
        found = suspect(
            (runs[0], runs[1]), options, row["function"], row["device"], _number(row["pid_a"]), _number(row["pid_b"])
        )
    except KeyError:
        return []
    sections = [_verdict(row)]
    for name, title in (("cycles", "Time per cycle"), ("per_launch", "Time per launch, mean of each cycle")):
        if name in found:
            sections.append(_distribution(title, found[name]))
    if "launches" in found and "cycles" not in found:
        sections.append(Section("Launches", shape=found["launches"]))
    if found.get("metrics"):
        sections.append(_metrics(found["metrics"]))
    for side in ("a", "b"):
        launchers = found["launched_by"][side]
        if launchers:
            rows = tuple((display(one["name"]), units.count(one["launches"])) for one in launchers)
            sections.append(Section(f"Launched by, in {side.upper()}", rows, ("operator", "launches")))
    return sections


def _number(pid: Any) -> int | None:
    return int(pid) if pid is not None and str(pid).lstrip("-").isdigit() else None


def _verdict(row: dict[str, Any]) -> Section:
    rows = [("verdict", f"{row['verdict']}" + (f", {row['path']}" if row["path"] else ""))]
    if row["delta_ms"] is not None:
        interval = ""
        if row["ci_low_ms"] is not None and row["ci_high_ms"] is not None:
            interval = f", 95% sure within [{row['ci_low_ms']:+.3g}, {row['ci_high_ms']:+.3g}]"
        rows.append(("per cycle", f"{row['delta_ms']:+.3g} ms{interval}"))
    if row["q"] is not None:
        rows.append(("by chance", f"q {units.number(row['q'])}: that some function of the list moves this far"))
    if row.get("noise_ms") is not None:
        rows.append(("baseline", f"two halves of A differ by up to {row['noise_ms']:.3g} ms here"))
    return Section("How sure", tuple((label, text.replace("-", "−")) for label, text in rows))


def _distribution(title: str, found: dict[str, Any]) -> Section:
    factor = _NS[found["unit"]]
    shape = {"edges_ns": [edge * factor for edge in found["edges"]], "a": found["a"], "b": found["b"]}
    rows = tuple(
        (f"{side.upper()} median", units.duration(found[f"median_{side}"] * factor) + _spread(found, side, factor))
        for side in ("a", "b") if found[f"median_{side}"] is not None
    )
    return Section(title, rows, shape=shape)


def _spread(found: dict[str, Any], side: str, factor: float) -> str:
    spread, count = found[f"spread_{side}"], len(found[f"values_{side}"])
    told = f" ± {units.duration(spread * factor)}" if spread is not None else ""
    return f"{told}, {units.count(count)} cycles"


def _metrics(metrics: list[dict[str, Any]]) -> Section:
    rows = tuple(
        (
            display(one["metric"]), units.number(one["mu_a"]), units.number(one["mu_b"]), one["unit"] or "",
            units.MISSING if one["p"] is None else units.number(one["p"]),
        )
        for one in metrics[:MOST]
    )
    return Section("Metrics while it ran", rows, ("metric", "A", "B", "unit", "p"))
