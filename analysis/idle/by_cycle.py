"""Idle time per cycle: the part of each device's gaps that lies in each cycle's lead, window and tail, by cause.

A gap that crosses the end of a part is cut there, and each piece keeps the causes of its own time. The lead of the
first cycle and the tail of the last one may lie before the device's first activity and after its last one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import Ints
from ..cycles.step_times import StepTimes
from .attribution import AT_ONCE, by_cause, launches_of
from .cause_meanings import CAUSES
from .gaps import DeviceGaps, activities_of, gaps_of
from .host import Host, host_of

SCHEMA: dict[str, Any] = {"cycle": pl.Int64, "rank": pl.Int64, "device": NAME, "cause": NAME, "dur_ns": pl.Int64,
          "covered": pl.Boolean}


def idle_by_cycle(run: Trace, cycles: pl.DataFrame, times: StepTimes) -> pl.DataFrame:
    """``cycle rank device cause dur_ns covered``: the idle time (ns, also 0) in each cycle's parts of ``times``, one
    row per cause that the device has anywhere in these cycles. ``cycles`` needs ``cycle`` and ``row``; without times,
    or without activities, there are no rows."""
    none = pl.DataFrame(schema=SCHEMA)
    if cycles.is_empty() or not run.has("kernels") or times.parts.is_empty():
        return none
    parts = times.parts.join(cycles.select("row", "cycle"), on="row").sort("from_ns")
    activities = activities_of(run)
    if parts.is_empty() or activities.is_empty():
        return none
    devices = gaps_of(activities)
    activities = activities.select("index", "name")
    host = host_of(run)
    return pl.concat([none, *(_of_device(run, host, activities, device, parts) for device in devices)])


def _of_device(
    run: Trace, host: Host | None, activities: pl.DataFrame, gaps: DeviceGaps, parts: pl.DataFrame
) -> pl.DataFrame:
    own = parts.filter(pl.col("rank").eq_missing(pl.lit(gaps.rank, pl.Int64)),
                       pl.col("device").cast(pl.String).eq_missing(gaps.device))
    if own.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    rows, place = np.unique(own["row"].to_numpy(), return_inverse=True)
    cycles = own.unique("row").sort("row")["cycle"].cast(pl.Int64)
    edged = gaps.with_edges(int(own["from_ns"][0]), int(own["to_ns"][-1]))
    pieces, part, _ = edged.within(own["from_ns"].to_numpy(), own["to_ns"].to_numpy())
    sums = np.zeros((len(CAUSES), len(rows)), dtype=np.int64)
    for at in range(0, len(part), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        few = pieces.pick(some)
        _add(sums, by_cause(host, few, None if host is None else launches_of(run, host, activities, few)),
             place[part[some]])
    there = np.flatnonzero(sums.any(axis=1))
    count = len(rows) * len(there)
    return pl.DataFrame({
        "cycle": pl.concat([cycles] * len(there) or [pl.Series([], dtype=pl.Int64)]),
        "rank": pl.Series([gaps.rank] * count, dtype=pl.Int64),
        "device": pl.Series([gaps.device] * count, dtype=NAME),
        "cause": pl.Series(list(CAUSES), dtype=NAME).gather(pl.Series(np.repeat(there, len(rows)))),
        "dur_ns": sums[there].ravel(), "covered": pl.repeat(True, count, eager=True),
    }, schema=SCHEMA)


def _add(sums: Ints, parts: Ints, window: Ints) -> None:
    """Add the pieces' time (causes, pieces) to the windows they lie in."""
    for total, of_cause in zip(sums, parts, strict=True):
        some = np.flatnonzero(of_cause)
        np.add.at(total, window[some], of_cause[some])
