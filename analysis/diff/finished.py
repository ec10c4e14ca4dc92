"""The diff of a comparison somebody else finished: its runs are gone, its numbers are all there is.

Means and p-values per (function, metric, device) give a row per function and device; the milliseconds come from the
shares and the recorded cycle times. No interval can be computed, and none is invented.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.metrics import metric
from ..table.view import Answer
from .present.columns import COLUMNS
from .present.sentences import cycle_line, line, ms
from .stats.fdr import control
from .stats.robust_location import hodges_lehmann
from .verdict.cycle_time import called
from .verdict.suspects import BETWEEN_RUNS, LEVEL, in_order, kind_class


def finished(runs: tuple[Trace, ...]) -> Answer:
    """The recorded comparison of run A, one row per function and device, by its own p-values."""
    table = runs[0].comparison.with_columns(pl.col("function", "metric", "device").cast(pl.String)).collect()
    lengths = [_cycles(run) for run in runs]
    means = [float(side.mean()) if len(side) else None for side in lengths]
    keys = ["function", "device", "pid_a", "pid_b"]
    best = table.sort("suspicion", descending=True, maintain_order=True, nulls_last=True).group_by(
        keys, maintain_order=True
    ).agg(pl.all().first())
    rows = [_row(row, means) for row in best.iter_rows(named=True)]
    control(rows)
    _call(rows)
    cycles = _cycle_time(lengths)
    lines = [cycle_line(cycles)] if cycles else []
    slower = [row for row in rows if row["verdict"] in ("slower", "new")]
    lost = sum(row["delta_ms"] or 0.0 for row in slower)
    worse = f", {ms(lost, signed=True)} ms per cycle" if slower and means[0] else ""
    lines += [
        line("Rows", f"{len(slower)} of {len(rows)} functions have a larger share of the cycle, surely{worse}"),
        line("Data", "a finished comparison: its cycles and means were recorded, its samples were not"),
    ]
    note = "As recorded: verdicts rest on the comparison's own p-values, and intervals cannot be computed."
    facts: dict[str, Any] = {
        "comparability": {"comparable": True, "score": None, "reasons": []}, "cycle_time": cycles, "work": [],
        "resources": [], "explanation": note, "calibration": {"method": "none", "row_ms": None},
        "samples": "a finished comparison",
    }
    return Answer(in_order(_frame(rows)).lazy(), facts, tuple(lines), (note,))


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    types = {"text": pl.String(), "count": pl.Int64()}
    schema: dict[str, Any] = {column.name: types.get(column.unit, pl.Float64()) for column in COLUMNS}
    schema |= {"pid_a": pl.Int64(), "pid_b": pl.Int64(), "class": pl.String()}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema, strict=False)


def _cycles(run: Trace) -> np.ndarray[Any, np.dtype[np.float64]]:
    return run.cycles.select(pl.col("dur_ns").drop_nulls() / 1e6).collect()["dur_ns"].to_numpy()


def _cycle_time(lengths: list[Any]) -> dict[str, Any] | None:
    if len(lengths) < 2 or not all(len(side) for side in lengths[:2]):
        return None
    a, b = lengths[:2]
    middle, low, high = hodges_lehmann(a, b)
    known = bool(np.isfinite(low))
    return {
        "verdict": called(a, b, middle, low, high),
        "cycles_a": len(a), "cycles_b": len(b), "mean_a_ms": float(a.mean()),
        "mean_b_ms": float(b.mean()), "median_a_ms": float(np.median(a)), "median_b_ms": float(np.median(b)),
        "shift_ms": middle, "ci_low_ms": low if known else None, "ci_high_ms": high if known else None, "outliers": [],
    }


def _row(row: dict[str, Any], means: list[float | None]) -> dict[str, Any]:
    a, b = (
        share / 100 * mean if share is not None and mean is not None else None
        for share, mean in zip((row["beta_a"], row["beta_b"]), (*means, None, None), strict=False)
    )
    largest = max(row["mu_a"] or 0.0, row["mu_b"] or 0.0)
    one = metric(row["metric"] or "", None, largest)
    p = [value for value in (row["p_beta"], row["u_beta"]) if value is not None]
    return {
        "function": row["function"], "device": row["device"], "pid_a": row["pid_a"], "pid_b": row["pid_b"],
        "class": kind_class(None, row["device"]), "a_ms": a, "b_ms": b,
        "delta_ms": b - a if a is not None and b is not None else None, "p": max(p) if p else None, "q": None,
        "share_a": row["beta_a"] or 0.0, "share_b": row["beta_b"] or 0.0, "verdict": "~", "sure_ms": 0.0,
        "metric": row["metric"], "mu_a": _natural(row["mu_a"], one.divisor), "mu_b": _natural(row["mu_b"], one.divisor),
        "unit": one.unit, "suspicion": row["suspicion"],
    }


def _natural(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def _call(rows: list[dict[str, Any]]) -> None:
    """The verdict of each row, by q and by how far its share moved."""
    for row in rows:
        a, b = row["share_a"], row["share_b"]
        if (a == 0) != (b == 0):
            row["verdict"] = "new" if a == 0 else "gone"
        elif row["q"] is not None and row["q"] <= LEVEL and abs(b - a) >= BETWEEN_RUNS * max(a, b):
            row["verdict"] = "slower" if b > a else "faster"
            row["sure_ms"] = abs(row["delta_ms"] or 0.0)
