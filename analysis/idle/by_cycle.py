"""Idle time per cycle: the part of each device's gaps that lies in each cycle's window, by cause.

A gap that crosses the end of a window is cut there, and each piece keeps the causes of its own time. Whether a device
waited before the first or after the last activity of a recording is unknown: a window that extends beyond these is not
covered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import Ints
from ..cycles.assignment import WINDOW
from .attribution import AT_ONCE, by_cause, launches_of
from .cause_meanings import CAUSES
from .gaps import DeviceGaps, activities_of, gaps_of
from .host import Host, host_of

SCHEMA: dict[str, Any] = {"cycle": pl.Int64, "rank": pl.Int64, "device": NAME, "cause": NAME, "dur_ns": pl.Int64,
          "covered": pl.Boolean}
NOT_COVERED = 0.01
"""A window with more than this share before the first or after the last activity is not covered."""


def idle_by_cycle(run: Trace, cycles: pl.DataFrame) -> pl.DataFrame:
    """``cycle rank device cause dur_ns covered``: the idle time (ns, also 0) in each cycle's window, one row per cause
    that the device has anywhere in these cycles. ``cycles`` needs the ``WINDOW`` columns; without times, or without
    activities, there are no rows."""
    none = pl.DataFrame(schema=SCHEMA)
    if cycles.is_empty() or not run.has("kernels") or not set(WINDOW) <= set(cycles.columns):
        return none
    windows = cycles.drop_nulls(WINDOW).sort(WINDOW[0])
    activities = activities_of(run)
    if windows.is_empty() or activities.is_empty():
        return none
    devices = gaps_of(activities)
    activities = activities.select("index", "name", "correlation")
    host = host_of(run)
    return pl.concat([none, *(_of_device(run, host, activities, device, windows) for device in devices)])


def _of_device(
    run: Trace, host: Host | None, activities: pl.DataFrame, gaps: DeviceGaps, windows: pl.DataFrame
) -> pl.DataFrame:
    own = windows
    if gaps.rank is not None:
        own = windows.filter((pl.col("rank") == gaps.rank).fill_null(True))
    starts, ends = (own[name].to_numpy() for name in WINDOW)
    pieces, window = gaps.within(starts, ends)
    sums = np.zeros((len(CAUSES), own.height), dtype=np.int64)
    for at in range(0, len(window), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        few = pieces.pick(some)
        _add(sums, by_cause(host, few, None if host is None else launches_of(run, host, activities, few)), window[some])
    there = np.flatnonzero(sums.any(axis=1))
    outside = np.maximum(gaps.begin_ns - starts, 0) + np.maximum(ends - gaps.begin_ns - gaps.window_ns, 0)
    count = own.height * len(there)
    return pl.DataFrame({
        "cycle": pl.concat([own["cycle"].cast(pl.Int64)] * len(there) or [pl.Series([], dtype=pl.Int64)]),
        "rank": pl.Series([gaps.rank] * count, dtype=pl.Int64),
        "device": pl.Series([gaps.device] * count, dtype=NAME),
        "cause": pl.Series(list(CAUSES), dtype=NAME).gather(pl.Series(np.repeat(there, own.height))),
        "dur_ns": sums[there].ravel(),
        "covered": np.tile(outside <= NOT_COVERED * (ends - starts), len(there)),
    }, schema=SCHEMA)


def _add(sums: Ints, parts: Ints, window: Ints) -> None:
    """Add the pieces' time (causes, pieces) to the windows they lie in."""
    for total, of_cause in zip(sums, parts, strict=True):
        some = np.flatnonzero(of_cause)
        np.add.at(total, window[some], of_cause[some])
