"""Columns as arrays for the account, and keys of (process, id) pairs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ..schema import columns_of

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
NONE = np.iinfo(np.int64).min  # Stands for null.


def integers(frame: pl.DataFrame, name: str, none: int = NONE) -> Ints:
    """An integer column, ``none`` for null."""
    return _numbers(frame[name], none)


def column_arrays(frame: pl.LazyFrame) -> dict[str, Ints]:
    """Integer columns as arrays, ``NONE`` for null, read in batches so that only the arrays are in memory. A column
    with a single value takes none."""
    names = columns_of(frame).names()
    return joined(batches_of(frame, [(None, names)]), [names], ())[0]


def batches_of(
    frame: pl.LazyFrame, groups: Sequence[tuple[pl.Expr | None, Sequence[str]]]
) -> Iterator[list[dict[str, Ints]]]:
    """The table in batches: for each condition on rows (None: all) the columns asked for."""
    batches = getattr(frame, "collect_batches", None)  # unstable API of polars: without it all rows come at once
    for batch in [frame.collect(engine="streaming")] if batches is None else batches(maintain_order=True):
        rows = [np.arange(batch.height) if condition is None else np.flatnonzero(batch.select(condition).to_series())
                for condition, _ in groups]
        columns = batch.to_dict()
        del batch
        arrays: list[dict[str, Ints]] = [{} for _ in groups]
        while columns:  # each column goes once its values are taken
            name, column = columns.popitem()
            values = _numbers(column)
            for at, (_, names), taken in zip(rows, groups, arrays, strict=True):
                if name in names:
                    taken[name] = values[at]
        yield arrays


def joined(
    batches: Iterable[list[dict[str, Ints]]], groups: Sequence[Sequence[str]], narrow: Container[str]
) -> list[dict[str, Ints]]:
    """The columns of each group of rows whole, from batches; ``narrow`` columns are int32 if the values fit."""
    pieces: list[dict[str, list[Ints]]] = [{name: [] for name in names} for names in groups]
    for batch in batches:
        for arrays, of_group in zip(batch, pieces, strict=True):
            for name, values in arrays.items():
                if len(values):
                    of_group[name].append(_packed(values, np.int32 if name in narrow else np.int64))
    return [{name: _whole(of_group.pop(name)) for name in names}
            for names, of_group in zip(groups, pieces, strict=True)]


def _numbers(column: pl.Series, none: int = NONE) -> Ints:
    if column.dtype == pl.Categorical:
        column = column.to_physical()
    return column.cast(pl.Int64).fill_null(none).to_numpy()


def _packed(values: Ints, dtype: type) -> Ints:
    if values.strides == (0,):
        return values
    if values[0] == values[-1] and (values == values[0]).all():
        return np.broadcast_to(np.int64(values[0]), len(values))
    fits = dtype == np.int64 or (int(values.min()) > -(1 << 31) and int(values.max()) < 1 << 31)
    return values.astype(dtype, copy=False) if fits else values


def _whole(pieces: list[Ints]) -> Ints:
    if not pieces:
        return np.zeros(0, dtype=np.int64)
    if all(piece.strides == (0,) and piece[0] == pieces[0][0] for piece in pieces):
        return np.broadcast_to(pieces[0][0], sum(map(len, pieces)))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def in_order(values: Ints, order: Ints | None) -> Ints:
    """The values of these rows; those with a single value still take no memory."""
    if order is None:
        return values
    if values.strides == (0,) and len(values):
        return np.broadcast_to(values[0], len(order))
    return values[order]


def by_start(start: Ints, end: Ints) -> Ints:
    """The order by start, of equal ones the longest first; recorders write long sorted runs."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((rows, -end[rows], start[rows]))]
    return order


