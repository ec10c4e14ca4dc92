"""Numbers that are near their neighbours, as 64-bit ones are that count nanoseconds, in half the memory.

Moments rise along a recording: within a block of rows they span seconds, and an offset from the least of the block
fits 32 bits. What must stay true: every value comes back exactly, in the dtype it had.
"""

from __future__ import annotations

from typing import Any

import polars as pl

SHIFT = 16
"""A block is this power of two of rows."""


class Offsets:
    """A column as the least value of each block and unsigned 32-bit offsets from it. Made by ``of``."""

    def __init__(self, name: str, dtype: pl.DataType, least: Any, offsets: Any) -> None:
        self._name, self._dtype, self._least, self._offsets = name, dtype, least, offsets

    @classmethod
    def of(cls, values: pl.Series) -> Offsets | None:
        """The column so kept; None where it is not of 64-bit integers, has nulls, or a block spans too much."""
        import numpy as np

        if values.dtype not in (pl.Int64, pl.UInt64) or values.null_count() or not len(values):
            return None
        raw = values.to_numpy()
        starts = np.arange(0, len(raw), 1 << SHIFT)
        least = np.minimum.reduceat(raw, starts)
        if (np.maximum.reduceat(raw, starts) - least).view(np.uint64).max() >= 1 << 32:
            return None
        offsets = np.empty(len(raw), dtype=np.uint32)
        for at, low in zip(starts.tolist(), least, strict=True):
            offsets[at : at + (1 << SHIFT)] = raw[at : at + (1 << SHIFT)] - low
        return cls(values.name, values.dtype, least, offsets)

    def whole(self) -> pl.Series:
        """All values."""
        import numpy as np

        made = np.empty(len(self._offsets), dtype=self._least.dtype)
        for block, low in enumerate(self._least):
            part = slice(block << SHIFT, (block + 1) << SHIFT)
            np.add(self._offsets[part], low, out=made[part], dtype=made.dtype)
        return pl.Series(self._name, made, dtype=self._dtype)

    def gather(self, ids: pl.Series) -> pl.Series:
        """The values of the rows with those numbers, in that order."""
        rows = ids.to_numpy()
        return pl.Series(self._name, self._offsets[rows] + self._least[rows >> SHIFT], dtype=self._dtype)
