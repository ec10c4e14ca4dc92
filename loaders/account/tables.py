"""The device activities, calls and operators of a recording as arrays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import polars as pl
from msgspec import Struct

from ..schema import NAME
from .arrays import NONE, Ints, Mask, by_start, column_arrays, in_order, matches


class Recorded(Protocol):
    """What a Trace has of a recording."""

    @property
    def info(self) -> Any:
        """See ``Trace.info``."""
        ...

    @property
    def kernels(self) -> pl.LazyFrame:
        """See ``schema.TABLES``."""
        ...

    @property
    def host(self) -> pl.LazyFrame:
        """See ``schema.TABLES``."""
        ...

    def has(self, name: str) -> bool:
        """See ``Trace.has``."""
        ...


class LinkedSlices(Struct, frozen=True):
    """Host slices of some kinds: rows of the table, times (ns) and ids."""

    row: Ints
    start: Ints
    end: Ints
    rank: Ints
    pid: Ints
    tid: Ints
    correlation: Ints
    external: Ints
    named: dict[str, Mask]

    def at(self, rows: Ints) -> LinkedSlices:
        """Some of the slices, without ``named``."""
        row, start, end, rank, pid, tid, correlation, external = (
            getattr(self, name)[rows] for name in LinkedSlices.__struct_fields__[:-1])
        return LinkedSlices(row, start, end, rank, pid, tid, correlation, external, {})


class DeviceWork(Struct, frozen=True):
    """The device activities: ``counted`` are those with a time that are no synchronisation."""

    start: Ints
    rank: Ints
    correlation: Ints
    external: Ints
    flow: Ints
    graph: Mask
    counted: Mask
    timeless: Mask


def work_of(trace: Recorded) -> DeviceWork:
    """The rows of ``kernels``."""
    columns = ("start_ns", "rank", "correlation", "op_id", "flow", "graph")
    rows = column_arrays(trace.kernels.select(*columns, waits=(pl.col("kind") == "sync").fill_null(False)))
    start, correlation, external = rows["start_ns"], rows["correlation"], rows["op_id"]
    graph = rows["graph"] != NONE
    if (correlation == 0).any():
        correlation = np.where(correlation == 0, NONE, correlation)
    waits = rows["waits"] == 1
    timeless = (start == NONE) & ~waits
    if timeless.all():  # a format without times
        timeless = np.zeros(len(start), dtype=bool)
    return DeviceWork(start, rows["rank"], correlation, external, rows["flow"], graph,
                ~waits & ~timeless, timeless)


def slices_of(trace: Recorded, condition: pl.Expr, names: dict[str, Any]) -> LinkedSlices:
    """The host slices that meet the condition; ``names``: conditions on their names, by a word for ``named``. With
    names they are in order of start, the longest first; without as recorded."""
    times = ("start_ns", pl.col("dur_ns").fill_null(0).clip(lower_bound=0))
    some = trace.host.filter(condition).select(
        *times, "rank", "pid", "tid", "correlation", "external_id",
        *([pl.col("name").to_physical().cast(pl.Int64)] if names else []))
    columns = column_arrays(some, "pid", "tid", "name", "dur_ns")
    # A row number in the query above would keep the condition from the reader, which would then build all rows.
    every = trace.host.select(some=condition.fill_null(False)).collect(engine="streaming")["some"]
    columns["row"] = np.flatnonzero(every.to_numpy()).astype(np.int32)
    start = columns["start_ns"]
    end = np.where(start == NONE, NONE, start + columns.pop("dur_ns"))
    order = by_start(start, end) if names and bool((np.diff(start) <= 0).any()) else None
    named = {}
    if names:
        masks = matches(columns.pop("name"), lambda codes: codes.cat.to(NAME), names)
        named = {key: mask if order is None else mask[order] for key, mask in masks.items()}
    correlation = columns["correlation"]
    if (correlation == 0).any():
        correlation = np.where(correlation == 0, NONE, correlation)
    row, rank, pid, tid, external = (
        in_order(columns[name], order) for name in ("row", "rank", "pid", "tid", "external_id"))
    return LinkedSlices(row, in_order(start, order), in_order(end, order), rank, pid, tid,
                        in_order(correlation, order), external, named)
