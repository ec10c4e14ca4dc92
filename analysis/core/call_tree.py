"""Questions to the call tree of the host table: what encloses a slice, and what adds up below it.

The tree itself is recorded with the slices (columns ``parent`` and ``depth``, found once while a recording is read).
Arrays here have one entry for each row of the table, or of some of its rows with parents numbered among them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Parents = npt.NDArray[np.int64] | npt.NDArray[np.int32]
"""For each row the number of another one, -1 for none."""
_Rows = TypeVar("_Rows", npt.NDArray[np.int64], npt.NDArray[np.int32])
_ROUNDS = 40
"""Levels climbed one by one, for the slices still on their way; whoever is deeper is found by leaps for all."""


def nearest(parent: Parents, rows: _Rows, wanted: Mask) -> _Rows:
    """For each of the rows (-1 for none) itself or the closest slice around it that is wanted, -1 where none is.

    Rows of 32 bits give rows of 32 bits.
    """
    found = rows.copy()
    moving = np.flatnonzero(rows >= 0)
    for _ in range(_ROUNDS):
        moving = moving[~wanted[found[moving]]]
        if not len(moving):
            return found
        found[moving] = parent[found[moving]]
        moving = moving[found[moving] >= 0]
    if len(moving):
        found[moving] = _by_leaps(parent, wanted)[found[moving]]
    return found


def _by_leaps(parent: Parents, wanted: Mask) -> Ints:
    """``nearest`` of every row at once, in as many rounds as the depth has binary digits."""
    none = len(parent)
    leap = np.append(np.where(wanted, np.arange(none), np.where(parent >= 0, parent, none)), none)
    while not np.array_equal(further := leap[leap], leap):
        leap = further
    return np.where(leap[:-1] < none, leap[:-1], -1)


def among(parent: _Rows, some: Mask) -> Ints:
    """For each row that is one of ``some``, in their order, the number among them of the closest one around it."""
    above = nearest(parent, parent[some], some)
    return np.where(above >= 0, numbers_among(some)[above], -1).astype(np.int64)


def numbers_among(some: Mask) -> npt.NDArray[np.int32]:
    """For each row how many of ``some`` come before it or are it, less one: the number of those that are some."""
    numbers = np.cumsum(some, dtype=np.int32)
    numbers -= 1
    return numbers


def sum_below(parent: Ints, depth: Ints, values: npt.NDArray[np.int64 | np.bool_]) -> Ints:
    """Sum of the values of each row and of everything below it; a row is deeper than its parent."""
    total = values.astype(np.int64)
    order = np.argsort(-depth, kind="stable")
    order = order[parent[order] >= 0]
    for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        np.add.at(total, parent[level], total[level])
    return total


def crossings(host: pl.LazyFrame) -> int:
    """How many slices end after the one in which they begin."""
    return int(host.select(pl.col("crosses").sum()).collect(engine="streaming").item() or 0)


def crossing_notes(count: int) -> tuple[str, ...]:
    """What a reader of anything that rests on the call tree must know."""
    if not count:
        return ()
    slices = "1 host slice ends" if count == 1 else f"{count:,} host slices end"
    return (f"{slices} after the slice of the same thread in which they begin: not counted as its children.",)


def pack(thread: Ints, times: Ints) -> Ints:
    """One number per (thread, time) that sorts like the pair."""
    zero = int(times.min(initial=0))
    room = int(times.max(initial=0)) - zero + 2
    if (int(thread.max(initial=0)) + 1) * room < 2**62:
        return thread * room + (times - zero)
    ranks = np.unique(times, return_inverse=True)[1].astype(np.int64)
    return thread * (len(times) + 1) + ranks


def calls_where(host: pl.LazyFrame, inside: pl.Expr) -> pl.LazyFrame:
    """The host slices for which that holds, with parents as rows among them; one whose parent is not has none."""
    kept = host.with_row_index("_row").filter(inside).with_row_index("_new").with_columns(pl.col("_row").cast(pl.Int64))
    moved = kept.select(pl.col("_row").alias("parent"), pl.col("_new").cast(pl.Int64))
    return kept.drop("_new").join(moved, on="parent", how="left", maintain_order="left").with_columns(
        parent="_new"
    ).drop("_row", "_new")
