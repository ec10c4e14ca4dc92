"""Findings from a counter log, per device: idle, memory full, clock fell under load, at its power limit. Findings are
typed data; the sentence is made at the end.

Counters of a device are compared where they were sampled at the same time. Nothing is said about a device with fewer
than ``FEWEST`` samples, nor about devices that the log does not name: they may be several.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import metrics, units

FEWEST = 10
STANDS, LOADED = 5.0, 50.0
"""Utilisation in percent: idle up to the first, under load from the second."""
MOSTLY = 0.5  # Share of samples in which a device must be idle to be reported.
FULL = 0.95  # Share of the memory in use.
FALLEN, OFTEN = 0.9, 0.1
"""A clock below this share of the device's highest under load, in at least this share of the samples under load."""
AT_LIMIT = 0.97  # Share of the power limit that counts as reaching it.
_TOOLS = (
    {"use": "utilization.gpu", "clock": "clocks.current.sm", "power": "power.draw", "limit": "power.limit",
     "warmth": "temperature.gpu", "used": "memory.used", "total": "memory.total"},
    {"use": "gpu_utilization", "clock": "clocks.sm", "power": "power.draw.instant", "limit": "enforced.power.limit",
     "warmth": "temperature", "used": "memory.used", "total": "memory.total"},
    {"use": "sm", "clock": "pclk", "power": "pwr", "warmth": "gtemp"},
    {"use": "GPUTL", "clock": "SMCLK", "power": "POWER", "warmth": "TMPTR", "used": "FBUSD", "free": "FBFRE"},
    {"use": "DCGM_FI_DEV_GPU_UTIL", "clock": "DCGM_FI_DEV_SM_CLOCK", "power": "DCGM_FI_DEV_POWER_USAGE",
     "limit": "DCGM_FI_DEV_POWER_MGMT_LIMIT", "warmth": "DCGM_FI_DEV_GPU_TEMP", "used": "DCGM_FI_DEV_FB_USED",
     "free": "DCGM_FI_DEV_FB_FREE"},
    {"use": "gfx", "clock": "gfx_clk", "power": "power_usage", "warmth": "hotspot_temperature", "used": "vram_used",
     "total": "vram_total"},
    {"use": "gpu_usage", "clock": "gpu_sm_frequency"},
)
"""Counter names by tool: two layouts of nvidia-smi queries, nvidia-smi dmon, dcgmi, the DCGM exporter, amd-smi, and the
counter logs of cycle profiles. Counters of two logs in one folder are not compared with each other."""
_ROLES = ("use", "clock", "power", "limit", "warmth", "used", "total", "free")


class CounterFinding(Struct, frozen=True):
    """The rule holds in ``share`` of the samples (clock, power: of those under load); ``value`` is the reading,
    ``against`` its limit, both in ``unit``; ``warmth`` the temperature in °C, if sampled."""

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
        """The finding as a sentence: subject, verb, number, unit."""
        share = units.percent(100 * self.share, places=0)
        value, against = (metrics.value_text(one, self.unit) for one in (self.value, self.against))
        match self.rule:
            case "idle":
                span = f" of {units.duration(self.span_ns)}" if self.span_ns else " of the samples"
                return f"{self.device} is idle (utilisation at most {against}) for {share}{span}."
            case "memory":
                return f"{self.device} fills its memory: {value} of {against} used at most."
            case "power":
                return f"{self.device} runs at its power limit of {against} in {share} of the samples under load."
        warm = f", at {metrics.value_text(self.warmth, '°C')}" if self.warmth is not None else ""
        return (f"{self.device}: the SM clock falls to {value} in {share} of the samples under load{warm}; its "
                f"highest is {against}: thermal or power throttling.")


def counter_findings(run: Trace) -> list[CounterFinding]:
    """The findings of all devices, sorted by device; none if the run has kernels or a profile, which tell more."""
    if run.has("kernels") or run.has("profile"):
        return []
    wanted = {name for tool in _TOOLS for name in tool.values()}
    samples = run.metrics.filter(
        pl.col("metric").cast(pl.String).is_in(wanted), pl.col("value").is_finite(), pl.col("device").is_not_null()
    ).select(pl.col("device", "metric").cast(pl.String), "ts_ns", "value").collect(engine="streaming")
    findings: dict[tuple[str, str], CounterFinding] = {}
    for (device,), rows in sorted(samples.partition_by("device", as_dict=True).items()):
        for tool in _TOOLS:
            roles = {name: role for role, name in tool.items()}
            counters = rows.filter(pl.col("metric").is_in(roles)).with_columns(role=pl.col("metric").replace(roles))
            for one in _of_device(str(device), counters):
                findings.setdefault((one.device, one.rule), one)
    return list(findings.values())


def _of_device(device: str, rows: pl.DataFrame) -> list[CounterFinding]:
    timed = not rows["ts_ns"].is_null().any()
    if not timed:
        rows = rows.with_columns(ts_ns=pl.int_range(pl.len()).over("role"))
    if rows.is_empty():
        return []
    table = rows.pivot("role", index="ts_ns", values="value", aggregate_function="max")
    nothing = np.full(table.height, np.nan)
    use, clock, power, limit, warmth, used, total, free = (
        table[name].cast(pl.Float64).fill_null(np.nan).to_numpy() if name in table.columns else nothing
        for name in _ROLES)
    times = table["ts_ns"].to_numpy()
    findings: list[CounterFinding] = []
    measured = use[~np.isnan(use)]
    if len(measured) >= FEWEST and (share := float((measured <= STANDS).mean())) >= MOSTLY:
        span = int(times.max() - times.min()) if timed else None
        findings.append(CounterFinding("idle", device, share, float(measured.mean()), STANDS, "%", span))
    most = np.where(np.isnan(total), used + free, total)
    full = used / np.where(most > 0, most, np.nan)
    if not np.isnan(full).all() and full[at := int(np.nanargmax(full))] >= FULL:
        findings.append(CounterFinding("memory", device, 1.0, float(used[at]), float(most[at]), "B"))
    under = (use >= LOADED) & ~np.isnan(clock)
    if under.sum() >= FEWEST:
        highest = clock[under].max()
        rise = times[under & (clock >= FALLEN * highest)].min()  # a clock that has not ramped up yet has not fallen
        slow = under & (clock < FALLEN * highest) & (times > rise)
        if (share := float(slow.sum() / under.sum())) >= OFTEN:
            warm = warmth[slow & ~np.isnan(warmth)]
            findings.append(CounterFinding(
                "clock", device, share, float(np.median(clock[slow])), float(highest), "MHz",
                warmth=float(np.median(warm)) if len(warm) else None))
    under = (use >= LOADED) & ~np.isnan(power) & ~np.isnan(limit)
    at_limit = under & (power >= AT_LIMIT * limit)
    if under.sum() >= FEWEST and (share := float(at_limit.sum() / under.sum())) >= OFTEN:
        findings.append(CounterFinding("power", device, share, float(np.median(power[at_limit])),
                                       float(np.median(limit[at_limit])), "W"))
    return findings
