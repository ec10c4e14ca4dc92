"""Communication of each device: how long its collectives run, and how much of that is exposed (no computation runs).

Only device activities count. The host calls that request a collective do not wait for any device; they are part of the
overview's breakdown, which keeps torch_tb_profiler's categories, and of no figure here.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import REDUCED, Trace
from ..core.batches import numbers, of_devices
from ..core.intervals import Intervals, union


class Communication(Struct, frozen=True):
    """One device of one rank: time in which a collective ran, and the part without a compute kernel at the time, ns."""

    device: str | None
    rank: int | None
    comm_ns: int
    exposed_ns: int

    @property
    def overlap(self) -> float | None:
        """Share of the communication that computation overlaps, 0-1; None without communication."""
        return 1 - self.exposed_ns / self.comm_ns if self.comm_ns else None


def communication(run: Trace, window: Intervals | None = None) -> list[Communication]:
    """Every device of every rank that ran kernels, sorted by rank and name; ``window`` limits it to those intervals. A
    reduced dataset has only the totals of each rank."""
    if REDUCED in run.info.facts:
        return _reduced(run)
    rows = numbers(
        run.kernels.filter(pl.col("kind").is_in(["kernel", "collective"])).drop_nulls(["start_ns", "dur_ns"]).select(
            "rank", "start_ns", "dur_ns", device=pl.col("device").to_physical().cast(pl.Int64),
            asks=(pl.col("kind") == "collective").cast(pl.Int64),
        )
    )
    devices = []
    for device, rank, mine in of_devices(rows["rank"], rows["device"]):
        asks, starts = rows["asks"][mine] > 0, rows["start_ns"][mine]
        ends = starts + np.maximum(rows["dur_ns"][mine], 0)
        talks, works = union(starts[asks], ends[asks]), union(starts[~asks], ends[~asks])
        if window is not None:
            talks, works = talks & window, works & window
        devices.append(Communication(device, rank, talks.length, (talks | works).length - works.length))
    return devices


def _reduced(run: Trace) -> list[Communication]:
    rows = run.device_sums.drop_nulls("comm_ns").select(
        pl.col("device").cast(pl.String), "rank", "comm_ns", "exposed_ns"
    ).sort("rank", "device", maintain_order=True).collect(engine="streaming")
    return [Communication(*row) for row in rows.rows()]
