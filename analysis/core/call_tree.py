"""The host table as arrays, and questions to its call tree: what encloses a slice, and what adds up below it.

It is the longest table by far, and nobody needs all of it: each column is read when it is asked for, no wider than its
values. The tree is recorded with the slices (columns ``parent`` and ``depth``). Arrays have one entry for each row of
the table, or of some of its rows with parents numbered among them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ...loaders.trace import Trace
from .batches import ABSENT, Columns, TextColumn, at_rows, batches, gathered, numbered, numbers

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]  # Numbers of rows, calls or threads, fewer than 2^31 of each; -1 for none.
Parents = npt.NDArray[np.int64] | npt.NDArray[np.int32]  # For each row the number of another one, -1 for none.
_Rows = TypeVar("_Rows", npt.NDArray[np.int64], npt.NDArray[np.int32])
_ROUNDS = 40
"""Levels climbed one by one, for the slices still on their way; whoever is deeper is found by leaps for all."""


def nearest(parent: Parents, rows: _Rows, wanted: Mask) -> _Rows:
    """For each of the rows (-1 for none) itself or the closest slice around it that is wanted, -1 where none is. Rows
    of 32 bits give rows of 32 bits."""
    result = rows.copy()
    moving = np.flatnonzero(rows >= 0)
    for _ in range(_ROUNDS):
        moving = moving[~wanted[result[moving]]]
        if not len(moving):
            return result
        result[moving] = parent[result[moving]]
        moving = moving[result[moving] >= 0]
    if len(moving):
        none = len(parent)
        leap = np.append(np.where(wanted, np.arange(none), np.where(parent >= 0, parent, none)), none)
        while not np.array_equal(further := leap[leap], leap):
            leap = further
        result[moving] = np.where(leap[:-1] < none, leap[:-1], -1)[result[moving]]
    return result


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


def pack(thread: Ints | Rows, times: Ints) -> Ints:
    """One number per (thread, time) that sorts like the pair."""
    zero = int(times.min(initial=0))
    room = int(times.max(initial=0)) - zero + 2
    if (int(thread.max(initial=0)) + 1) * room < 2**62:
        return thread * np.int64(room) + (times - zero)
    ranks = np.unique(times, return_inverse=True)[1].astype(np.int64)
    return thread * (len(times) + 1) + ranks


def calls_where(host: pl.LazyFrame, inside: pl.Expr) -> pl.LazyFrame:
    """The host slices for which that holds, with parents as rows among them; one whose parent is not has none."""
    rows = host.with_row_index("_row").filter(inside).with_row_index("_new").with_columns(pl.col("_row").cast(pl.Int64))
    moved = rows.select(pl.col("_row").alias("parent"), pl.col("_new").cast(pl.Int64))
    return rows.drop("_new").join(moved, on="parent", how="left", maintain_order="left").with_columns(
        parent="_new"
    ).drop("_row", "_new")


def _threads(*keys: Ints) -> npt.NDArray[np.int32]:
    number = numbered(*keys)
    return number.astype(np.int32) if number.any() else np.broadcast_to(np.int32(0), len(number))


def slices_of(run: Trace) -> HostSlices:
    """The host slices of a run: for all who have them at the same time the same, so that no column is read twice. They
    go with the last who does."""
    known: list[weakref.ref[HostSlices]] = run.remember("host slices", (), list)
    slices = known[0]() if known else None
    if slices is None:
        slices = HostSlices(run)
        known[:] = [weakref.ref(slices)]
    return slices


class HostSlices:
    """Every slice of the host table of a run, one entry a row; what was not recorded is ``ABSENT``."""

    def __init__(self, run: Trace) -> None:
        self._run = run

    def read(self, more: Sequence[str], also: Callable[[pl.DataFrame], None]) -> None:
        """Read at once what most questions need, which takes half the time, and let somebody else see the batches, with
        ``more`` columns."""
        ids, times = ("rank", "pid", "tid"), ("start_ns", "dur_ns")
        columns = Columns(("dur_ns", *ids))
        for batch in batches(self._run.host.select("name", "kind", *times, *ids, *more)):
            columns.add(batch.select("name", "kind", *ids, *(pl.col(time).fill_null(0) for time in times)))
            also(batch)
        self.name, self.kind = columns.texts("name"), columns.texts("kind")
        self.start, self.dur = columns.numbers("start_ns"), columns.numbers("dur_ns")
        self.rank, self.thread = columns.numbers("rank"), _threads(*map(columns.numbers, ids))

    @cached_property
    def name(self) -> TextColumn:
        """As recorded."""
        return TextColumn.in_batches(self._run.host.select("name"))

    @cached_property
    def kind(self) -> TextColumn:
        """What each is."""
        return TextColumn.in_batches(self._run.host.select("kind"))

    @cached_property
    def start(self) -> Ints:
        """Start of each, ns; 0 where not recorded."""
        return self._numbers("start_ns", 0)

    @cached_property
    def dur(self) -> Ints:
        """Duration of each, ns; 0 where not recorded. Of 32 bits where all fit."""
        return self._numbers("dur_ns", 0, narrow=True)

    @cached_property
    def rank(self) -> Ints:
        """Rank of the process of each."""
        return self._numbers("rank")

    @cached_property
    def parent(self) -> npt.NDArray[np.int32]:
        """Row of the slice that encloses each most closely, -1 for none."""
        return self._numbers("parent", -1, narrow=True).astype(np.int32, copy=False)

    @cached_property
    def thread(self) -> npt.NDArray[np.int32]:
        """A number from 0 for the thread (rank, pid, tid) of each."""
        return _threads(*(self._numbers(key, narrow=True) for key in ("rank", "pid", "tid")))

    def ends(self, some: slice | Ints) -> Ints:
        """End of some of them, ns."""
        return self.start[some] + self.dur[some]

    def _numbers(self, column: str, absent: int = ABSENT, narrow: bool = False) -> Ints:
        return numbers(self._run.host.select(pl.col(column).fill_null(absent)), *[column] * narrow)[column]

    def at(self, rows: Ints, column: str, absent: int = ABSENT) -> Ints:
        """The numbers that the table has in a column at these rows, none of which is -1."""
        return at_rows(self._run.host.select(pl.col(column).fill_null(absent)), rows)[column]

    def of_kind(self, *kinds: str) -> Mask:
        """Which slices are of these kinds."""
        return self.kind.where(kinds.__contains__)

    def named(self, condition: Callable[[str], object], among: Mask) -> Mask:
        """Which of these slices have a name for which the condition holds."""
        return self.name.where(condition) & among

    def rows_named(self, condition: Callable[[str], object], *kinds: str) -> Ints:
        """The rows of slices of these kinds that have a name for which the condition holds."""
        rows = np.flatnonzero(self.name.where(condition))
        return rows[self.kind.where(kinds.__contains__, rows)]

    def names_of(self, rows: Ints) -> pl.Series:
        """The name of each row, null for -1."""
        if not len(self.name.number):
            return gathered(self.name.distinct, rows)
        named = self.name.at(np.maximum(rows, 0))
        return named.set(pl.Series(rows < 0), None) if len(rows) and int(rows.min()) < 0 else named
