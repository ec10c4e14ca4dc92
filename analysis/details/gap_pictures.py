"""Idle gaps as small timelines: device activity around each gap, and the launching thread's slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..core.names.short_name import short_name
from ..idle.causes import named_cause
from ..timeline.coverage import coverage_of
from .gaps import Row, over_gap

AROUND = 0.4
"""Margin shown before and after a gap, as a share of its length."""


class HostStretch(Struct, frozen=True):
    """Columns ``first`` to ``last`` of the host lane: the innermost slice and the idle cause its time counts as."""

    first: int
    last: int
    name: str
    cause: str


class GapPicture(Struct, frozen=True):
    """A drawn row of the idle view: ``busy``, the device's busy share per column; ``first`` to ``last``, the columns of
    the gap itself; ``host``, slices of the thread that launched the activity after the gap, left to right."""

    row: Row
    busy: tuple[float, ...]
    first: int
    last: int
    host: tuple[HostStretch, ...]


def gap_pictures(run: Trace, rows: Sequence[Row], columns: int) -> list[GapPicture]:
    """Rows of one run's idle view (``start_ns dur_ns device rank index``) as pictures ``columns`` wide."""
    return [_picture(run, row, columns) for row in rows]


def _picture(run: Trace, row: Row, columns: int) -> GapPicture:
    begin, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
    room = max(1, round(AROUND * row["dur_ns"]))
    edges = np.linspace(begin - room, end + room, columns + 1).astype(np.int64)
    low, high = int(edges[0]), int(edges[-1])
    stop = pl.col("start_ns") + pl.col("dur_ns")
    ran = run.kernels.filter(
        is_work(), pl.col("device").cast(pl.String).eq_missing(pl.lit(row["device"], pl.String)),
        pl.col("rank").eq_missing(pl.lit(row["rank"], pl.Int64)), pl.col("start_ns") < high, stop > low,
    ).select("start_ns", stop.alias("end_ns")).sort("start_ns").collect(engine="streaming")
    busy = coverage_of(ran["start_ns"].to_numpy(), ran["end_ns"].to_numpy()).busy(edges) / np.maximum(1, np.diff(edges))
    first = round(columns * AROUND / (1 + 2 * AROUND))
    return GapPicture(row, tuple(busy.tolist()), first, columns - 1 - first, _host(run, row, (low, high), edges))


def _host(run: Trace, row: Row, window: tuple[int, int], edges: np.ndarray[Any, Any]) -> tuple[HostStretch, ...]:
    """The innermost slice at the middle of each column; adjacent columns of the same slice are merged."""
    slices = over_gap(run, row, *window)
    if slices is None:
        return ()
    slices = slices.sort("depth")
    names, kinds = slices["name"].to_list(), slices["kind"].cast(pl.String).to_list()
    middles = (edges[:-1] + edges[1:]) // 2
    innermost = np.full(len(middles), -1, dtype=np.int64)
    for at, (start, dur) in enumerate(slices.select("start_ns", "dur_ns").iter_rows()):
        innermost[(middles >= start) & (middles < start + dur)] = at
    result: list[HostStretch] = []
    for column, at in enumerate(innermost.tolist()):
        if at < 0:
            continue
        if result and result[-1].last == column - 1 and innermost[column - 1] == at:
            result[-1] = HostStretch(result[-1].first, column, result[-1].name, result[-1].cause)
        else:
            cause = named_cause(names[at], kinds[at]) or ("python" if kinds[at] == "python" else "op")
            result.append(HostStretch(column, column, short_name(names[at]), cause))
    return tuple(result)
