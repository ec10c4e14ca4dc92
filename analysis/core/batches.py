"""Reading tables in batches into compact integer columns, and numbering and joining those by id.

A long recording's table does not fit in memory beside the result: with 4.3 M host slices, calls and their ids take 20
MB this way instead of 54, and name and kind 3 bytes per row instead of 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME, columns_of
from .quantiles import Codes

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

CALLS = ("runtime", "driver")  # Kinds of host slices that launch device work.
SCHEDULED = ("on CPU", "oncpu", "runq")  # Names of ``sched`` slices recorded by the scheduler, not calls.
_ROOMY = 8  # Ids are looked up in a table if their range is at most this many times their count.
_BLOCK = 1 << 17
_FEW = 5  # Up to this many texts, rows are compared with each one.
ABSENT = np.iinfo(np.int64).min  # Stands for a null id in integer arrays.


def numbered(*keys: Ints) -> Ints:
    """A number from 0 for each distinct tuple of keys, in sorted order."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        if _is_constant(key):
            continue
        number, count = _ranked(key)
        if count > 1:
            code = _ranked(code * count + number)[0]
    return code


def by_number(numbers: Ints) -> list[Ints]:
    """The rows of each number given by ``numbered``, in order."""
    if not len(numbers) or int(numbers.max()) == int(numbers.min()):
        return [np.arange(len(numbers))] if len(numbers) else []
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def rows_by_device(ranks: Ints, devices: Ints) -> list[tuple[str | None, int | None, Ints]]:
    """(device, rank, rows) per device, from categorical codes: sorted by rank, then name, missing ones first."""
    result = []
    for rows in by_number(numbered(ranks, devices)):
        device = values_at(devices, rows[:1]).cast(pl.UInt32).cat.to(NAME)[0]
        rank = int(ranks[rows[0]])
        result.append((device, None if rank == ABSENT else rank, rows))
    return sorted(result, key=lambda one: (one[1] is not None, one[1] or 0, one[0] is not None, one[0] or ""))


def _ranked(key: Ints) -> tuple[Ints, int]:
    """The rank of each key among the distinct keys, from 0, and the number of distinct keys."""
    if not len(key):
        return key, 0
    low, high = int(key.min()), int(key.max())
    if low == high:
        return np.zeros(len(key), dtype=np.int64), 1
    if high - low >= _ROOMY * len(key) + _ROOMY:
        distinct, number = np.unique(key, return_inverse=True)
        return number.astype(np.int64), len(distinct)
    there = np.zeros(high - low + 1, dtype=bool)
    there[key - low] = True
    place = np.cumsum(there)
    return place[key - low] - 1, int(place[-1])


def ids(column: pl.Series) -> Ints:
    """The ids as integers, ``ABSENT`` for null. A column with a single value takes no memory."""
    lacking = column.null_count()
    if lacking == len(column) or (not lacking and column.min() == column.max()):
        return np.broadcast_to(np.int64(column[0] if lacking < len(column) else ABSENT), len(column))
    return (column.fill_null(ABSENT) if lacking else column).to_numpy()


def _is_constant(key: Ints) -> bool:
    return len(key) < 2 or key.strides == (0,)


def gathered(values: pl.Series, rows: Ints) -> pl.Series:
    """The value at each row, null for -1."""
    if not len(values):
        return pl.Series(values.name, [None] * len(rows), dtype=values.dtype)
    result = values.gather(pl.Series(np.maximum(rows, 0)))
    return result.set(pl.Series(rows < 0), None) if len(rows) and int(rows.min()) < 0 else result


def in_order(values: Ints, order: Ints) -> Ints:
    """The values in that order; a column with a single value still takes no memory."""
    return np.broadcast_to(values[0], len(order)) if values.strides == (0,) and len(values) else values[order]


def values_at(values: Ints, rows: Ints) -> pl.Series:
    """The number at each row, null for -1 and for ``ABSENT``."""
    result = values[np.maximum(rows, 0)].astype(np.int64) if len(values) else np.full(len(rows), ABSENT)
    result[rows < 0] = ABSENT
    lacking = result == ABSENT
    return pl.Series(result).set(pl.Series(lacking), None) if lacking.any() else pl.Series(result)


