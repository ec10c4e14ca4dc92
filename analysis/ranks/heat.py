"""Ranks by cycles: how long each rank was waited for in each cycle, for a strip of cells that shows who and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..communication.arrivals import Arrivals
from ..contract.options import Options
from ..cycles.account import spoken_of
from ..cycles.assignment import row_at

MOST_RANKS, MOST_PARTS = 32, 120
_PARTS = 60
"""Equal parts of the run where it has no cycles."""


def heat_of(run: Trace, arrivals: Arrivals, options: Options) -> dict[str, Any] | None:
    """``ranks`` (names, the most waited for first), ``parts`` (what a column is) and ``caused_ns``, a list a rank.

    None where nothing was waited for. Of many cycles neighbours are summed; ranks nobody waited for are left out.
    """
    came_last = arrivals.frame.filter(pl.col("last").fill_null(False))
    last = came_last.select("member", "arrival_ns", "start_ns", "caused_ns")
    if last.is_empty():
        return None
    cycles = spoken_of(run, options).frame.drop_nulls(["start_ns", "dur_ns"])
    ranks = pl.Series([arrivals.members[member].rank for member in last["member"]], dtype=pl.Int64)
    parts = "cycle"
    if cycles.is_empty():
        times = last["arrival_ns"].to_numpy()
        span = max(float(times.max() - times.min()), 1.0)
        column = np.minimum(((times - times.min()) / span * _PARTS).astype(np.int64), _PARTS - 1)
        parts = "part of the run"
    else:
        row = row_at(last["start_ns"], ranks, cycles, ("start_ns", "dur_ns"))
        order = cycles["cycle"].rank("dense").cast(pl.Int64).to_numpy() - 1
        column = np.where(row >= 0, order[row], -1)
    width = int(column.max(initial=0)) + 1
    each = -(-width // MOST_PARTS)
    grid = np.zeros((len(arrivals.members), -(-width // each)), dtype=np.int64)
    inside = column >= 0
    np.add.at(grid, (last["member"].to_numpy()[inside], column[inside] // each), last["caused_ns"].to_numpy()[inside])
    sums = grid.sum(axis=1)
    chosen = [int(one) for one in np.argsort(-sums, kind="stable")[:MOST_RANKS] if sums[one]]
    return {
        "parts": parts if each == 1 else f"{each} {parts}s", "ranks": [arrivals.members[one].text for one in chosen],
        "caused_ns": grid[chosen].tolist(),
    }
