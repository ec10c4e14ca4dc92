"""Rows of one table on their way from a reader to a file: numpy columns no wider than what is in them.

Most numbers of a recording fit 32 bits, and a column in which every value is missing need not be there. That halves
what waits in memory and what is compressed, and memory nobody has touched yet is the dearest thing a load asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .columns import FLOATS, NULL, Floats, Ints

MISSING = -(1 << 31)  # ``NULL`` of columns of 32 bits.

Column = npt.NDArray[Any]
TEXTS = "name metric unit grid block collective process_group group_ranks dtype kernel shapes types inputs".split()
"""Columns of texts, as their numbers in ``Strings``, -1 for missing."""


class Chunk(Struct, frozen=True):
    """Some rows: columns by name, those without a value left out. Integers are Int64 with ``NULL`` or Int32 with
    ``MISSING`` for missing, times absolute, ``offset`` may be UInt32; texts as in ``TEXTS``; ``kind`` is a number of
    ``dialect.KINDS``; floats have NaN."""

    rows: int
    columns: dict[str, Column]

    @property
    def bytes(self) -> int:
        """Memory taken."""
        return sum(column.nbytes for column in self.columns.values())


class Basis(Struct, frozen=True):
    """The time rows count from (absolute ns), the pid that launched them by rank, the rank, what devices are called.
    ``rank`` is that of rows which do not say theirs; None in ``pids`` stands for those too."""

    origin: int = 0
    pids: tuple[tuple[int | None, int], ...] = ()
    rank: int | None = None
    word: str = ""


def chunk(wide: dict[str, Column]) -> Chunk:
    """The rows of columns as scanned, which may be views and are copied."""
    stored = {name: _compact(name, values) for name, values in wide.items()}
    rows = len(next(iter(wide.values())))
    return Chunk(rows, {name: values for name, values in stored.items() if values is not None})


def floats_of(floats: Floats) -> dict[str, Column]:
    """The columns of ``Block.floats``, the occupancy as a share, Float32."""
    with np.errstate(over="ignore"):  # what is too large for any occupancy becomes infinite
        return {
            name: (values / 100 if name == "occupancy" else values).astype(np.float32)
            for name, values in zip(FLOATS, floats, strict=True)
        }


def _compact(name: str, values: Column) -> Column | None:
    if name == "offset":
        return values.astype(np.uint32) if int(values.max()) < 1 << 32 else values.copy()
    if values.dtype == np.int64 and name not in ("start_ns", "ts_ns"):
        return _narrow(values)
    if values.dtype.kind == "f":
        return None if bool(np.isnan(values).all()) else values.copy()
    if name in TEXTS and int(values.max()) < 0:
        return None
    return values.copy()


def _narrow(values: Ints) -> Column | None:
    high = int(values.max())
    if high == NULL:
        return None
    if high >= -MISSING:
        return values.copy()
    low = int(values.min())
    if low > MISSING:
        return values.astype(np.int32)
    if low == NULL and np.count_nonzero(values <= MISSING) == np.count_nonzero(values == NULL):
        return np.maximum(values, MISSING).astype(np.int32)
    return values.copy()


def merged(parts: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """Rows of one table from one stretch of the file, in its order."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: np.concatenate([run[name] for run in parts]) for name in parts[0]}
    order = np.argsort(columns["offset"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def joined(chunks: Sequence[Chunk], name: str) -> Column | None:
    """One column of several chunks, as wide as the widest; None where no chunk has it."""
    columns = [each.columns.get(name) for each in chunks]
    present = [column for column in columns if column is not None]
    if not present or len(columns) == 1:
        return present[0] if present else None
    out = np.empty(sum(each.rows for each in chunks), np.result_type(*present))
    at = 0
    for column, each in zip(columns, chunks, strict=True):
        window = out[at : at + each.rows]
        at += each.rows
        if column is None:
            window[:] = -1 if name in TEXTS else missing(out)
        else:
            window[:] = column
            if column.dtype == np.int32 and out.dtype == np.int64:
                window[column == MISSING] = NULL
    return out


def missing(column: Column) -> Any:
    """What stands for a missing number in a column of this type."""
    if column.dtype.kind == "f":
        return np.nan
    return MISSING if column.dtype == np.int32 else NULL
