"""Rows of one table between reader and file, as numpy columns of the narrowest sufficient dtype.

Most integers of a recording fit into 32 bits, and a column without values is left out. That halves the memory of
pending rows and the bytes to compress; first-touch page faults are the most expensive part of a load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..recording.faults import BACKWARDS, NO_NUMBER, NO_TIME, OUT_OF_RANGE, ROUNDED, SINCE_BOOT
from ..schema_limits import LATEST_NS, LONGEST_NS
from .columns import FAR_TIME, FLOATS, NO_TIME_TEXT, NULL, ROUNDED_TIME, Floats, Ints

MISSING = -(1 << 31)  # The ``NULL`` of 32-bit columns.

Column = npt.NDArray[Any]
TEXTS = "name metric unit grid block collective process_group group_ranks dtype kernel shapes types inputs".split()
"""String columns, stored as codes into ``Strings``; -1 for missing."""


class Chunk(Struct, frozen=True):
    """Rows as columns by name; columns without values are left out. Integers are Int64 with ``NULL`` or Int32 with
    ``MISSING`` for missing values, floats have NaN, ``TEXTS`` are codes. Times are absolute, ``offset`` may be UInt32,
    ``kind`` is an index into ``dialect.KINDS``."""

    rows: int
    columns: dict[str, Column]

    @property
    def bytes(self) -> int:
        """Memory of the columns."""
        return sum(column.nbytes for column in self.columns.values())


class Basis(Struct, frozen=True):
    """Values common to all rows: ``origin``, the zero of their times (absolute ns); ``pids``, (rank, launching pid);
    ``rank`` of rows that record none (None in ``pids`` means those rows); ``word``, the prefix of device names."""

    origin: int = 0
    pids: tuple[tuple[int | None, int], ...] = ()
    rank: int | None = None
    word: str = ""


def chunk(wide: dict[str, Column]) -> Chunk:
    """A Chunk of scanned columns; views are copied."""
    stored = {name: _compact(name, values) for name, values in wide.items()}
    rows = len(next(iter(wide.values())))
    return Chunk(rows, {name: values for name, values in stored.items() if values is not None})


def floats_of(floats: Floats) -> dict[str, Column]:
    """The columns of ``Block.floats`` as Float32, the occupancy as a fraction instead of a percentage."""
    with np.errstate(over="ignore"):  # values beyond Float32 become infinite
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
    """Concatenate rows of one table from the same block and sort them into file order."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: np.concatenate([run[name] for run in parts]) for name in parts[0]}
    order = np.argsort(columns["offset"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def joined(chunks: Sequence[Chunk], name: str) -> Column | None:
    """One column of several chunks, concatenated in their widest dtype; None if no chunk has it."""
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
    """The sentinel for a missing number in a column of this dtype."""
    if column.dtype.kind == "f":
        return np.nan
    return MISSING if column.dtype == np.int32 else NULL


def marked_times(ts: Ints, dur: Ints, wrong: Counter[tuple[str, str]]) -> npt.NDArray[np.bool_] | None:
    """Sets durations that are none to NULL, counts every time that is none by column and reason, and returns which
    events have no start; None if all have one."""
    low, high = int(dur.min()), int(dur.max())
    if low < 0 or high > LONGEST_NS:
        recorded = dur != NULL
        reasons = ((NO_NUMBER, dur == NO_TIME_TEXT), (ROUNDED, dur == ROUNDED_TIME),
                   (OUT_OF_RANGE, (dur == FAR_TIME) | (dur > LONGEST_NS)), (BACKWARDS, (dur < 0) & (dur > FAR_TIME)))
        for reason, rows in reasons:
            wrong["dur", reason] += int(np.count_nonzero(rows & recorded))
        dur[(dur < 0) | (dur > LONGEST_NS)] = NULL
    low, high = int(ts.min()), int(ts.max())
    if low > 0 and high <= LATEST_NS:
        return None
    absent, text, rounded = ts == NULL, ts == NO_TIME_TEXT, ts == ROUNDED_TIME
    positive = ts[ts > 0]
    since_boot = len(positive) > 0 and int(positive.min()) > SINCE_BOOT
    zero = (ts == 0) if since_boot else np.zeros(len(ts), np.bool_)
    far = ((ts < -LATEST_NS) | (ts > LATEST_NS)) & ~absent & ~text & ~rounded
    for reason, rows in ((NO_NUMBER, text), (ROUNDED, rounded), (NO_TIME, zero), (OUT_OF_RANGE, far)):
        wrong["ts", reason] += int(np.count_nonzero(rows))
    timeless: npt.NDArray[np.bool_] = absent | text | rounded | zero | far
    return timeless if timeless.any() else None
