"""The host table as arrays, and queries on its call tree: the enclosing slice, and sums over descendants.

It is by far the longest table, and nobody needs all of it: each column is read on first use, no wider than its values.
The tree is recorded with the slices (columns ``parent`` and ``depth``). Arrays have one entry per row of the table, or
per row of a subset whose parents are numbered within the subset.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from .batches import ABSENT, CALLS, Columns, TextColumn, at_rows, batches, gathered, in_order, integer_arrays, numbered
from .quantiles import order_by

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int32]  # Row, call or thread numbers, fewer than 2^31 of each; -1 for none.
Parents = npt.NDArray[np.int64] | npt.NDArray[np.int32]  # Per row the row number of its parent, -1 for none.
_Rows = TypeVar("_Rows", npt.NDArray[np.int64], npt.NDArray[np.int32])
_ROUNDS = 40
"""Levels climbed one at a time by rows still searching; deeper ones are resolved for all rows by pointer doubling."""


def nearest(parent: Parents, rows: _Rows, wanted: Mask) -> _Rows:
    """For each of ``rows`` (-1 for none) the row itself or its closest ancestor in ``wanted``, -1 if there is none.
    int32 rows give int32 results."""
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


def parent_within(parent: _Rows, some: Mask) -> Ints:
    """For each row in ``some``, in order: the index within ``some`` of its closest ancestor there, -1 for none."""
    above = nearest(parent, parent[some], some)
    return np.where(above >= 0, numbers_among(some)[above], -1).astype(np.int64)


def numbers_among(some: Mask) -> npt.NDArray[np.int32]:
    """The index of each row within ``some``; for the other rows, that of the last one in ``some`` before it."""
    numbers = np.cumsum(some, dtype=np.int32)
    numbers -= 1
    return numbers


def sum_below(parent: Ints, depth: Ints, values: npt.NDArray[np.int64 | np.bool_]) -> Ints:
    """Each row's value plus the values of all its descendants; a row's depth exceeds its parent's."""
    total = values.astype(np.int64)
    order = np.argsort(-depth, kind="stable")
    order = order[parent[order] >= 0]
    for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
        np.add.at(total, parent[level], total[level])
    return total


def crossings(host: pl.LazyFrame) -> int:
    """Number of slices that end after the slice in which they begin."""
    return int(host.select(pl.col("crosses").sum()).collect(engine="streaming").item() or 0)


def crossing_notes(count: int) -> tuple[str, ...]:
    """The note for every view that relies on the call tree."""
    if not count:
        return ()
    if count == 1:
        return ("1 host call ends after its caller; it is counted at top level.",)
    return (f"{count:,} host calls end after their callers; they are counted at top level.",)


def pack(thread: Ints | Rows, times: Ints) -> Ints:
    """One number per (thread, time) that sorts like the pair."""
    zero = int(times.min(initial=0))
    room = int(times.max(initial=0)) - zero + 2
    if (int(thread.max(initial=0)) + 1) * room < 2**62:
        return thread * np.int64(room) + (times - zero)
    ranks = np.unique(times, return_inverse=True)[1].astype(np.int64)
    return thread * (len(times) + 1) + ranks


def calls_where(host: pl.LazyFrame, inside: pl.Expr) -> pl.LazyFrame:
    """The host slices that match, with ``parent`` renumbered among them; null if the parent does not match."""
    rows = host.with_row_index("_row").filter(inside).with_row_index("_new").with_columns(pl.col("_row").cast(pl.Int64))
    moved = rows.select(pl.col("_row").alias("parent"), pl.col("_new").cast(pl.Int64))
    return rows.drop("_new").join(moved, on="parent", how="left", maintain_order="left").with_columns(
        parent="_new"
    ).drop("_row", "_new")


def _threads(*keys: Ints) -> npt.NDArray[np.int32]:
    number = numbered(*keys)
    return number.astype(np.int32) if number.any() else np.broadcast_to(np.int32(0), len(number))


def slices_of(run: Trace) -> HostSlices:
    """The host slices of a run, shared by all current users so that no column is read twice."""
    return run.share("host slices", lambda: HostSlices(run))


