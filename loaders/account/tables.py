"""The device activities, calls and operators of a recording as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl
from msgspec import Struct

from ..schema import NAME
from .arrays import NONE, Ints, Mask, batches_of, by_start, column_arrays, in_order, joined, matches


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

    @property
    def held_host(self) -> Any:
        """See ``Trace.held_host``."""
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


COLUMNS = ("start_ns", "dur_ns", "rank", "pid", "tid", "external_id")
_NARROW = ("row", "pid", "tid", "name", "dur_ns")


def slices_of(trace: Recorded, kinds: Sequence[str], names: dict[str, Any]) -> tuple[LinkedSlices, LinkedSlices]:
    """The calls of these kinds, in order of start, the longest first, and the operators, as recorded; ``names``:
    conditions on names of calls, by a word for ``named``. Read as the loader holds them where it does: that takes
    0.1 s of CPU time of a kernels report of 500 MB less than through the table."""
    groups = (kinds, (*COLUMNS, "correlation", "name")), (("op",), COLUMNS)
    columns = [("row", *each) for _, each in groups]
    if trace.held_host is not None:
        calls, ops = joined(trace.held_host(groups), columns, _NARROW)
    else:
        conditions = [pl.col("kind").is_in(kinds).fill_null(False) for kinds, _ in groups]
        some = trace.host.filter(pl.any_horizontal(conditions)).select("kind", *COLUMNS, "correlation", "name")
        batches = batches_of(some, [(one, each) for one, (_, each) in zip(conditions, groups, strict=True)])
        # A row number in the query above would keep the condition from the reader, which would then build all rows.
        rows = trace.host.select(calls=conditions[0], ops=conditions[1]).collect(engine="streaming")
        calls, ops = joined(batches, [each for _, each in groups], _NARROW)
        for slices, name in ((calls, "calls"), (ops, "ops")):
            slices["row"] = np.flatnonzero(rows[name].to_numpy()).astype(np.int32)
    return _slices(calls, names), _slices(ops, {})


def _slices(columns: dict[str, Ints], names: dict[str, Any]) -> LinkedSlices:
    start = columns["start_ns"]
    end = start + np.maximum(columns.pop("dur_ns"), 0)
    if (start == NONE).any():
        end[start == NONE] = NONE
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
