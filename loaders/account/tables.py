"""The device activities, calls and operators of a recording as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
from msgspec import Struct

from ..schema import NAME
from .arrays import NONE, Ints, Mask, by_start, column_arrays, grouped_arrays, in_order, matches


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


TIMES_AND_IDS = ("start_ns", "rank", "pid", "tid", "external_id")


def slices_of(trace: Recorded, kinds: Sequence[str], names: dict[str, Any]) -> tuple[LinkedSlices, LinkedSlices]:
    """The calls of these kinds, in order of start, the longest first, and the operators, as recorded; ``names``:
    conditions on names of calls, by a word for ``named``. One reading for both: it takes 0.04 of the 1.6 s of CPU time
    of a kernels report of 500 MB less than one each."""
    call, op = pl.col("kind").is_in(kinds).fill_null(False), (pl.col("kind") == "op").fill_null(False)
    some = trace.host.filter(call | op).select(
        "kind", *TIMES_AND_IDS, "correlation", dur_ns=pl.col("dur_ns").fill_null(0).clip(lower_bound=0),
        name=pl.col("name").to_physical())
    groups = (call, (*TIMES_AND_IDS, "dur_ns", "correlation", "name")), (op, (*TIMES_AND_IDS, "dur_ns"))
    both = grouped_arrays(some, groups, ("pid", "tid", "name", "dur_ns"))
    # A row number in the query above would keep the condition from the reader, which would then build all rows.
    rows = trace.host.select(call=call, op=op).collect(engine="streaming")
    return _slices(both[0], rows["call"], names), _slices(both[1], rows["op"], {})


def _slices(columns: dict[str, Ints], rows: pl.Series, names: dict[str, Any]) -> LinkedSlices:
    columns["row"] = np.flatnonzero(rows.to_numpy()).astype(np.int32)
    start = columns["start_ns"]
    end = np.where(start == NONE, NONE, start + columns.pop("dur_ns"))
    order = by_start(start, end) if names and bool((np.diff(start) <= 0).any()) else None
    named = {}
    if names:
        masks = matches(columns.pop("name"), lambda codes: codes.cat.to(NAME), names)
        named = {key: mask if order is None else mask[order] for key, mask in masks.items()}
    correlation = columns.get("correlation", np.broadcast_to(np.int64(NONE), len(start)))
    if (correlation == 0).any():
        correlation = np.where(correlation == 0, NONE, correlation)
    row, rank, pid, tid, external = (
        in_order(columns[name], order) for name in ("row", "rank", "pid", "tid", "external_id"))
    return LinkedSlices(row, in_order(start, order), in_order(end, order), rank, pid, tid,
                        in_order(correlation, order), external, named)
