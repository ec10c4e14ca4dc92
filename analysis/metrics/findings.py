"""What a log of counters says of each device: it stood idle, its memory filled up, its clock fell under load, it ran at
its power limit. Each is typed data; the sentence is made of it at the end.

Counters of one device are compared where they were sampled at the same moment. Nothing is said of a device that was
sampled fewer than ``FEWEST`` times, nor of several devices that the log does not tell apart.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import metrics, units

FEWEST = 10
STANDS, LOADED = 5.0, 50.0
"""Utilisation in percent: at most the first is idle, at least the second is load."""
MOSTLY = 0.5  # Share of the samples in which a device stands idle, to be said.
FULL = 0.95  # Share of the memory in use.
FALLEN, OFTEN = 0.9, 0.1
"""A clock below this share of the device's own highest under load, in at least this share of the samples under load."""
AT_LIMIT = 0.97  # Share of the power limit that counts as reaching it.
_COUNTERS = {
    "use": r"^(gpu[ _]?util(ization)?|utilization\.gpu|gputl|sm|smact|gpu use|gfx|gpu_usage"
           r"|dcgm_fi_dev_gpu_util|dcgm_fi_prof_sm_active|dcgm_fi_prof_gr_engine_active)$",
    "clock": r"^(clocks\.(current\.)?sm|clocks\.sm|smclk|pclk|gfx_clk|sm_clock|gpu_sm_frequency|dcgm_fi_dev_sm_clock)$",
    "power": r"^(power\.draw(\.instant|\.average)?|power|pwr|power_usage|dcgm_fi_dev_power_usage)$",
    "limit": r"^((enforced\.)?power\.limit|dcgm_fi_dev_(enforced_)?power_(mgmt_)?limit)$",
    "warmth": r"^(temperature(\.gpu)?|gtemp|tmptr|hotspot_temperature|dcgm_fi_dev_gpu_temp)$",
    "used": r"^(memory\.used|vram_used|fbusd|fb|dcgm_fi_dev_fb_used)$",
    "total": r"^(memory\.total|vram_total)$",
    "free": r"^(memory\.free|dcgm_fi_dev_fb_free)$",
}
"""The counters by what they say, as nvidia-smi, dcgmi, the DCGM exporter, amd-smi and rocm-smi call them."""


class CounterFinding(Struct, frozen=True):
    """``share`` of the samples (of those under load, for a clock and a limit) in which it was so; ``value`` what was
    read then, ``against`` what it is held against, both in ``unit``; ``warmth`` in °C where that was sampled."""

    rule: Literal["idle", "memory", "clock", "power"]
    device: str
    share: float
    value: float
    against: float
    unit: str
    span_ns: int | None = None
    warmth: float | None = None

    @property
    def sentence(self) -> str:
        """Subject, verb, number, unit."""
        of = self.device or "The device"
        share = units.percent(100 * self.share, places=0)
        value, against = (metrics.shown(one, self.unit) for one in (self.value, self.against))
        match self.rule:
            case "idle":
                span = f" of {units.duration(self.span_ns)}" if self.span_ns else " of the samples"
                return f"{of} is idle (utilisation at most {against}) for {share}{span}."
            case "memory":
                return f"{of} fills its memory: {value} of {against} used at most."
            case "power":
                return f"{of} runs at its power limit of {against} in {share} of the samples under load."
        warm = f", at {metrics.shown(self.warmth, '°C')}" if self.warmth is not None else ""
        return (f"{of}: the SM clock falls to {value} in {share} of the samples under load{warm}; its highest is "
                f"{against}: thermal or power throttling.")


def counter_findings(run: Trace) -> list[CounterFinding]:
    """The findings of every device, in the order of devices; none where nothing was sampled."""
    names = run.metrics.select(pl.col("metric").unique().cast(pl.String)).collect().to_series().drop_nulls()
    roles = {name: role for name in names for role, pattern in _COUNTERS.items() if re.search(pattern, name.lower())}
    if not roles:
        return []
    samples = run.metrics.filter(
        pl.col("metric").cast(pl.String).is_in(list(roles)), pl.col("value").is_finite()
    ).select(
        pl.col("device").cast(pl.String).fill_null(""), "ts_ns", "value",
        role=pl.col("metric").cast(pl.String).replace_strict(roles),
    ).collect(engine="streaming")
    found: list[CounterFinding] = []
    for (device,), rows in sorted(samples.partition_by("device", as_dict=True).items(), key=lambda item: str(item[0])):
        found += _of_device(str(device), rows)
    return found


def _of_device(device: str, rows: pl.DataFrame) -> list[CounterFinding]:
    timed = not rows["ts_ns"].is_null().any()
    if not timed:
        rows = rows.with_columns(ts_ns=pl.int_range(pl.len()).over("role"))
    if not device and rows.select(pl.struct("role", "ts_ns").is_duplicated().any()).item():
        return []
    table = rows.pivot("role", index="ts_ns", values="value", aggregate_function="max")
    nothing = np.full(table.height, np.nan)
    use, clock, power, limit, warmth, used, total, free = (
        table[name].cast(pl.Float64).fill_null(np.nan).to_numpy() if name in table.columns else nothing
        for name in _COUNTERS)
    times = table["ts_ns"].to_numpy()
    found: list[CounterFinding] = []
    measured = use[~np.isnan(use)]
    if len(measured) >= FEWEST and (share := float((measured <= STANDS).mean())) >= MOSTLY:
        span = int(times.max() - times.min()) if timed else None
        found.append(CounterFinding("idle", device, share, float(measured.mean()), STANDS, "%", span))
    most = np.where(np.isnan(total), used + free, total)
    full = used / np.where(most > 0, most, np.nan)
    if not np.isnan(full).all() and full[at := int(np.nanargmax(full))] >= FULL:
        found.append(CounterFinding("memory", device, 1.0, float(used[at]), float(most[at]), "B"))
    under = (use >= LOADED) & ~np.isnan(clock)
    if under.sum() >= FEWEST:
        slow = under & (clock < FALLEN * clock[under].max())
        if (share := float(slow.sum() / under.sum())) >= OFTEN:
            warm = warmth[slow & ~np.isnan(warmth)]
            found.append(CounterFinding(
                "clock", device, share, float(np.median(clock[slow])), float(clock[under].max()), "MHz",
                warmth=float(np.median(warm)) if len(warm) else None))
    under = (use >= LOADED) & ~np.isnan(power) & ~np.isnan(limit)
    at_limit = under & (power >= AT_LIMIT * limit)
    if under.sum() >= FEWEST and (share := float(at_limit.sum() / under.sum())) >= OFTEN:
        found.append(CounterFinding("power", device, share, float(np.median(power[at_limit])),
                                    float(np.median(limit[at_limit])), "W"))
    return found
