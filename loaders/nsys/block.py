"""Decoded records of some pages: what either way to decode them gives."""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Unusual(Exception):
    """Something this reader leaves to SQLite."""


class Column:
    """One decoded column of a block: ``values`` (of text: how long it is, from ``starts``), ``valid`` where not null.

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
