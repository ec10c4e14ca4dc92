"""Records decoded with array operations, all rows of some pages at once, column by column.

The type of a value is its code in the header of its record (https://sqlite.org/fileformat2.html, section 2.1): 1 to 6
are integers of growing width, 7 is a floating-point number, 8 and 9 are the numbers 0 and 1 without a byte; from 12 on
even codes are bytes and odd ones text, whose length the code says. Indices are clipped to the data where they are taken
from it, and only at the end, when all sizes are known, is it certain that they were right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Unusual(Exception):
    """Something this reader leaves to SQLite."""


class Column:
    """A decoded column: ``values`` (of text: lengths, from ``starts``), ``valid`` where not null.

    Where a number is stored as a floating one (``real``), its bits are in ``raw``.
    """

    __slots__ = ("raw", "real", "starts", "valid", "values")

    def __init__(
        self, values: Ints, valid: Mask, starts: Ints | None = None, raw: Ints | None = None, real: Mask | None = None
    ) -> None:
        self.values, self.valid, self.starts, self.raw, self.real = values, valid, starts, raw, real

    def integers(self) -> Ints:
        """The values as integers. Raises Unusual where some are none."""
        if self.raw is not None:
            raise Unusual
        return self.values

    def floats(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The values as floating-point numbers."""
        if self.raw is None or self.real is None:
            return self.values.astype(np.float64)
        return np.where(self.real, self.raw.view(np.float64), self.values)


class RecordBlock:
    """Records in order: their row numbers, and the wanted columns by their positions in the table."""

    def __init__(self, data: Bytes, rowids: Ints, columns: dict[int, Column]) -> None:
        self.data, self.rowids, self.columns = data, rowids, columns
        self.rows = len(rowids)

    def text(self, column: int) -> list[str | None]:
        """The texts of a column; bytes that are no UTF-8 become replacement characters."""
        column_values = self.columns[column]
        assert column_values.starts is not None
        data = self.data.tobytes()
        starts, lengths = column_values.starts.tolist(), column_values.values.tolist()
        return [
            str(data[start : start + length], "utf-8", "replace") if valid else None
            for start, length, valid in zip(starts, lengths, column_values.valid.tolist(), strict=True)
        ]


PAD = 16
"""Bytes behind the pages, so that eight can be read where one is."""
_NULL, _REAL, _ONE, _LENGTHS = 0, 7, 9, 12
"""Codes; ``_LENGTHS`` is the first one that says a length."""
_SIZES = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0], dtype=np.int64)
"""Bytes of a value by its code, up to 11."""
_SHIFTS = np.array([63, 56, 48, 40, 32, 24, 16, 8, 0], dtype=np.int64)


def decoded(data: Bytes, cells: Ints, ends: Ints, limit: int, ints: Sequence[int], texts: Sequence[int]) -> RecordBlock:
    """The records that begin at ``cells`` and lie before ``ends``, none longer than ``most``. Raises Unusual."""
    rows, columns = len(cells), dict[int, Column]()
    payload, at = _varint(data, cells)
    if rows and int(payload.max()) > limit:
        raise Unusual  # a record that continues on another page
    rowids, at = _varint(data, at)
    if rows and bool((at + payload > ends).any()):
        raise Unusual
    header, pos = _varint(data, at)
    body, header_end, end = at + header, at + header, at + payload
    words = np.ndarray((len(data) - 7,), dtype=">i8", buffer=data.data, strides=(1,))
    for column in range(max((*ints, *texts), default=-1) + 1):
        code: Ints | Bytes = data.take(pos, mode="clip")
        lowest, most_code = (int(code.min()), int(code.max())) if rows else (0, 0)
        if most_code >= _LENGTHS:
            code, pos = _varint(data, np.minimum(pos, len(data) - PAD))
            size: Ints | int = np.where(code >= _LENGTHS, (code - _LENGTHS) >> 1, _SIZES.take(code, mode="clip"))
        else:
            size = int(_SIZES[lowest]) if lowest == most_code else _SIZES.take(code, mode="clip")
            pos += 1
        if column in texts:
            columns[column] = Column(np.broadcast_to(size, code.shape), (code >= _LENGTHS) & (code % 2 == 1), body)
        elif column in ints:
            same = lowest if lowest == most_code < _LENGTHS else None
            columns[column] = _numbers(words, body, size, code, same)
        if not isinstance(size, int) or size:
            body = body + size
        if most_code >= _LENGTHS and bool((body > end).any()):
            raise Unusual
    # Everything above took indices clipped to the block; only now are they known to have been right.
    if rows and (bool((pos > header_end).any()) or bool((body > end).any())):
        raise Unusual  # a record of fewer columns than the table has: altered after it was written
    return RecordBlock(data, rowids, columns)


def _numbers(
    words: np.ndarray[Any, Any], body: Ints, size: Ints | int, code: Ints | Bytes, same: int | None
) -> Column:
    """Integers of any width: eight bytes are taken, and the ones too many shifted out with the sign kept.

    ``same`` is the code of all rows where they have the same, which most columns do.
    """
    if same is not None and size == 0:
        return Column(np.full(len(code), same == _ONE, dtype=np.int64), np.full(len(code), same != _NULL))
    raw = words[np.minimum(body, len(words) - 1)].astype(np.int64)
    value = raw >> _SHIFTS.take(size, mode="clip")
    if same is not None:
        real = np.full(len(code), same == _REAL)
        return Column(value, np.ones(len(code), dtype=bool), raw=raw if same == _REAL else None, real=real)
    constant = size == 0
    if bool(np.any(constant)):
        value[constant] = code[constant] == _ONE
    real = code == _REAL
    return Column(value, (code != _NULL) & (code < _LENGTHS), raw=raw if bool(real.any()) else None, real=real)


def _varint(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """SQLite's variable-length integers at these positions, and the positions behind them."""
    value = data[at].astype(np.int64)
    at = at + 1
    more = np.flatnonzero(value >= 128)
    if len(more):
        value[more] &= 127
    for _ in range(7):
        if not len(more):
            return value, at
        byte = data[at[more]]
        value[more] = value[more] << 7 | (byte & 127)
        at[more] += 1
        more = more[byte >= 128]
    if len(more):
        raise Unusual  # nine bytes: no length, type or row number is that large
    return value, at
