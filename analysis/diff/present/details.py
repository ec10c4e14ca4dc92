"""What one row of the diff rests on: both distributions on one axis, its metrics before and after, who launches it.

This is what opens on Enter. Everything is from the same samples as the row, so that the picture and the verdict agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ....loaders.trace import Trace
from ...core.distribution import histogram
from ...core.metrics import metric
from ...core.options import Options
from ..prepare.prepared import prepared
from ..prepare.samples import Matched, Work, of_process, work_of
from ..stats.reference import compare
from ..stats.robust_location import Floats
from ..verdict.cycle_time import spread

MOST_LAUNCHERS = 5


def suspect(
    runs: tuple[Trace, Trace], options: Options, function: str, device: str | None,
    pid_a: int | None = None, pid_b: int | None = None,
) -> dict[str, Any]:
    """What is known of one function: ``cycles`` (ms per cycle), ``per_launch`` (µs, mean per cycle) and ``launches``
    (ns of each launch, where launches were recorded) as histograms on one axis for A and B with their values,
    ``metrics`` before and after in natural units, and ``launched_by`` per run. KeyError where neither run has it.
    """
    works = work_of(runs[0], options), work_of(runs[1], options)
    found: dict[str, Any] = {"function": function, "device": device, "pid_a": pid_a, "pid_b": pid_b}
    there, where = function, device
    if not works[0].rows.is_empty() and not works[1].rows.is_empty():
        ready = prepared(*works, options)
        one, row = _located(ready.matched, function, device, pid_a, pid_b)
        found |= _over_cycles(one, row)
        found["metrics"] = _metrics(ready.works, one, function, device, runs)
        there = ready.names.get((function, device), function)
        where = next((theirs for theirs, mine in ready.moved.items() if mine == device), device)
    launches = [_launches(runs[0], function, device), _launches(runs[1], there, where)]
    if any(len(side) for side in launches):
        found["launches"] = histogram(*launches) | {"a_count": len(launches[0]), "b_count": len(launches[1])}
    if "cycles" not in found and "launches" not in found:
        raise KeyError(function)
    found["launched_by"] = {"a": _launchers(runs[0], function), "b": _launchers(runs[1], there)}
    return found


def _located(
    matched: list[Matched], function: str, device: str | None, pid_a: int | None, pid_b: int | None
) -> tuple[Matched, int]:
    for one in matched:
        if (pid_a is not None and one.pair.a != pid_a) or (pid_b is not None and one.pair.b != pid_b):
            continue
        for row, (name, where, _) in enumerate(one.functions.rows()):
            if name == function and where == device:
                return one, row
    raise KeyError(function)


def _over_cycles(one: Matched, row: int) -> dict[str, Any]:
    sides = []
    for side in (one.a, one.b):
        known = side.seen[row]
        ms, launches = side.ms[row, known], side.launches[row, known]
        ran = launches > 0
        sides.append((side.cycles[known], ms, ms[ran] / launches[ran] * 1e3))
    return {
        "cycles": _both(sides[0][1], sides[1][1]) | {
            "numbers_a": sides[0][0].tolist(), "numbers_b": sides[1][0].tolist(), "unit": "ms",
        },
        "per_launch": _both(sides[0][2], sides[1][2]) | {"unit": "µs"},
    }


def _both(a: Floats, b: Floats) -> dict[str, Any]:
    made = histogram(a, b)
    return {
        "edges": made.pop("edges_ns"), **made, "values_a": a.tolist(), "values_b": b.tolist(),
        "median_a": float(np.median(a)) if len(a) else None, "median_b": float(np.median(b)) if len(b) else None,
        "spread_a": spread(a) if len(a) else None, "spread_b": spread(b) if len(b) else None,
    }


def _metrics(
    works: tuple[Work, Work], one: Matched, function: str, device: str | None, runs: tuple[Trace, Trace]
) -> list[dict[str, Any]]:
    """All its metrics, most suspicious first, natural units."""
    where = pl.col("device").is_null() if device is None else pl.col("device") == device
    mine = (pl.col("function") == function) & where
    pids = one.pair.a, one.pair.b
    sides = [of_process(work.metrics, pid).filter(mine) for work, pid in zip(works, pids, strict=True)]
    if all(side.is_empty() for side in sides):
        return []
    units: dict[str, str] = {}
    for run in runs:
        named = run.metrics.select(pl.col("metric", "unit").cast(pl.String)).unique().collect(engine="streaming")
        units |= {name: unit for name, unit in named.rows() if name and unit}
    made = []
    for row in compare(sides[0], sides[1]).iter_rows(named=True):
        kind = metric(row["metric"], units.get(row["metric"]), max(row["mu_a"] or 0.0, row["mu_b"] or 0.0))
        made.append({
            "metric": row["metric"], "mu_a": row["mu_a"] / kind.divisor, "mu_b": row["mu_b"] / kind.divisor,
            "unit": kind.unit, "role": kind.role, "p": row["p_mu"], "suspicion": row["suspicion"],
        })
    return made


def _launches(run: Trace, function: str, device: str | None) -> Floats:
    if not run.has("kernels"):
        return np.empty(0)
    where = pl.col("device").is_null() if device is None else pl.col("device") == device
    rows = run.kernels.filter((pl.col("name") == function) & where).select(pl.col("dur_ns").cast(pl.Float64))
    return rows.collect()["dur_ns"].drop_nulls().to_numpy()


def _launchers(run: Trace, function: str) -> list[dict[str, Any]]:
    """The operators that launch it, by external id, most launches first; empty where that was not recorded."""
    if not run.has("kernels") or not run.has("host"):
        return []
    ids = run.kernels.filter((pl.col("name") == function) & pl.col("op_id").is_not_null()).select("op_id", "rank")
    ops = run.host.filter((pl.col("kind") == "op") & pl.col("external_id").is_not_null()).select(
        pl.col("name").cast(pl.String), "external_id", "rank"
    )
    named = ids.join(ops, left_on=["op_id", "rank"], right_on=["external_id", "rank"], nulls_equal=True)
    counted = named.group_by("name").len().sort("len", "name", descending=[True, False]).head(MOST_LAUNCHERS).collect()
    return [{"name": name, "launches": count} for name, count in counted.rows()]
