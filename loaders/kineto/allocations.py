"""Memory blocks, one row each, from the ``[memory]`` instants of their allocation and free.

A block is identified by device and address. A free without a recorded allocation means the block existed before the
recording; a block that is never freed is held to the end. Instants record no Python stack: the thread is kept, and its
slices at that time give the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..schema_limits import LATEST_NS
from .columns import NULL, Ints

if TYPE_CHECKING:
    import polars as pl

MOST = 2_000_000  # With more instants no blocks are built, only sums, so that memory stays bounded.
_LARGEST = 1 << 50  # Bytes of a block; a larger size is damage.
HOST, NOBODY = -1, -2  # In place of a device number: the host; not recorded.
_IDS = ("pid", "tid", "rank", "device")
_COLUMNS = ("ts", "change", "address", *_IDS)
_INT32 = np.iinfo(np.int32)


def device_numbers(kind: Ints, index: Ints) -> Ints:
    """Device number of each instant: ``HOST`` for device type 0, ``NOBODY`` if not recorded."""
    return np.where(kind == 0, HOST, np.where(index >= 0, index, NOBODY))


def device_name(number: int) -> str | None:
    """The device name used in the tables; None for ``NOBODY``."""
    return None if number == NOBODY else "Host" if number == HOST else f"GPU {number}"


class Allocations:
    """Collects memory instants in file order and builds the table ``allocations``."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: tuple[list[Ints], ...] = tuple([] for _ in _COLUMNS)

    def add(self, ts: Ints, pid: Ints, tid: Ints, rank: Ints, device: Ints, change: Ints, address: Ints) -> None:
        """Add instants in file order; ``device`` as returned by ``device_numbers``."""
        self.count += len(ts)
        columns = ts, change, address, pid, tid, rank, device
        for name, parts, values in zip(_COLUMNS, self._parts, columns, strict=True):
            if self.count > MOST:
                parts.clear()
            elif len(ts):
                parts.append(_narrow(values) if name in _IDS else values.copy())

    @property
    def beyond(self) -> int:
        """The number of instants if it exceeds ``MOST``, else 0."""
        return self.count if self.count > MOST else 0

    def table(self, origin: int, rank: int | None) -> pl.LazyFrame:
        """The table ``allocations``, times from ``origin``; empty without instants or with more than ``MOST``."""
        from .. import schema

        if not self._parts[0] or self.beyond:
            return schema.empty("allocations")
        import polars as pl

        columns = {}
        for name, parts in zip(_COLUMNS, self._parts, strict=True):
            columns[name] = _in_one(parts)
            parts.clear()
        plausible = _plausible(columns)
        if not plausible.all():
            columns = {name: values[plausible] for name, values in columns.items()}
        blocks = _blocks(columns, origin)
        numbers, inverse = np.unique(blocks.pop("device"), return_inverse=True)
        names = pl.Series([device_name(number) for number in numbers.tolist()], dtype=pl.String)
        frame = pl.DataFrame(blocks).with_columns(
            pl.when(pl.col(name) != NULL).then(pl.col(name)).alias(name) for name in blocks
        ).with_columns(
            names.gather(pl.Series(inverse)).alias("device"), pl.col("rank").fill_null(pl.lit(rank, pl.Int64))
        )
        return schema.conform("allocations", frame.lazy())


def _narrow(values: Ints) -> Ints:
    """A compact copy: broadcast if constant, else Int32 if it fits. Most instants have one pid and few tids."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.broadcast_to(np.int64(low), len(values))
    return values.astype(np.int32 if _INT32.min <= low and high <= _INT32.max else np.int64)


def _in_one(parts: list[Ints]) -> Ints:
    value = parts[0][0]
    if all(run.strides == (0,) and run[0] == value for run in parts):
        return np.broadcast_to(value, sum(map(len, parts)))
    return np.concatenate(parts)


def _plausible(columns: dict[str, Ints]) -> npt.NDArray[np.bool_]:
    """Mask of instants with an address, a plausible time, and a nonzero size of at most ``_LARGEST`` bytes."""
    change, ts = columns["change"], columns["ts"]
    complete = (change != NULL) & (change != 0) & (columns["address"] != NULL) & (ts != NULL)
    near = np.abs(np.maximum(ts, NULL + 1)) <= LATEST_NS
    plausible: npt.NDArray[np.bool_] = complete & near & (np.abs(np.maximum(change, NULL + 1)) <= _LARGEST)
    return plausible


def _blocks(rows: dict[str, Ints], origin: int) -> dict[str, npt.NDArray[np.int64]]:
    """One entry per block by allocation time, blocks from before the recording first. Empties ``rows``."""
    order = np.lexsort((rows["ts"], rows["address"], rows["device"]))

    def sorted_column(name: str) -> Ints:
        return rows.pop(name)[order].astype(np.int64, copy=False)

    ts, change, address, device = (sorted_column(name) for name in ("ts", "change", "address", "device"))
    together = (address[1:] == address[:-1]) & (device[1:] == device[:-1])
    follows, precedes = np.append(together, False), np.append(False, together)
    begins, allocated = change > 0, np.append(False, change[:-1] > 0) & precedes
    # an allocation at the address of a live block: its free was not recorded, as live blocks never share an address
    until = np.where(follows, np.append(ts[1:], NULL), NULL)
    before = ~begins & ~allocated
    start = np.where(before, NULL, ts - origin)
    row_numbers = np.flatnonzero(begins | before)
    row_numbers = row_numbers[np.argsort(start[row_numbers], kind="stable")]
    ts, change, until, before = (values[row_numbers] for values in (ts, change, until, before))
    columns = {
        "start_ns": start[row_numbers],
        "dur_ns": np.where(before, np.maximum(ts - origin, 0), np.where(until == NULL, NULL, until - ts)),
        "bytes": np.abs(change), "device": device[row_numbers], "address": address[row_numbers],
    }  # fmt: skip
    for name in ("pid", "tid"):
        columns[name] = np.where(before, NULL, sorted_column(name)[row_numbers])
    return columns | {"rank": sorted_column("rank")[row_numbers]}
