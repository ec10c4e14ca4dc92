"""Evidence from the counters of one run: clocks that dropped while devices worked, and the most memory in use."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from ....loaders.trace import Device, Trace
from ...core import units
from ...core.intervals import EMPTY, Intervals, union
from ...core.metrics import metric as metric_of

DROPPED = 0.75  # A clock below this share of its usual high has dropped.
HIGH = 0.95  # Quantile of the samples that is the usual high.
_CLOCK = re.compile(r"(sm|gpu|gpc|sys|gr|graphics|core|gfx|sclk).*(freq|clock|clk)|^sclk|^clock", re.I)
_OTHER_CLOCK = re.compile(r"mem|cpu|video|dram|throttle", re.I)
_MEMORY = re.compile(r"memory reserved|mem(ory)?[ _](used|usage)|fb_used|vram.*used", re.I)
OF_ALL = 0.7  # A clock below this share of the usual high over all devices of the recording has dropped.
_TOTAL = ("totalGlobalMem", "totalMemory", "memory_bytes")


class Clock(Struct, frozen=True):
    """The clock of one device while it worked: number of samples, number of low ones, usual high and lowest value.
    ``peers``: the high is over all devices of the recording, not of this device alone."""

    device: str | None
    metric: str
    samples: int
    low: int
    high: float
    lowest: float
    unit: str
    peers: bool = False


class Memory(Struct, frozen=True):
    """The most memory in use on one device, and its total, both in ``unit`` (B or %)."""

    device: str | None
    metric: str
    used: float
    total: float
    unit: str = "B"


class Samples(Struct, frozen=True):
    """The clock and the memory of the device where each is worst; None where nothing was sampled."""

    clock: Clock | None
    memory: Memory | None


def samples_of(run: Trace, piece: Trace) -> Samples:
    """The evidence from the counters of a piece of a run."""
    if not piece.has("metrics"):
        return Samples(None, None)
    listed = piece.metrics.select(pl.col("metric").unique().cast(pl.String)).collect(engine="streaming")["metric"]
    names = [name for name in listed.drop_nulls() if _MEMORY.search(name) or _is_clock(name)]
    rows = piece.metrics.filter(pl.col("metric").cast(pl.String).is_in(names)).select(
        "ts_ns", pl.col("metric", "device", "unit").cast(pl.String), "value",
    ).drop_nulls(["value", "ts_ns"]).filter(pl.col("device").ne_missing("Host")).collect(engine="streaming")
    clocks, memories = [], []
    busy: dict[str | None, Intervals] = {}
    for (metric, device), group in rows.group_by("metric", "device", maintain_order=True):
        where = None if device is None else str(device)
        if not _is_clock(str(metric)):
            unit = group["unit"][0]
            total = 100.0 if unit == "%" else _total(run.info.devices, where) if unit == "B" else None
            used = float(group["value"].to_numpy().max())
            if total:
                memories.append(Memory(where, str(metric), used, total, str(unit)))
            continue
        if where not in busy:
            busy[where] = _busy(piece, where)
        clock = _clock(where, str(metric), group, busy[where])
        if clock is not None:
            clocks.append(clock)
    clocks += _during_functions(piece, rows)
    return Samples(
        max(clocks, key=lambda one: one.low / one.samples, default=None),
        max(memories, key=lambda one: one.used / one.total, default=None),
    )


_ERRORS = re.compile(r"xid|ecc|retired|remap|bad_page|uncorrectable", re.I)
_MOST_EVENTS = 4


def error_events(run: Trace) -> list[str]:
    """A sentence per device and counter of errors that was not 0: each different value, when it was first seen."""
    if not run.has("metrics.kind=event"):
        return []
    rows = run.metrics.filter(pl.col("kind").cast(pl.String) == "event", pl.col("value") != 0).select(
        "ts_ns", pl.col("metric", "device").cast(pl.String), "value").collect(engine="streaming")
    sentences = []
    for (metric, device), part in rows.group_by("metric", "device", maintain_order=True):
        if not _ERRORS.search(str(metric)):
            continue
        values = part.group_by("value", maintain_order=True).agg(pl.col("ts_ns").min(), pl.len()).sort(
            "ts_ns", nulls_last=True).rows()
        xid = "xid" in str(metric).lower()
        what = [f"{'XID ' if xid else ''}{value:,.0f}{'' if at is None else f' from {units.moment(at, 10**7)} on'}"
                for value, at, _ in values[-_MOST_EVENTS:]]
        sentences.append(f"{device or 'A device'} reports {'' if xid else f'{metric} '}{', '.join(what)} ({metric}).")
    return sentences


def _is_clock(name: str) -> bool:
    return bool(_CLOCK.search(name)) and not _OTHER_CLOCK.search(name)


def _busy(piece: Trace, device: str | None) -> Intervals:
    rows = piece.kernels.filter(pl.col("device").cast(pl.String).eq_missing(pl.lit(device, pl.String))).select(
        "start_ns", "dur_ns").drop_nulls().collect(engine="streaming")
    if rows.is_empty():
        return EMPTY
    starts = rows["start_ns"].to_numpy()
    return union(starts, starts + rows["dur_ns"].to_numpy())


def _clock(device: str | None, metric: str, rows: pl.DataFrame, busy: Intervals) -> Clock | None:
    """The clock from samples taken while the device worked: it may drop when nothing runs."""
    at = rows["ts_ns"].to_numpy()
    values = rows["value"].to_numpy()[busy.within(at, at + 1) > 0]
    if not len(values):
        return None
    high = float(np.quantile(values, HIGH))
    low = int((values < DROPPED * high).sum())
    return Clock(device, metric, len(values), low, high, float(values.min()), str(rows["unit"][0] or ""))


def _during_functions(piece: Trace, rows: pl.DataFrame) -> list[Clock]:
    """The clocks during the kernels of a cycle profile, compared with the usual high over all devices."""
    if not piece.has("profile"):
        return []
    works = pl.col("kind").cast(pl.String).is_in(["kernel", "collective"])
    read = piece.profile.filter(works, pl.col("mu") > 0).select(
        pl.col("metric", "device").cast(pl.String), "mu").collect(engine="streaming")
    during = []
    for (metric, device), group in read.group_by("metric", "device", maintain_order=True):
        if not _is_clock(str(metric)):
            continue
        about = metric_of(str(metric), None, float(group["mu"].to_numpy().max()))
        values = group["mu"].to_numpy() / about.divisor
        peers = rows.filter(pl.col("metric") == str(metric), pl.col("value") > 0)["value"]
        high = float(np.quantile(peers.to_numpy(), HIGH)) if len(peers) else float(np.quantile(values, HIGH))
        low = int((values < OF_ALL * high).sum())
        during.append(Clock(str(device), str(metric), len(values), low, high, float(values.min()), about.unit, True))
    return during


def _total(devices: tuple[Device, ...], device: str | None) -> float | None:
    for one in devices:
        if one.id == device:
            for key in _TOTAL:
                value = one.properties.get(key)
                if isinstance(value, int | float) and value > 0:
                    return float(value)
    return None
