"""Records decoded by the compiled code: the same columns as ``arrays`` gives, several times sooner."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from ..native.functions import Native
from .block import Bytes, Column, Ints, RecordBlock, Unusual
from .layout import REAL, TEXT, WHOLE


class Records:
    """``arrays.decoded`` by other means: the same result, and Unusual where that raises it."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self._own = threading.local()

    def decoded(
        self, data: Bytes, cells: Ints, ends: Ints, most: int, ints: Sequence[int], texts: Sequence[int]
    ) -> RecordBlock:
        """The records that begin at ``cells`` and lie before ``ends``, none longer than ``most``. Raises Unusual."""
        wanted, rows = [*ints, *texts], len(cells)
        places = np.full(max(wanted, default=-1) + 1, -1, dtype=np.int32)
        places[wanted] = np.arange(len(wanted), dtype=np.int32)
        # New for each block: columns of polars are made of this memory, not of copies.
        values, rowids = np.empty((len(wanted), rows), dtype=np.int64), np.empty(rows, dtype=np.int64)
        starts, kinds = self._room(len(wanted), rows)
        kinds[: len(wanted), :rows] = WHOLE
        seen = np.zeros(len(wanted), dtype=np.uint8)
        if self._native.call("decode", data, cells, ends, most, places, values, starts, kinds, seen, rowids):
            raise Unusual
        columns = dict[int, Column]()
        for place, column in enumerate(wanted):
            kind = kinds[place, :rows]
            if column in texts:
                columns[column] = Column(values[place], kind == TEXT, starts[place, :rows])
            elif int(seen[place]) & ~WHOLE:
                real = kind == REAL
                raw = values[place] if real.any() else None
                columns[column] = Column(values[place], (kind & (WHOLE | REAL)) != 0, raw=raw, real=real)
            else:
                columns[column] = Column(values[place], np.ones(rows, dtype=bool))
        return RecordBlock(data, rowids, columns)

    def _room(self, columns: int, rows: int) -> tuple[Ints, Bytes]:
        """Where texts start and what kind each value is (shape: columns, rows), good until the thread asks again."""
        room: tuple[Ints, Bytes] | None = getattr(self._own, "room", None)
        if room is None or room[1].shape[0] < columns or room[1].shape[1] < rows:
            size = max(columns, room[1].shape[0] if room else 0), max(rows, room[1].shape[1] if room else 0)
            self._own.room = room = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.uint8)
        return room
