"""How busy devices are in the steps, computed without attributing their idle time to causes."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.batches import integer_arrays, rows_by_device
from ..core.intervals import union
from ..core.run_labels import Place
from ..cycles.whole import Steps
from ..kernels.sources import ACTIVITIES


def busy_in(run: Trace, steps: Steps | None) -> dict[Place, float]:
    """Per rank and device that ran anything in the steps: 1 − idle / (last − first activity) there, 0-1, as
    ``attribution`` computes it."""
    if steps is None or not run.has("kernels"):
        return {}
    timed = run.kernels.filter(pl.col("kind").is_in(ACTIVITIES)).drop_nulls(["start_ns", "dur_ns"])
    work = integer_arrays(timed.select(
        "start_ns", "dur_ns", "rank", device=pl.col("device").to_physical().cast(pl.Int64)))
    starts, ends = work["start_ns"], work["start_ns"] + work["dur_ns"]
    result: dict[Place, float] = {}
    for device, rank, rows in rows_by_device(work["rank"], work["device"]):
        bounds, busy = steps.of(rank), union(starts[rows], ends[rows])
        if bounds is None or not len(busy.starts):
            continue
        first, last = max(bounds[0], int(busy.starts[0])), min(bounds[1], int(busy.ends[-1]))
        if last > first:
            inside = int(busy.within(np.array([first]), np.array([last]))[0])
            result[rank, device] = inside / (last - first)
    return result
