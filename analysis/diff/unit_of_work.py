"""One unit of work where no cycles were found: a call of the function that takes most time in both runs.

A recording of a fixed length holds fewer steps when each takes longer, and its sums fall. Counted per call of
a function that every step needs equally often, the same recording shows what it is: slower.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.names.short_name import fit_name
from .present.sentences import ms
from .stats.robust_location import Floats, hodges_lehmann
from .verdict.cycle_time import called

LEAST_CALLS = 4
_MANY = 300
"""Gaps between calls that the shift is taken from; more do not sharpen it and cost their square."""


def unit_of_work(runs: tuple[Trace, Trace]) -> dict[str, Any] | None:
    """Wall time per call of the anchor function in both runs, ms, and how many times as many calls B holds.

    None where the recordings have no timestamps or share no function called often enough.
    """
    counted = [_counts(run) for run in runs]
    if any(side.is_empty() for side in counted):
        return None
    both = counted[0].join(counted[1], on=["name", "device"], suffix="_b", nulls_equal=True)
    both = both.filter((pl.col("calls") >= LEAST_CALLS) & (pl.col("calls_b") >= LEAST_CALLS))
    if both.is_empty():
        return None
    anchor = both.sort(pl.min_horizontal("total", "total_b"), descending=True, maintain_order=True).row(0, named=True)
    same = both.filter(pl.col("name") == anchor["name"])
    devices = same["device"].to_list()
    gaps = [np.concatenate([_gaps(run, anchor["name"], device) for device in devices]) for run in runs]
    if min(len(side) for side in gaps) < 2:
        return None
    calls_a, calls_b = int(same["calls"].sum()), int(same["calls_b"].sum())
    return _described(gaps[0], gaps[1]) | {
        "what": f"per call of {fit_name(anchor['name'], 48)}", "anchor": anchor["name"],
        "units_a": calls_a, "units_b": calls_b, "ratio": calls_b / calls_a,
    }


def _counts(run: Trace) -> pl.DataFrame:
    timed = run.kernels.filter(pl.col("start_ns").is_not_null() & pl.col("kind").is_in(["kernel", "collective"]))
    return timed.group_by(pl.col("name", "device").cast(pl.String), maintain_order=True).agg(
        pl.len().alias("calls"), pl.col("dur_ns").sum().alias("total")
    ).collect()


def _gaps(run: Trace, name: str, device: str | None) -> Floats:
    """From one start of the function on that device to the next, ms."""
    mine = pl.col("device").is_null() if device is None else pl.col("device") == device
    starts = run.kernels.filter((pl.col("name") == name) & mine).select(pl.col("start_ns").sort()).collect()
    return np.diff(starts["start_ns"].to_numpy()) / 1e6


def _described(a: Floats, b: Floats) -> dict[str, Any]:
    mean_a, mean_b = float(a.mean()), float(b.mean())
    few = [side if len(side) <= _MANY else side[np.linspace(0, len(side) - 1, _MANY).astype(int)] for side in (a, b)]
    middle, low, high = hodges_lehmann(few[0], few[1])
    return {
        "verdict": called(a, b, middle, low, high),
        "mean_a_ms": mean_a, "mean_b_ms": mean_b, "median_a_ms": float(np.median(a)),
        "median_b_ms": float(np.median(b)), "shift_ms": middle, "ci_low_ms": low if np.isfinite(low) else None,
        "ci_high_ms": high if np.isfinite(high) else None, "outliers": [],
    }


def per_unit(unit: dict[str, Any]) -> str:
    """The unit of work in words: slower per call, and how many calls each run holds."""
    text = f"{unit['verdict']}: {ms(unit['mean_a_ms'])} → {ms(unit['mean_b_ms'])} ms {unit['what']}"
    return text + f"; A holds {unit['units_a']:,} of them, B {unit['units_b']:,}"
