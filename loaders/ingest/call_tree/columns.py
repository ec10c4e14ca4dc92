"""The columns ``parent``, ``depth``, ``self_ns`` and ``crosses`` of the host table, from its times and threads.

Slices nest in time on their thread (rank, pid, tid). What a scheduler or a profiler did to a thread is no call of it
and stays out. Clocks round and recorders lose ends, so nesting may be broken; that is tolerated and counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .names import COLUMNS
from .program import SWEEP
from .sweep import sweep

APART = ("sched", "overhead")
"""Kinds of slices that are no calls."""
SLACK_NS = 1_000
"""Clocks of whole microseconds make a slice outlast its parent by up to this; that is not worth a word."""
_WORTH_COMPILING = 200_000
"""Rows from which the compiled sweep is asked for: plainly a million take a second."""
_WIDEST = 1 << 62
Ints = npt.NDArray[np.int64]


def call_tree(host: pl.LazyFrame, compiled: bool = True) -> pl.DataFrame:
    """``COLUMNS``, a row for each of a host table (any of which may be missing but those of time and thread)."""
    nested = ~pl.col("kind").is_in(APART) & pl.col("start_ns").is_not_null()
    within = _column(host, (nested & pl.col("dur_ns").is_not_null()).fill_null(False)).to_numpy()
    some = None if within.all() else np.flatnonzero(within)
    # a column at a time: all of a long recording's together take more memory than all that comes of them
    thread = _threads(host)
    start = _column(host, pl.col("start_ns").fill_null(0)).to_numpy(writable=True)
    dur = np.clip(_column(host, pl.col("dur_ns").fill_null(0)).to_numpy(), 0, _WIDEST - np.maximum(start, 0))
    order = _order(thread, start, dur, some)
    parent, depth = np.full(len(start), -1, np.int32), np.full(len(start), -1, np.int32)
    own, crosses = np.zeros(len(start), np.int64), np.zeros(len(start), np.uint8)
    dur += start  # from here on these are ends
    _sweep((order, thread, start, dur, parent, own, depth, crosses), compiled)
    del order, thread, start, dur
    frame = pl.DataFrame({
        "parent": parent, "depth": _narrow(depth), "self_ns": _narrow(own), "crosses": crosses.view(bool)})
    outside = pl.col("depth") < 0
    return frame.select(
        pl.when(pl.col("parent") >= 0).then("parent").alias("parent"),
        *(pl.when(~outside).then(name).alias(name) for name in COLUMNS[1:]),
    ) if some is not None else frame.with_columns(pl.when(pl.col("parent") >= 0).then("parent").alias("parent"))


def _sweep(arrays: tuple[npt.NDArray[Any], ...], compiled: bool) -> None:
    order, thread, start, end, *out = arrays
    if compiled and len(order) >= _WORTH_COMPILING:
        native = SWEEP.functions() if SWEEP.ready() else None
        if native is not None:
            native.call("compiled_sweep", *arrays, SLACK_NS)
            return
        SWEEP.prepare()
    parent, own, depth, crosses = lists = [array.tolist() for array in out]
    sweep(order.tolist(), thread.tolist(), start.tolist(), end.tolist(), parent, own, depth, crosses, SLACK_NS)
    for array, values in zip(out, lists, strict=True):
        array[:] = values


def _column(host: pl.LazyFrame, wanted: pl.Expr | str) -> pl.Series:
    return host.select(wanted).collect(engine="streaming").to_series()


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in half the bits where they fit, -1 to begin with."""
    bits = 8 * values.itemsize // 2
    return values.astype(f"i{bits // 8}") if int(values.max(initial=0)) < 1 << (bits - 1) else values


def _threads(host: pl.LazyFrame) -> npt.NDArray[np.int32]:
    """A number from 0 for each (rank, pid, tid). Rows of one thread mostly follow each other, so runs are numbered."""
    change, columns = np.zeros(0, bool), dict[str, pl.Series]()
    for key in ("rank", "pid", "tid"):
        column = _column(host, key)
        if not len(column):
            return np.zeros(0, np.int32)
        change = change if len(change) else np.arange(len(column)) == 0
        values = column.fill_null(np.iinfo(np.int64).min).to_numpy()
        differ = values[1:] != values[:-1]
        columns[key] = column if differ.any() else column.head(1)
        change[1:] |= differ
    heads = np.flatnonzero(change)
    runs = pl.DataFrame([
        column[heads] if len(column) == len(change) else column.new_from_index(0, len(heads))
        for column in columns.values()
    ])
    known = runs.unique(maintain_order=True).with_row_index("number")
    numbers = runs.join(known, on=runs.columns, how="left", nulls_equal=True, maintain_order="left")["number"]
    return np.repeat(numbers.to_numpy().astype(np.int32), np.diff(heads, append=len(change)))


def _order(thread: npt.NDArray[np.int32], start: Ints, dur: Ints, some: Ints | None) -> Ints:
    """The rows (all, or ``some``) by thread, start, longest first, then as they were recorded."""
    if some is not None:
        thread, start, dur = thread[some], start[some], dur[some]
    if not len(start):
        return np.zeros(0, np.int64)
    low, high = int(start.min()), int(start.max())
    if (int(thread.max()) + 1) * (high - low + 1) >= _WIDEST:
        order = np.lexsort((-dur, start, thread))
    else:
        key = thread * np.int64(high - low + 1)
        key += start
        key -= low
        order = _by_key(key, dur)
    return order if some is None else some[order]


def _by_key(key: Ints, dur: Ints) -> Ints:
    """Rows by key, those of the same key longest first."""
    order = np.argsort(key, kind="stable")  # recorders write long sorted runs, which this sort makes use of
    key = key[order]
    same = key[1:] == key[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((-dur[rows], key[tied]))]
    return order