def match(keys: tuple[Ints, Ints], among: tuple[Ints, Ints]) -> Ints:
    """For each (rank, id) the first row of ``among`` with the same pair; -1 if none or the id is ``ABSENT``."""
    have, wanted = _joint(among, keys)
    there = among[1] != ABSENT
    real = have if there.all() else have[there]
    low, high = (int(real.min()), int(real.max())) if len(real) else (0, -1)
    if high - low < _ROOMY * (len(have) + len(wanted)) + _ROOMY:
        return _looked_up(have, wanted, there, keys[1] != ABSENT, low, high)
    order = np.argsort(have, kind="stable")
    ranked = have[order]
    at = np.searchsorted(ranked, wanted, side="left")
    inside = np.minimum(at, max(len(ranked) - 1, 0))
    if not len(ranked):
        return np.full(len(wanted), -1, dtype=np.int64)
    hit = (at < len(ranked)) & (ranked[inside] == wanted) & (keys[1] != ABSENT)
    return np.where(hit, order[inside], -1)


def _looked_up(
    have: Ints, wanted: Ints, is_there: npt.NDArray[np.bool_], asked: npt.NDArray[np.bool_], low: int, high: int
) -> Ints:
    """``match`` by a lookup table over the ids ``low``…``high``, since recorders number ids consecutively. In blocks:
    arrays over all rows at once took 100 MB for 1.2 million operators and 0.9 million launches."""
    table, first = np.full(high - low + 2, -1, dtype=np.int32), np.int64(low)  # so that no difference overflows
    for at in range(0, len(have), _BLOCK)[::-1]:
        rows = np.flatnonzero(is_there[at : at + _BLOCK])[::-1] + at  # reversed: the first of several rows wins
        table[have[rows] - first] = rows
    result = np.empty(len(wanted), dtype=np.int64)
    for at in range(0, len(wanted), _BLOCK):
        some = wanted[at : at + _BLOCK]
        inside = asked[at : at + _BLOCK] & (some >= low) & (some <= high)
        result[at : at + _BLOCK] = table[np.where(inside, some - first, high - low + 1)]
    return result


