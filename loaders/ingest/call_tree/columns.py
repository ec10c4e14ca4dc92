"""Computes the columns ``parent``, ``depth``, ``self_ns`` and ``crosses`` of the host table.

Slices nest in time on their thread (rank, pid, tid). Scheduler and profiler-overhead slices are not calls and are left
out. Clocks round and recorders lose ends, so broken nesting is tolerated and marked. With compiled code the tree of 4
million slices takes 2.4 to 2.9 s of CPU time and 460 to 690 MiB (November 2026); a block-by-block version was no better
and twice the code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .sweep import SWEEP, sweep

NOT_CALLS = ("sched", "overhead")  # Kinds of slices that are not calls.
SLACK_NS = 1_000
"""With clocks of 1 µs resolution a slice may outlast its parent by this much; such slices count as nested."""
WORTH_COMPILING = 200_000
"""Calls from which the compiled sweep is used; in plain Python a million take a second."""
_WIDEST = 1 << 62
_THREAD = ("rank", "pid", "tid")
Ints = npt.NDArray[np.int64]


def call_tree(host: pl.LazyFrame, compiled: bool = True) -> pl.DataFrame:
    """The columns ``parent``, ``depth``, ``self_ns`` and ``crosses``, one row per row of the host table."""
    is_call = ~pl.col("kind").is_in(NOT_CALLS) & pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    frame = host.select("start_ns", "dur_ns", *_THREAD, is_call=is_call.fill_null(False)).collect(engine="streaming")
    height, rows = frame.height, np.flatnonzero(frame["is_call"].to_numpy())
    frame = frame.filter("is_call")
    thread = _threads(frame.select(_THREAD))
    start = frame["start_ns"].to_numpy(writable=True)
    end = start + np.clip(frame["dur_ns"].to_numpy(), 0, _WIDEST - np.maximum(start, 0))
    del frame
    parent, depth = np.full(len(rows), -1, np.int32), np.zeros(len(rows), np.int32)
    self_ns, crosses = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.uint8)
    _sweep(_order(thread, start, end), thread, start, end, parent, self_ns, depth, crosses, compiled=compiled)
    tree = pl.DataFrame({
        "parent": pl.Series(rows, dtype=pl.Int32).gather(_places(parent)), "depth": _narrow(depth),
        "self_ns": _narrow(self_ns), "crosses": crosses.view(bool),
    })
    if len(rows) == height:
        return tree
    at = np.full(height, -1, np.int64)
    at[rows] = np.arange(len(rows))
    return tree.select(pl.all().gather(_places(at)))


def _places(values: npt.NDArray[Any]) -> pl.Series:
    """Row indices as a Series, with null for -1."""
    series = pl.Series(values, dtype=pl.Int64)
    return series.set(series < 0, None)


def _threads(keys: pl.DataFrame) -> npt.NDArray[np.int32]:
    """A thread number per row. Rows of one thread are mostly contiguous, so only run starts are looked up."""
    change = np.arange(keys.height) == 0
    for column in keys:
        values = column.fill_null(np.iinfo(np.int64).min).to_numpy()
        change[1:] |= values[1:] != values[:-1]
    heads, numbers_by_thread = np.flatnonzero(change), dict[tuple[int | None, ...], int]()
    numbers = [numbers_by_thread.setdefault(key, len(numbers_by_thread)) for key in keys[heads].rows()]
    return np.repeat(np.array(numbers, np.int32), np.diff(heads, append=keys.height))


def _order(thread: npt.NDArray[np.int32], start: Ints, end: Ints) -> Ints:
    """Slice indices sorted by thread, start, longest first, then recorded order."""
    if not len(start):
        return np.zeros(0, np.int64)
    low, high = int(start.min()), int(start.max())
    if (int(thread.max()) + 1) * (high - low + 1) >= _WIDEST:
        return np.lexsort((start - end, start, thread))
    key = thread * np.int64(high - low + 1)
    key += start
    key -= low
    order = np.argsort(key, kind="stable")  # exploits the long sorted runs that recorders write
    key = key[order]
    same = key[1:] == key[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        at = order[tied]
        order[tied] = at[np.lexsort((at, start[at] - end[at], key[tied]))]
    return order


def _sweep(*arrays: npt.NDArray[Any], compiled: bool) -> None:
    """Run the sweep, compiled if available and worthwhile."""
    native = SWEEP.load() if compiled and len(arrays[0]) >= WORTH_COMPILING else None
    if native is not None:
        native.call("sweep", *arrays, SLACK_NS)
        return
    if compiled and len(arrays[0]) >= WORTH_COMPILING:
        SWEEP.prepare()
    views: list[Any] = [array.data for array in arrays]  # memoryviews index faster than arrays and copy nothing
    sweep(*[*views, SLACK_NS])


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in an integer dtype of half the width if they fit."""
    bits = 8 * values.itemsize // 2
    return values.astype(f"i{bits // 8}") if int(values.max(initial=0)) < 1 << (bits - 1) else values
