"""Queue depth: the number of activities of a device launched but not yet started, as a strip among the counters.

A launch counts from the start of its call to the start of its activity. The depth is a step function, so its mean in a
column is exact at any zoom: a difference of integrals.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from .counters import Counter
from .coverage import Floats, Ints

MOST = 1_000_000
"""Most launches for which the depth is computed: each costs 40 bytes and a microsecond."""


class QueueDepth(Counter, frozen=True, kw_only=True):
    """``levels``: depth from each of the ``moments`` on; ``sums``: its integral (launches · ns) up to each moment."""

    levels: Ints

    @property
    def mean(self) -> float:
        """Mean depth from the first launch to the start of the last activity."""
        return float(self.sums[-1]) / max(1, int(self.moments[-1] - self.moments[0]))

    def means(self, edges: Ints) -> Floats:
        """Mean depth in each column."""
        at = np.searchsorted(self.moments, edges, side="right") - 1
        since = np.where(at >= 0, self.levels[at] * (edges - self.moments[at]), 0)
        until = np.where(at >= 0, self.sums[at], 0.0) + since
        means: Floats = np.diff(until) / np.maximum(np.diff(edges), 1)
        return means


def queue_depths(run: Trace, clocks: Mapping[int, int]) -> tuple[QueueDepth, ...]:
    """Queue depth of each device; empty if launches were not recorded or there are more than ``MOST``. ``clocks`` as in
    ``Timeline``."""
    if not run.has("kernels") or not run.has("host"):
        return ()
    if run.kernels.select(is_work().sum()).collect(engine="streaming").item() > MOST:
        return ()
    activities = run.kernels.select("rank", "device", "start_ns", "kind").collect(engine="streaming")
    met = activities.with_columns(run.account().activities["launch_ns"].alias("launched")).filter(
        is_work(), pl.col("launched") <= pl.col("start_ns"))
    result = []
    for (device, rank), rows in met.group_by("device", "rank", maintain_order=True):
        launched, started = (np.sort(rows[name].to_numpy()) for name in ("launched", "start_ns"))
        moments, place = np.unique(np.concatenate((launched, started)), return_inverse=True)
        steps = np.bincount(place, weights=np.repeat([1.0, -1.0], len(launched)), minlength=len(moments))
        levels = np.cumsum(steps).astype(np.int64)
        sums = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(moments))))
        name = "queue depth" if rank is None else f"queue depth rank {rank}"
        result.append(QueueDepth(
            metric=name, device=None if device is None else str(device), unit="",
            moments=moments - clocks.get(rank, 0), sums=sums,
            low=float(levels.min()), high=float(levels.max()), levels=levels,
        ))
    return tuple(result)
