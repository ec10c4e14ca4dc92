"""What changed outside the functions: per metric and device, how much, how surely, and who saw it.

One line per (metric, device), however many functions it was read under. The most likely cause comes first: capacities
that shrank before rooms that filled, before what the process itself uses, which is a symptom; among capacities by what
was lost of them, and more so where the functions that ran under it got slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...core import metrics as m
from ..prepare.samples import Work
from ..stats.fdr import control
from ..stats.robust_location import Floats, centre

LEVEL = 0.05
STEADY = 0.01
"""Readings are never trusted to less than this much of a logarithm."""
LEAST = 0.02
"""A change of less than this much of a logarithm is no news."""
_ROLES = {"capacity": 0, "room": 1, "own use": 2}


def readings(work: Work, pid: int | None) -> pl.DataFrame:
    """Per (metric, device, cycle): μ averaged over the functions it was read under, weighted by their time."""
    rows = work.metrics.filter(pl.col("pid").is_null() if pid is None else pl.col("pid") == pid)
    weight = pl.col("dur_ns").clip(1)
    return rows.group_by("metric", "device", "cycle", maintain_order=True).agg(
        ((pl.col("mu") * weight).sum() / weight.sum()).alias("mu")
    )


def resources(
    work_a: Work, work_b: Work, pids: list[tuple[int | None, int | None]], units: dict[str, str],
    slowed: set[tuple[str, str]], cycle_ratio: float,
) -> list[dict[str, Any]]:
    """What changed, most likely cause first.

    ``units`` are those of the recorded counters, ``slowed`` the (function, device) that got slower, ``cycle_ratio`` how
    many times as long a cycle takes in B (own use of a bus per second falls by as much).
    """
    found = []
    for pid_a, pid_b in pids:
        a, b = readings(work_a, pid_a), readings(work_b, pid_b)
        sides = _series(a), _series(b)
        for key in [key for key in sides[0] if key in sides[1]]:
            name, device = key
            largest = max(float(np.max(side[key])) for side in sides)
            one = m.metric(name, units.get(name), largest)
            values = tuple(side[key] / one.divisor for side in sides)
            own = _own(one, sides, device, cycle_ratio)
            row = _change(one, device, (values[0], values[1]), own)
            row |= _witnesses(work_b, key, slowed)
            found.append(row | {"pid_a": pid_a, "pid_b": pid_b})
    return _ranked(_together(found))


def _series(frame: pl.DataFrame) -> dict[tuple[str, str], Floats]:
    groups = frame.sort("cycle").group_by("metric", "device", maintain_order=True)
    return {(str(key[0]), str(key[1])): group["mu"].to_numpy() for key, group in groups}


def _own(
    one: m.Metric, sides: tuple[dict[tuple[str, str], Floats], ...], device: str, cycle_ratio: float
) -> tuple[float, float]:
    """What the process itself uses of it, natural units, on each side."""
    if one.means == "processor":
        use = [side.get(("process_cpu_usage", device)) for side in sides]
        a, b = (float(centre(values)) if values is not None else 0.0 for values in use)
        return a, b
    if one.means == "traffic":
        mine = float(centre(sides[0][(one.name, device)])) / one.divisor
        return mine, mine / min(cycle_ratio, 1.0) if cycle_ratio else mine
    return 0.0, 0.0


def _change(
    one: m.Metric, device: str, values: tuple[Floats, Floats], own: tuple[float, float]
) -> dict[str, Any]:
    from scipy.special import stdtr, stdtrit

    loads = [m.load(one, side, np.full(len(side), used)) for side, used in zip(values, own, strict=True)]
    loss = float(centre(loads[1]) - centre(loads[0]))
    n_a, n_b = len(loads[0]), len(loads[1])
    squares = sum(float(side.var()) * len(side) for side in loads) + 2 * STEADY**2
    error = float(np.sqrt(squares / max(n_a + n_b - 2 + 2, 1) * (1 / n_a + 1 / n_b)))
    freedom = float(n_a + n_b)
    p = float(2 * stdtr(freedom, -abs(loss) / error)) if min(n_a, n_b) > 1 else 1.0
    margin = float(stdtrit(freedom, 0.975)) * error
    mean_a, mean_b = (float(side.mean()) for side in values)
    log_change = float(np.log(mean_b / mean_a)) if mean_a > 0 and mean_b > 0 else None
    return {
        "metric": one.name, "device": device, "mu_a": mean_a, "mu_b": mean_b, "unit": one.unit,
        "log_change": log_change, "p": p, "role": one.role, "loss": loss, "loss_low": loss - margin,
        "loss_high": loss + margin, "means": one.means,
    }


def _witnesses(work_b: Work, key: tuple[str, str], slowed: set[tuple[str, str]]) -> dict[str, Any]:
    """How many functions the metric was read under, and how many of those got slower."""
    rows = work_b.metrics.filter((pl.col("metric") == key[0]) & (pl.col("device") == key[1]))
    under = set(rows.select("function", "device").unique().rows())
    return {"seen_by": len(under), "functions": len(under & slowed)}


def _together(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per (metric, device): of several process pairs that read it, the one it changed most for."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["metric"], row["device"]
        if key not in best or abs(row["loss"]) > abs(best[key]["loss"]):
            best[key] = row
    return list(best.values())


def _ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """False discoveries controlled over all that were read; the unchanged ones left out."""
    control(rows)
    changed = [row for row in rows if abs(row["loss"]) >= LEAST and row["q"] <= LEVEL]
    if not changed:  # too few cycles to be sure of any: the clear ones, with their q
        changed = [row for row in rows if abs(row["loss"]) >= 10 * LEAST]
    for row in changed:
        seen = row["functions"] / row["seen_by"] if row["seen_by"] else 0.0
        row["score"] = max(row["loss"], 0.0) * (1 + seen) if row["role"] != "own use" else abs(row["loss"])
    # of two names with the same change (gpu_frequency, gpu_sm_frequency) the more specific first
    return sorted(changed, key=lambda row: (_rank(row), -row["score"], -len(row["metric"]), row["device"]))


def _rank(row: dict[str, Any]) -> int:
    """A capacity that grew took nothing from anybody: it comes after those that shrank."""
    place = 2 * _ROLES[row["role"]]
    return place if row["loss"] > 0 else place + 1 if row["role"] == "own use" else 2 * _ROLES["own use"]
