"""Which runtime call launched a device activity, and which operator made that call.

Activity and call share a correlation id; call and operator share an external id. Where a call has no external id at all
it belongs to the innermost operator running on its thread; an id of 0 says that the recorder knew of none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from ...loaders.schema import NAME

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

CALLS = ("runtime", "driver")
"""Kinds of host slices that put work on a device."""
_ROOMY = 8
"""Ids that leave at most so much room between them are looked up in a table."""
_BLOCK = 1 << 17
ABSENT = np.iinfo(np.int64).min
"""Stands for a null id in arrays of ids."""


def numbered(*keys: Ints) -> Ints:
    """A number from 0 for each distinct tuple of keys, in their order."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        if _is_constant(key):
            continue
        number, count = _ranked(key)
        if count > 1:
            code = _ranked(code * count + number)[0]
    return code


def by_number(numbers: Ints) -> list[Ints]:
    """The rows of each of the ``numbered``, in their order."""
    if not len(numbers) or int(numbers.max()) == int(numbers.min()):
        return [np.arange(len(numbers))] if len(numbers) else []
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def of_devices(ranks: Ints, devices: Ints) -> list[tuple[str | None, int | None, Ints]]:
    """Device and rank of some rows (by categorical code), and which rows: by rank, then name, those without first."""
    found = []
    for rows in by_number(numbered(ranks, devices)):
        device = values_at(devices, rows[:1]).cast(pl.UInt32).cat.to(NAME)[0]
        rank = int(ranks[rows[0]])
        found.append((device, None if rank == ABSENT else rank, rows))
    return sorted(found, key=lambda one: (one[1] is not None, one[1] or 0, one[0] is not None, one[0] or ""))


def _ranked(key: Ints) -> tuple[Ints, int]:
    """The place of each key among the distinct ones in order, and how many those are."""
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
    """The ids as numbers, ``ABSENT`` for null. A column with one value takes no room."""
    lacking = column.null_count()
    if lacking == len(column) or (not lacking and column.min() == column.max()):
        return np.broadcast_to(np.int64(column[0] if lacking < len(column) else ABSENT), len(column))
    return column.fill_null(ABSENT).to_numpy()


def _is_constant(key: Ints) -> bool:
    return len(key) < 2 or key.strides == (0,)


def gathered(values: pl.Series, rows: Ints) -> pl.Series:
    """The value at each of the rows, null for -1."""
    if not len(values):
        return pl.Series(values.name, [None] * len(rows), dtype=values.dtype)
    found = values.gather(pl.Series(np.maximum(rows, 0)))
    return found.set(pl.Series(rows < 0), None) if len(rows) and int(rows.min()) < 0 else found


def in_order(values: Ints, order: Ints) -> Ints:
    """The values at these rows; those that are all the same still take no room."""
    return np.broadcast_to(values[0], len(order)) if values.strides == (0,) and len(values) else values[order]


def values_at(values: Ints, rows: Ints) -> pl.Series:
    """The number at each of the rows, null for -1 and where it is ``ABSENT``."""
    found = values[np.maximum(rows, 0)].astype(np.int64) if len(values) else np.full(len(rows), ABSENT)
    found[rows < 0] = ABSENT
    lacking = found == ABSENT
    return pl.Series(found).set(pl.Series(lacking), None) if lacking.any() else pl.Series(found)


def match(keys: tuple[Ints, Ints], among: tuple[Ints, Ints]) -> Ints:
    """For each (rank, id) the first row of ``among`` with the same, -1 where none is or the id is ``ABSENT``."""
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
    """``match`` by a table with a place for every id from ``low`` to ``high``; recorders count ids up.

    A block at a time: arrays for all rows at once took 100 MB for 1.2 million operators and 0.9 million launches.
    """
    table, first = np.full(high - low + 2, -1, dtype=np.int32), np.int64(low)  # so that no difference is too wide
    for at in range(0, len(have), _BLOCK)[::-1]:
        rows = np.flatnonzero(is_there[at : at + _BLOCK])[::-1] + at  # the first of several rows is written last
        table[have[rows] - first] = rows
    found = np.empty(len(wanted), dtype=np.int64)
    for at in range(0, len(wanted), _BLOCK):
        some = wanted[at : at + _BLOCK]
        inside = asked[at : at + _BLOCK] & (some >= low) & (some <= high)
        found[at : at + _BLOCK] = table[np.where(inside, some - first, high - low + 1)]
    return found


def _joint(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The (rank, id) pairs of both as single numbers that are equal where the pairs are."""
    if _is_constant(one[0]) and _is_constant(other[0]) and np.array_equal(one[0][:1], other[0][:1]):
        return one[1], other[1]
    ranks = np.concatenate((one[0], other[0]))
    if (ranks == ranks[:1]).all():
        return one[1], other[1]
    numbers = np.concatenate((one[1], other[1]))
    number, count = _ranked(numbers)
    joint = _ranked(ranks)[0] * count + number
    return joint[: len(one[0])], joint[len(one[0]) :]
