"""The device activities, calls and operators of a recording as arrays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import polars as pl
from msgspec import Struct

from .arrays import NONE, Ints, Mask, integers, matches


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
    """Host slices of some kinds in order of start, the longest first: rows of the table, times (ns) and ids."""

    row: Ints
    start: Ints
    end: Ints
    rank: Ints
    pid: Ints
    tid: Ints
    correlation: Ints
    external: Ints
    named: dict[str, Mask]


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
    columns = ("start_ns", "dur_ns", "kind", "rank", "correlation", "op_id", "flow", "graph")
    rows = trace.kernels.select(columns).collect(engine="streaming")
    start, graph = integers(rows, "start_ns"), rows["graph"].is_not_null().to_numpy()
    correlation, external = integers(rows, "correlation"), integers(rows, "op_id")
    correlation = np.where(correlation == 0, NONE, correlation)
    waits = (rows["kind"] == "sync").fill_null(False).to_numpy()
    timeless = (start == NONE) & ~waits
    if timeless.all():  # a format without times
        timeless = np.zeros(len(start), dtype=bool)
    return DeviceWork(start, integers(rows, "rank"), correlation, external, integers(rows, "flow"), graph,
                ~waits & ~timeless, timeless)


def slices_of(trace: Recorded, condition: pl.Expr, names: dict[str, Any]) -> LinkedSlices:
    """The host slices that meet the condition; ``names``: conditions on their names, by a word for ``named``."""
    columns = ("row", "start_ns", "dur_ns", "rank", "pid", "tid", "correlation", "external_id")
    rows = trace.host.with_row_index("row").filter(condition).select(
        *columns, *(["name"] if names else [])).collect(engine="streaming")
    start = integers(rows, "start_ns")
    end = np.where(start == NONE, NONE, start + np.maximum(integers(rows, "dur_ns", 0), 0))
    order = np.lexsort((-end, start)) if bool((np.diff(start) <= 0).any()) else np.arange(len(start))
    rank, pid, tid = (integers(rows, name)[order] for name in ("rank", "pid", "tid"))
    correlation = integers(rows, "correlation")
    named = {key: mask[order] for key, mask in matches(rows, names).items()} if names else {}
    return LinkedSlices(integers(rows, "row")[order], start[order], end[order], rank, pid, tid,
                  np.where(correlation == 0, NONE, correlation)[order], integers(rows, "external_id")[order], named)
