"""The idle time of a reduced dataset: the total by cause, and the longest gaps of each rank."""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from .attribution import DeviceIdle, Idle

NOTE = "Only the longest gaps of each rank are listed; the sums by cause cover all gaps."


def reduced_idle(run: Trace) -> Idle | None:
    """A dataset's idle time by cause, and its gaps with a ``cycle`` column; None where it holds no idle times."""
    sums = run.device_sums.with_columns(pl.col("device").cast(pl.String)).sort("rank", "device").collect(
        engine="streaming")
    if sums.is_empty() or sums["idle_ns"].null_count():  # a dataset of single cycles holds busy time only
        return None
    causes: dict[tuple[int | None, str | None], dict[str, int]] = {}
    recorded = run.idle_causes.select("rank", pl.col("device", "cause").cast(pl.String), "total_ns").collect()
    for rank, device, cause, total in recorded.rows():
        causes.setdefault((rank, device), {})[cause] = total
    devices = tuple(
        DeviceIdle(device, rank, window, busy, idle, causes.get((rank, device), {}), gaps)
        for device, rank, window, busy, idle, gaps in sums.select(
            "device", "rank", "window_ns", "busy_ns", "idle_ns", "gaps").rows()
    )
    gaps = run.idle_gaps.collect(engine="streaming").sort(
        "dur_ns", "start_ns", "rank", descending=[True, False, False], maintain_order=True)
    return Idle(gaps.lazy(), devices, (NOTE,))