def _joint(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The (rank, id) pairs of both as single numbers, equal exactly where the pairs are."""
    if _is_constant(one[0]) and _is_constant(other[0]) and np.array_equal(one[0][:1], other[0][:1]):
        return one[1], other[1]
    ranks = np.concatenate((one[0], other[0]))
    if (ranks == ranks[:1]).all():
        return one[1], other[1]
    numbers = np.concatenate((one[1], other[1]))
    number, count = _ranked(numbers)
    joint = _ranked(ranks)[0] * count + number
    return joint[: len(one[0])], joint[len(one[0]) :]


_LOW, _HIGH = np.iinfo(np.int32).min, np.iinfo(np.int32).max


def batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows in order, about 100,000 at a time."""
    collect = getattr(frame, "collect_batches", None)  # unstable API of polars: without it all rows come at once
    yield from [frame.collect(engine="streaming")] if collect is None else collect(maintain_order=True)


def integer_arrays(frame: pl.LazyFrame, *narrow: str) -> dict[str, Ints]:
    """Integer columns as arrays, ``ABSENT`` for null. A column with a single value takes no memory. ``narrow`` columns
    hold ids, which are compared but not summed: int32 if the values fit."""
    columns = Columns(narrow)
    for batch in batches(frame):
        columns.add(batch)
    return {name: columns.numbers(name) for name in columns_of(frame).names()}


def at_rows(frame: pl.LazyFrame, rows: Ints) -> dict[str, Ints]:
    """The values of integer columns at these rows, in any order, ``ABSENT`` for null."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    result = {name: np.empty(len(rows), dtype=np.int64) for name in columns_of(frame).names()}
    first = 0
    for batch in batches(frame) if len(rows) else ():
        low, high = np.searchsorted(ordered, (first, first + batch.height))
        places = ordered[low:high] - first
        for column in batch if high > low else ():
            result[column.name][order[low:high]] = ids(column)[places]
        first += batch.height
    return {name: _in_no_room(values) for name, values in result.items()}


def _in_no_room(values: Ints) -> Ints:
    """The values; if all are equal, as a broadcast array that takes no memory."""
    is_one = len(values) and bool((values == values[0]).all())
    return np.broadcast_to(values[0], len(values)) if is_one else values


def _width(values: Ints) -> type[np.signedinteger]:
    return np.int32 if int(values.min()) >= _LOW and int(values.max()) <= _HIGH else np.int64


def in_one(pieces: Sequence[Ints]) -> Ints:
    """The pieces of a column, concatenated; a column with a single value still takes no memory."""
    pieces = [piece for piece in pieces if len(piece)]
    if not pieces:
        return np.zeros(0, dtype=np.int64)
    value = pieces[0][0]
    if all(piece.strides == (0,) and piece[0] == value for piece in pieces):
        return np.broadcast_to(value, sum(map(len, pieces)))
    return np.concatenate(pieces)


class Columns:
    """Collects columns batch by batch into arrays no wider than their values need."""

    def __init__(self, narrow: Sequence[str] = ()) -> None:
        self._narrow, self._pieces = narrow, dict[str, list[Any]]()

    def add(self, batch: pl.DataFrame) -> None:
        """Appends the next rows."""
        for column in batch if batch.height else ():
            if column.dtype == NAME:
                codes = (column.to_physical().cast(pl.UInt32) + 1).fill_null(0).to_numpy()
                values: Codes = codes.astype(np.min_scalar_type(codes.max()))
            else:
                values = ids(column)
                # a copy: a view would keep the whole batch in memory
                if values.strides != (0,):
                    values = values.astype(_width(values) if column.name in self._narrow else np.int64)
            self._pieces.setdefault(column.name, []).append(values)

    def numbers(self, name: str) -> Ints:
        """An integer column, as from the function ``numbers``."""
        return in_one(self._pieces.get(name, []))

    def texts(self, name: str) -> TextColumn:
        """A categorical column."""
        return TextColumn.of_codes(name, self._pieces.get(name, []))


class TextColumn(Struct, frozen=True):
    """``distinct`` texts (categorical, in code order, null last), and per row its ``number`` among them."""

    distinct: pl.Series
    texts: tuple[str | None, ...]
    number: Codes

    @classmethod
    def of(cls, column: pl.Series) -> TextColumn:
        """From a categorical series."""
        columns = Columns()
        columns.add(column.to_frame())
        return columns.texts(column.name)

    @classmethod
    def of_codes(cls, name: str, pieces: Sequence[Codes]) -> TextColumn:
        """From a categorical column of that name, given as its codes plus one; 0 is null."""
        there = np.zeros(1 + max((int(piece.max()) for piece in pieces), default=0), dtype=bool)
        for piece in pieces:
            there |= np.bincount(piece, minlength=len(there)) > 0
        present = np.append(np.flatnonzero(there[1:]) + 1, np.zeros(int(there[0]), dtype=np.int64))
        number = np.zeros(len(there), dtype=np.min_scalar_type(len(present)))
        number[present] = np.arange(len(present))
        codes = pl.Series(name, np.maximum(present, 1) - 1).set(pl.Series(present == 0), None)
        distinct = codes.cast(pl.UInt32).cat.to(NAME)
        return cls(distinct, tuple(distinct.cast(pl.String)), np.concatenate(
            [number[:0], *(number[piece] for piece in pieces)]))

    @classmethod
    def in_batches(cls, frame: pl.LazyFrame) -> TextColumn:
        """From the only column, categorical, of a frame; only the numbers are ever in memory as a whole. For 4.3 M
        names that is 9 MB, instead of a peak of 45 MB."""
        columns = Columns()
        for batch in batches(frame):
            columns.add(batch)
        return columns.texts(columns_of(frame).names()[0])

    def where(self, condition: Callable[[str], object], rows: Ints | slice = slice(None)) -> npt.NDArray[np.bool_]:
        """Mask of the rows (all or the given ones) whose text meets the condition; null never does. A few texts are
        compared one by one: of 4.8 M rows one text takes 2 ms and five 35 ms; the lookup table for more takes 50 ms."""
        holds = np.array([text is not None and bool(condition(text)) for text in self.texts], dtype=bool)
        number = self.number[rows]
        if np.count_nonzero(holds) > _FEW:
            return holds[number]
        result = np.zeros(len(number), dtype=bool)
        for one in np.flatnonzero(holds).tolist():
            result |= number == one
        return result

    def mapped(self, number_of: Callable[[str | None], int]) -> npt.NDArray[np.int8]:
        """A small integer per row, computed from its text."""
        return np.array([number_of(text) for text in self.texts], dtype=np.int8)[self.number]

    def at(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> pl.Series:
        """The text at each row, or at each row of a mask, as a categorical column."""
        return self.distinct.gather(pl.Series(self.number[rows]))
