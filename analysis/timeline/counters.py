"""Counters as strips under the lanes: the mean of the samples in each column, or the last one before it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from .coverage import Ints

Floats = npt.NDArray[np.float64]


class Counter(Struct, frozen=True):
    """One counter of one device: when it was sampled (ns, in order), the running sum of its values, their range."""

    metric: str
    device: str | None
    unit: str
    moments: Ints
    sums: Floats
    low: float
    high: float

    @property
    def name(self) -> str:
        """What the strip is called."""
        return f"{self.metric} {self.device}" if self.device else self.metric

    def means(self, edges: Ints) -> Floats:
        """The mean in each column; where none was sampled, the last value before it; NaN before the first."""
        at = np.searchsorted(self.moments, edges, side="left")
        count = at[1:] - at[:-1]
        total = self.sums[at[1:]] - self.sums[at[:-1]]
        last = self.sums[at[1:]] - self.sums[np.maximum(at[1:] - 1, 0)]
        held = np.where(at[1:] > 0, last, np.nan)
        return np.where(count > 0, total / np.maximum(count, 1), held)


def counters_of(run: Trace) -> tuple[Counter, ...]:
    """Every counter of the run that varies, the most sampled first."""
    keys = ["metric", "device"]
    frame = run.metrics.filter(pl.col("ts_ns").is_not_null() & pl.col("value").is_finite()).select(
        *(pl.col(key).cast(pl.String) for key in keys), pl.col("unit").cast(pl.String), "ts_ns", "value"
    ).sort(*keys, "ts_ns").collect()
    made = []
    for (metric, device), group in frame.group_by(keys, maintain_order=True):
        values = group["value"].to_numpy()
        low, high = float(values.min()), float(values.max())
        if high > low:
            sums = np.concatenate(([0.0], np.cumsum(values)))
            made.append(Counter(
                str(metric), None if device is None else str(device), group["unit"][0] or "",
                group["ts_ns"].to_numpy(), sums, low, high,
            ))
    return tuple(sorted(made, key=lambda one: -len(one.moments)))