def matches(codes: Ints, texts_of: Callable[[pl.Series], pl.Series], conditions: dict[str, Callable[[str], Any]]
            ) -> dict[str, Mask]:
    """Which rows of a categorical column, as codes, have a text that meets each condition, asked once per text."""
    numbers = [code for code in np.unique(codes).tolist() if code != NONE]
    texts = texts_of(pl.Series(numbers, dtype=pl.UInt32)).cast(pl.String).to_list()
    size = 2 + max(numbers, default=0)
    result = {}
    rows = np.where(codes == NONE, size - 1, codes)
    for key, condition in conditions.items():
        table = np.zeros(size, dtype=bool)
        for number, text in zip(numbers, texts, strict=True):
            if text is not None:
                table[number] = bool(condition(text))
        result[key] = table[rows]
    return result


def keyed(process: tuple[Ints, ...], values: tuple[Ints, ...]) -> tuple[Ints, ...]:
    """One number per (process, value) in each pair of arrays, equal across the arrays exactly where the pairs are;
    ``NONE`` where the value is. Of one process the values themselves."""
    some = [one for one in process if len(one)]
    if not some or min(one.min() for one in some) == max(one.max() for one in some):
        return values
    number = np.unique(np.concatenate(process), return_inverse=True)[1].astype(np.int64)
    distinct, place = np.unique(np.concatenate(values), return_inverse=True)
    joint = number * np.int64(len(distinct) + 1) + place
    joint[np.concatenate(values) == NONE] = NONE
    return tuple(np.split(joint, np.cumsum([len(one) for one in values])[:-1]))


class Groups:
    """Rows by key, ``NONE`` keys left out: ``order`` has the rows by key (in given order within one), ``first`` and
    ``count`` describe the group of each distinct key."""

    def __init__(self, keys: Ints) -> None:
        self.order = some = np.flatnonzero(keys != NONE)
        ordered = keys[some]
        if (ordered[1:] < ordered[:-1]).any():  # most recorders count ids upwards
            self.order = some[np.argsort(ordered, kind="stable")]
            ordered = keys[self.order]
        other = ordered[1:] != ordered[:-1]
        if other.all():  # most recorders use an id once
            self.keys, self.first = ordered, np.arange(len(ordered))
            self.count = np.broadcast_to(np.int64(1), len(ordered))
            return
        heads = np.flatnonzero(np.append(True, other))
        self.keys, self.first = ordered[heads], heads
        self.count = np.diff(heads, append=len(ordered))

    def find(self, keys: Ints) -> Ints:
        """The group of each key, -1 for none."""
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int64)
        low, high = int(self.keys[0]), int(self.keys[-1])
        if high - low < 4 * len(self.keys):  # ids count upwards: a look-up takes half the time of a search
            group = np.full(high - low + 2, -1, dtype=np.int32)
            group[self.keys - low] = np.arange(len(self.keys), dtype=np.int32)
            return group[np.where((keys >= low) & (keys <= high), keys - low, -1)].astype(np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where((self.keys[at] == keys) & (keys != NONE), at, -1)

    def numbers(self) -> Ints:
        """The group of each row of ``order``."""
        return np.repeat(np.arange(len(self.first)), self.count)

    def only(self, keys: Ints) -> Ints:
        """The row of the group of each key if the group has one row only, else -1."""
        group = self.find(keys)
        if not len(self.first):
            return group
        alone = (group >= 0) & (self.count[group] == 1)
        return np.where(alone, self.order[self.first[np.maximum(group, 0)]], -1)


def numbered(*keys: Ints) -> Ints:
    """A number for each distinct tuple of keys."""
    number = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        if len(key) and not (key == key[0]).all():
            distinct, place = np.unique(key, return_inverse=True)
            number = np.unique(number * len(distinct) + place, return_inverse=True)[1].astype(np.int64)
    return number


def rows_of(rows: Ints, at: Ints) -> pl.Series:
    """The host row at each position, null for -1."""
    found = rows[np.maximum(at, 0)] if len(rows) else at
    return pl.select(pl.when(pl.Series(at >= 0)).then(pl.Series(found.astype(np.int32)))).to_series()


def values_of(values: Ints, at: Ints) -> pl.Series:
    """The value at each position, null for -1 and ``NONE``."""
    found = np.where(at >= 0, values[np.maximum(at, 0)], NONE) if len(values) else np.full(len(at), NONE)
    return pl.select(pl.when(pl.Series(found != NONE)).then(pl.Series(found))).to_series()
