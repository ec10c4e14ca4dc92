"""Copies that blocked the host: the call that made them covers them, whatever its name.

A synchronous copy always blocks. An asynchronous one does if one side is pageable memory: the driver stages the copy
and returns when that is done, after everything queued before it (CUDA Runtime API, "API synchronization behavior").
Most of such a wait is for kernels, not for the copy. A call that is long because of its own copy blocks, too, even if
its name says Async: OpenMP and OpenACC programs copy through the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.batches import at_rows, values_at
from ..core.call_tree import Ints, Mask
from ..core.callers import callers_of
from .causes import always_waits, cause_of_call

PAGEABLE = re.compile(r"pageable", re.I)
_SCHEMA: dict[str, Any] = {"index": pl.Int64, "rank": pl.Int64, "name": NAME, "bytes": pl.Int64, "copy_ns": pl.Int64,
           "row": pl.Int64, "call": NAME, "launch_ns": pl.Int64, "call_ns": pl.Int64, "over_ns": pl.Int64}
COVERED = 0.9  # Share of its own copy that a call covers if it waited for it.
_OWN = 0.5  # Share of a call that its own copy takes, if nothing else says that it waited.


def covers_copy(start: Ints, end: Ints, copy_start: Ints, copy_end: Ints) -> Mask:
    """Which calls cover at least ``COVERED`` of their own copy; all times in ns."""
    over = np.minimum(end, copy_end) - np.maximum(start, copy_start)
    covers: Mask = over >= np.maximum(COVERED * (copy_end - copy_start), 1)
    return covers


def blocking_copies(run: Trace) -> pl.DataFrame:
    """One row per copy, in recorded order: ``index rank name bytes copy_ns`` of the copy, ``row`` (of the host table)
    ``call launch_ns call_ns`` of the call that waited for it, ``over_ns`` of it while the copy ran. Empty where copies
    cannot be matched to calls."""
    return run.remember("blocking-copies", (), lambda: _blocking_copies(run))


def _blocking_copies(run: Trace) -> pl.DataFrame:
    none = pl.DataFrame(schema=_SCHEMA)
    if not run.has("host") or not run.has("kernels.kind=memcpy") or (callers := callers_of(run)) is None:
        return none
    copies = run.kernels.with_row_index("launch").filter(pl.col("kind") == "memcpy").select(
        "launch", "index", "rank", "name", "bytes", "start_ns", copy_ns="dur_ns").collect(engine="streaming")
    row = callers.call[copies["launch"].to_numpy()]
    tied = (row >= 0) & copies["start_ns"].is_not_null().to_numpy() & copies["copy_ns"].is_not_null().to_numpy()
    copies, row = copies.filter(pl.Series(tied)), row[tied].astype(np.int64)
    if copies.is_empty():
        return none
    calls = at_rows(run.host.select(
        pl.col("start_ns", "dur_ns").fill_null(0), name=pl.col("name").to_physical().cast(pl.Int64)), row)
    every = np.arange(len(row))
    frame = copies.with_columns(
        pl.Series("row", row), pl.Series("launch_ns", calls["start_ns"]), pl.Series("call_ns", calls["dur_ns"]),
        values_at(calls["name"], every).cast(pl.UInt32).cat.to(NAME).alias("call"),
    )
    start, until = pl.col("launch_ns"), pl.col("launch_ns") + pl.col("call_ns")
    over = pl.min_horizontal(until, pl.col("start_ns") + pl.col("copy_ns")) - pl.max_horizontal(start, "start_ns")
    frame = frame.with_columns(over_ns=over)
    covers = (pl.col("over_ns") >= COVERED * pl.col("copy_ns")) & (pl.col("over_ns") > 0)
    own = pl.col("over_ns") >= _OWN * pl.col("call_ns")
    waits, copying = (_named(frame["call"], holds) for holds in (always_waits, lambda c: cause_of_call(c) == "copy"))
    staged = _named(frame["name"], PAGEABLE.search) & copying
    return frame.filter(covers & (waits | staged | own)).select(*_SCHEMA)


def _named(names: pl.Series, holds: Callable[[str], object]) -> pl.Series:
    """Which of the categorical names have the property; a null name does not."""
    good = [text for text in names.unique().cast(pl.String).drop_nulls() if holds(text)]
    return names.is_in(pl.Series(good, dtype=NAME).implode()).fill_null(False)
