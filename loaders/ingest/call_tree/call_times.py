"""Calls of the host table as arrays, read a block at a time, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

APART = ("sched", "overhead")
"""Kinds of slices that are no calls."""
_WIDEST = 1 << 62
_THREAD = ("rank", "pid", "tid")
Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]


class CallTimes(Struct, frozen=True):
    """Calls: rows of the table, numbers of their threads, start and end in ns."""

    row: Ints
    thread: Shorts
    start: Ints
    end: Ints

    def pick(self, rows: npt.NDArray[Any]) -> CallTimes:
        """Some of them."""
        return CallTimes(self.row[rows], self.thread[rows], self.start[rows], self.end[rows])


def joined(runs: Sequence[CallTimes]) -> CallTimes:
    """All of the parts, in their order."""
    if len(runs) == 1:
        return runs[0]
    return CallTimes(*(np.concatenate([getattr(run, name) for run in runs]) for name in CallTimes.__struct_fields__))


def read(block: pl.LazyFrame, first_row: int, threads: dict[tuple[int | None, ...], int]) -> CallTimes:
    """The calls of a block that begins at that row of the table. ``threads`` are numbered from 0 as they come."""
    is_call = ~pl.col("kind").is_in(APART) & pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    frame = block.select("start_ns", "dur_ns", *_THREAD, is_call=is_call.fill_null(False)).collect(engine="streaming")
    rows = np.arange(first_row, first_row + frame.height)
    if not frame["is_call"].all():
        rows = rows[frame["is_call"].to_numpy()]
        frame = frame.filter("is_call")
    start = frame["start_ns"].to_numpy()
    dur = np.clip(frame["dur_ns"].to_numpy(), 0, _WIDEST - np.maximum(start, 0))
    return CallTimes(rows, _threads(frame.select(_THREAD), threads), start, start + dur)


def _threads(keys: pl.DataFrame, thread_numbers: dict[tuple[int | None, ...], int]) -> Shorts:
    """The number of each row's thread. Rows of one thread mostly follow each other, so runs are looked up."""
    if keys.is_empty():
        return np.zeros(0, np.int32)
    change = np.arange(keys.height) == 0
    for column in keys:
        values = column.fill_null(np.iinfo(np.int64).min).to_numpy()
        change[1:] |= values[1:] != values[:-1]
    heads = np.flatnonzero(change)
    numbers = [thread_numbers.setdefault(key, len(thread_numbers)) for key in keys[heads].rows()]
    return np.repeat(np.array(numbers, np.int32), np.diff(heads, append=keys.height))


def in_order(slices: CallTimes) -> Ints:
    """Their places by thread, start, longest first, then as they were recorded."""
    thread, start = slices.thread, slices.start
    if not len(start):
        return np.zeros(0, np.int64)
    low, high = int(start.min()), int(start.max())
    if (int(thread.max()) + 1) * (high - low + 1) >= _WIDEST:
        return np.lexsort((slices.row, start - slices.end, start, thread))
    key = thread * np.int64(high - low + 1)
    key += start
    key -= low
    order = np.argsort(key, kind="stable")  # recorders write long sorted runs, which this sort makes use of
    key = key[order]
    same = key[1:] == key[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        at = order[tied]
        order[tied] = at[np.lexsort((slices.row[at], start[at] - slices.end[at], key[tied]))]
    return order
