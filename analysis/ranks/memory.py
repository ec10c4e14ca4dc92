"""The sampled memory of each rank's device: the peak, and its share of the device's memory."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from ...loaders.trace import REDUCED, Trace
from ..cycles.assignment import WINDOW, row_at

Place = tuple[int | None, str | None]  # A rank and its device.
_ALLOCATED = "(?i)memory.*(allocated|used)|allocated"
_RESERVED = "(?i)memory.*reserved|reserved.*memory"
_TOTAL = ("totalGlobalMem", "totalMemory", "memory_bytes")


class DeviceMemory(NamedTuple):
    """Bytes: peak allocated, peak reserved by the allocator, and the device's total; None where not recorded."""

    peak: float | None = None
    reserved: float | None = None
    total: float | None = None

    @property
    def share(self) -> float | None:
        """Share of the device's memory in use at the peak, 0-1; None where either is unknown."""
        used = max((value for value in (self.peak, self.reserved) if value is not None), default=None)
        return used / self.total if used is not None and self.total else None


def memory_of(run: Trace) -> dict[Place, DeviceMemory]:
    """Every device of every rank whose memory was sampled; samples that name no device are under (rank, None)."""
    if REDUCED in run.info.facts:
        rows = run.device_sums.select(
            "rank", pl.col("device").cast(pl.String), "memory_peak", "memory_reserved", "memory_total"
        ).collect(engine="streaming")
        return {(rank, device): DeviceMemory(*figures) for rank, device, *figures in rows.rows()}
    return _taken(run, _samples(run).collect(engine="streaming"))


def memory_by_cycle(run: Trace, cycles: pl.DataFrame) -> dict[int, dict[Place, DeviceMemory]]:
    """``memory_of`` by cycle number, from the samples in each cycle's window; ``cycles`` needs ``WINDOW``."""
    rows = _samples(run).collect(engine="streaming")
    if rows.is_empty() or cycles["start_ns"].null_count():
        return {}
    at = row_at(rows["ts_ns"], rows["rank"], cycles, WINDOW)
    number = pl.Series("cycle", cycles["cycle"].to_numpy()[at])
    inside = rows.with_columns(number).filter(pl.Series(at >= 0))
    return {cycle: _taken(run, group) for (cycle,), group in inside.group_by("cycle")}


def _samples(run: Trace) -> pl.LazyFrame:
    """The samples of device memory: ``rank device ts_ns value``, and whether it is ``allocated`` or ``reserved``."""
    name = pl.col("metric").cast(pl.String)
    allocated, reserved = name.str.contains(_ALLOCATED), name.str.contains(_RESERVED)
    return run.metrics.filter(
        pl.col("unit").cast(pl.String) == "B", pl.col("device").cast(pl.String).fill_null("Host") != "Host",
        allocated | reserved,
    ).select("rank", pl.col("device").cast(pl.String), "ts_ns", "value", allocated=allocated, reserved=reserved)


def _taken(run: Trace, samples: pl.DataFrame) -> dict[Place, DeviceMemory]:
    """The peaks of the samples of each device of each rank, with the device's total."""
    rows = samples.group_by("rank", "device").agg(
        peak=pl.col("value").filter("allocated").max(), reserved=pl.col("value").filter("reserved").max(),
    )
    totals = {device.id: total for device in run.info.devices if (total := _total(device.properties)) is not None}
    return {
        (rank, device): DeviceMemory(peak, reserved, totals.get(device or ""))
        for rank, device, peak, reserved in rows.rows()
    }


def of_place(memory: dict[Place, DeviceMemory], rank: int | None, device: str | None) -> DeviceMemory:
    """The memory of that device; without samples of its own, that of samples without a device, then without a rank."""
    places = ((rank, device), (rank, None), (None, device))
    return next((memory[place] for place in places if place in memory), DeviceMemory())


def _total(properties: dict[str, object]) -> float | None:
    values = (properties.get(key) for key in _TOTAL)
    return next((float(value) for value in values if isinstance(value, int | float) and value > 0), None)