class HostSlices:
    """All slices of a run's host table, one entry per row; values that were not recorded are ``ABSENT``."""

    def __init__(self, run: Trace) -> None:
        self._run = run

    def read(self, also: Callable[[pl.DataFrame], None]) -> None:
        """Reads the most used columns in one pass, which takes half the time; ``also`` gets every batch."""
        ids, times = ("rank", "pid", "tid"), ("start_ns", "dur_ns")
        columns, unplaced, seen = Columns(("dur_ns", *ids)), [np.zeros(0, np.int64)], 0
        for batch in batches(self._run.host.select("name", "kind", *times, *ids)):
            columns.add(batch.select("name", "kind", *ids, *(pl.col(time).fill_null(0) for time in times)))
            if batch["start_ns"].null_count():
                unplaced.append(seen + batch["start_ns"].is_null().arg_true().to_numpy().astype(np.int64))
            seen += batch.height
            also(batch)
        self.unplaced = np.concatenate(unplaced)
        self.name, self.kind = columns.texts("name"), columns.texts("kind")
        self.start, self.dur = columns.numbers("start_ns"), columns.numbers("dur_ns")
        self.rank, self.thread = columns.numbers("rank"), _threads(*map(columns.numbers, ids))

    @cached_property
    def name(self) -> TextColumn:
        """Slice names as recorded."""
        return TextColumn.in_batches(self._run.host.select("name"))

    @cached_property
    def kind(self) -> TextColumn:
        """Kind of each slice."""
        return TextColumn.in_batches(self._run.host.select("kind"))

    @cached_property
    def start(self) -> Ints:
        """Start of each slice, ns; 0 if not recorded."""
        return self._numbers("start_ns", 0)

    @cached_property
    def unplaced(self) -> Ints:
        """The slices without a start."""
        rows = self._run.host.with_row_index("row").filter(pl.col("start_ns").is_null()).select("row")
        return rows.collect(engine="streaming")["row"].to_numpy().astype(np.int64)

    @cached_property
    def dur(self) -> Ints:
        """Duration of each slice, ns; 0 if not recorded. int32 if all values fit."""
        return self._numbers("dur_ns", 0, narrow=True)

    @cached_property
    def rank(self) -> Ints:
        """Rank of each slice's process."""
        return self._numbers("rank")

    @cached_property
    def parent(self) -> npt.NDArray[np.int32]:
        """Row of each slice's parent, the innermost slice around it; -1 for none."""
        return self._numbers("parent", -1, narrow=True).astype(np.int32, copy=False)

    @cached_property
    def thread(self) -> npt.NDArray[np.int32]:
        """Thread number of each slice, from 0, for its (rank, pid, tid)."""
        return _threads(*(self._numbers(key, narrow=True) for key in ("rank", "pid", "tid")))

    def ends(self, some: slice | Ints) -> Ints:
        """Ends of these slices, ns."""
        return self.start[some] + self.dur[some]

    def _numbers(self, column: str, absent: int = ABSENT, narrow: bool = False) -> Ints:
        return integer_arrays(self._run.host.select(pl.col(column).fill_null(absent)), *[column] * narrow)[column]

    def at(self, rows: Ints, column: str, absent: int = ABSENT) -> Ints:
        """The values of an integer column at these rows; no row may be -1."""
        return at_rows(self._run.host.select(pl.col(column).fill_null(absent)), rows)[column]

    def of_kind(self, *kinds: str) -> Mask:
        """Mask of the slices of these kinds."""
        return self.kind.where(kinds.__contains__)

    def named(self, condition: Callable[[str], object], among: Mask) -> Mask:
        """Mask of the slices in ``among`` whose name meets the condition."""
        return self.name.where(condition) & among

    def rows_named(self, condition: Callable[[str], object], *kinds: str) -> Ints:
        """The rows of the slices of these kinds whose name meets the condition."""
        rows = np.flatnonzero(self.name.where(condition))
        return rows[self.kind.where(kinds.__contains__, rows)]

    def names_of(self, rows: Ints) -> pl.Series:
        """The name at each row, null for -1."""
        if "name" not in self.__dict__:  # asked for nothing else of them: not worth numbering
            names = self._run.host.select("name").collect(engine="streaming")["name"]
            return names.gather(pl.Series(rows, dtype=pl.Int64).set(pl.Series(rows < 0), None))
        if not len(self.name.number):
            return gathered(self.name.distinct, rows)
        named = self.name.at(np.maximum(rows, 0))
        return named.set(pl.Series(rows < 0), None) if len(rows) and int(rows.min()) < 0 else named


class Calls(Struct, frozen=True):
    """Runtime and driver calls by start: host-table rows, times in ns, ids (``ABSENT`` if not recorded)."""

    row: Ints
    starts: Ints
    ends: Ints
    pid: Ints
    tid: Ints
    rank: Ints

    @property
    def outer(self) -> Ints:
        """For each call the outermost call of its thread in which it began, possibly itself."""
        thread = numbered(self.rank, self.pid, self.tid)
        key = pack(np.concatenate((thread, thread)), np.concatenate((self.starts, self.ends)))
        starts, ends = key[: len(thread)], key[len(thread) :]
        order = order_by(starts, -ends)
        last = np.arange(len(order))
        last[1:][starts[order[1:]] < np.maximum.accumulate(ends[order])[:-1]] = 0
        above = np.empty_like(order)
        above[order] = order[np.maximum.accumulate(last)]
        return above

    @property
    def outermost(self) -> Mask:
        """Mask of the calls that did not begin inside another call of their thread."""
        return np.asarray(self.outer == np.arange(len(self.row)))


_KEYS = ("pid", "tid", "rank")


def calls_of(run: Trace) -> Calls:
    """All runtime and driver calls with a start and a duration, by start."""
    columns = Columns(("row", *_KEYS))
    for batch in batches(_calls(run.host.with_row_index("row"))):
        columns.add(batch)
    return _by_start(columns)


def calls_and_slices(run: Trace) -> tuple[Calls, HostSlices]:
    """The calls and the host slices; most columns of the slices are read in the same pass."""
    columns, slices, begin = Columns(("row", *_KEYS)), slices_of(run), 0

    def add(batch: pl.DataFrame) -> None:
        nonlocal begin
        columns.add(_calls(batch.lazy().with_row_index("row", begin)).collect())
        begin += batch.height

    slices.read(add)
    return _by_start(columns), slices


def _calls(host: pl.LazyFrame) -> pl.LazyFrame:
    rows = host.filter(pl.col("kind").is_in(CALLS)).select("row", "start_ns", "dur_ns", *_KEYS)
    return rows.drop_nulls(["start_ns", "dur_ns"])


def _by_start(columns: Columns) -> Calls:
    starts = columns.numbers("start_ns")
    order = np.argsort(starts, kind="stable")
    row, spans, *keys = (in_order(columns.numbers(name), order) for name in ("row", "dur_ns", *_KEYS))
    starts = in_order(starts, order)
    return Calls(row, starts, starts + spans, *keys)
