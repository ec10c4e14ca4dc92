"""The units the counters of two runs were recorded with."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from ....loaders.trace import Trace


def recorded_units(runs: Iterable[Trace]) -> dict[str, str]:
    """Metric → unit, of every counter that has one."""
    found: dict[str, str] = {}
    for run in runs:
        pairs = run.metrics.select(pl.col("metric", "unit").cast(pl.String)).unique().collect(engine="streaming")
        found |= {metric: unit for metric, unit in pairs.rows() if metric and unit}
    return found
