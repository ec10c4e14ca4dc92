"""The rows of a table some at a time, and columns of numbers made of them that take no more room than they need.

A long recording's table does not fit beside the answer that is made of it. What is read in batches is freed, or
narrowed, before the next one comes: of 4.3 M host slices the calls and their ids then take 20 MB instead of 54.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from .launch_calls import Ints, ids

_LOW, _HIGH = np.iinfo(np.int32).min, np.iinfo(np.int32).max


def batches(frame: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows in their order, some 100,000 at a time."""
    collect = getattr(frame, "collect_batches", None)  # polars calls it unstable: without it all rows come at once
    yield from [frame.collect(engine="streaming")] if collect is None else collect(maintain_order=True)


def numbers(frame: pl.LazyFrame, *narrow: str) -> dict[str, Ints]:
    """Columns of whole numbers as arrays, ``ABSENT`` for null. One with a single value takes no room.

    ``narrow`` ones are ids, which are compared and not added up: of 32 bits where they fit these.
    """
    pieces: dict[str, list[Ints]] = {name: [] for name in frame.collect_schema().names()}
    for batch in batches(frame):
        for column in batch if batch.height else ():
            values = ids(column)
            # a copy, for what is left of a batch keeps all of its memory from being used again
            if values.strides != (0,):
                values = values.astype(_width(values) if column.name in narrow else np.int64)
            pieces[column.name].append(values)
    return {name: in_one(some) for name, some in pieces.items()}


def at_rows(frame: pl.LazyFrame, rows: Ints) -> dict[str, Ints]:
    """The values of columns of whole numbers at these rows, in any order, ``ABSENT`` for null."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    found = {name: np.empty(len(rows), dtype=np.int64) for name in frame.collect_schema().names()}
    first = 0
    for batch in batches(frame) if len(rows) else ():
        low, high = np.searchsorted(ordered, (first, first + batch.height))
        places = ordered[low:high] - first
        for column in batch if high > low else ():
            found[column.name][order[low:high]] = ids(column)[places]
        first += batch.height
    return {name: _in_no_room(values) for name, values in found.items()}


def _in_no_room(values: Ints) -> Ints:
    """The values; where all are the same, in no room."""
    is_one = len(values) and bool((values == values[0]).all())
    return np.broadcast_to(values[0], len(values)) if is_one else values


def _width(values: Ints) -> type[np.signedinteger]:
    return np.int32 if int(values.min()) >= _LOW and int(values.max()) <= _HIGH else np.int64


def in_one(pieces: Sequence[Ints]) -> Ints:
    """The pieces of a column one after the other; where all have one value it still takes no room."""
    pieces = [piece for piece in pieces if len(piece)]
    if not pieces:
        return np.zeros(0, dtype=np.int64)
    value = pieces[0][0]
    if all(piece.strides == (0,) and piece[0] == value for piece in pieces):
        return np.broadcast_to(value, sum(map(len, pieces)))
    return np.concatenate(pieces)
