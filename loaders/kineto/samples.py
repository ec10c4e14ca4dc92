"""Samples of counters and of memory, on their way to the table of metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dialect
from .allocations import device_name, device_numbers
from .columns import INSTANT_INTS, INSTANT_KEYS, NULL, Ints, integer, nanoseconds
from .tables import Tables

_BATCH = 50_000
_FEW = 64
_TOTALS, _ADDRESS = INSTANT_INTS.index("allocated"), INSTANT_INTS.index("address")


class Samples:
    """Collects rows of ``metrics`` and hands them to the tables in batches."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows: list[tuple[int, str, str | None, float, str, int, int]] = []
        self._instants: list[Ints] = []
        self._waiting = 0
        self.allocations = tables.allocations

    def add(self, event: dict[str, Any], samples: list[tuple[str, str | None, float, str]]) -> None:
        """What one event says: (metric, device, value, unit) each, at its time and in its process."""
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        self._add(nanoseconds(event.get("ts")), integer(event.get("pid")), args, samples)

    def memory(self, event: dict[str, Any]) -> None:
        """What one memory instant says: totals, and of which block."""
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        self.add(event, dialect.memory(args))
        self.allocations.add(event, args)

    def _add(self, ts: int, pid: int, args: dict[str, Any], samples: list[tuple[str, str | None, float, str]]) -> None:
        if ts == NULL:
            return
        self._take_instants()
        rank = integer(args.get("rank"))
        for metric, device, value, unit in samples:
            whole_machine = device is not None and device != "Host"
            self._rows.append((ts, metric, device, value, unit, NULL if whole_machine else pid, rank))
        if len(self._rows) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand over what was collected."""
        self._take_instants()
        self._flush_rows()

    def _flush_rows(self) -> None:
        if not self._rows:
            return
        ts, metric, device, value, unit, pid, rank = zip(*self._rows, strict=True)
        self._rows = []
        self._tables.sample({
            "ts_ns": np.array(ts, np.int64), "metric": self._numbers(metric), "device": self._numbers(device),
            "value": np.array(value, np.float64), "unit": self._numbers(unit), "pid": np.array(pid, np.int64),
            "rank": np.array(rank, np.int64),
        })  # fmt: skip

    def instants(self, numbers: Ints) -> None:
        """Take in memory instants by the columns of ``INSTANT_INTS``: what ``dialect.memory`` says of each.

        They wait until they are many, for each batch takes half a millisecond, however few are in it.
        """
        with_totals = numbers[0, (numbers[_TOTALS:_ADDRESS] != NULL).any(axis=0)]
        if with_totals.size:
            self._tables.begin(int(with_totals.min()))
        self._instants.append(numbers)
        self._waiting += numbers.shape[1]
        if self._waiting >= _BATCH:
            self._take_instants()

    def _take_instants(self) -> None:
        if not self._instants:
            return
        numbers = np.concatenate(self._instants, axis=1)
        self._instants, self._waiting = [], 0
        if numbers.shape[1] < _FEW:
            self._few(numbers)
        else:
            self._many(numbers)

    def _many(self, numbers: Ints) -> None:
        self._flush_rows()
        ts, pid, tid, rank, _, kind, index, *totals, change, address = numbers
        device = device_numbers(kind, index)
        self.allocations.add_all(ts, pid, tid, rank, device, change, address)
        recorded = np.stack(totals, axis=1) != NULL
        alone = ~recorded.any(axis=1) & (change != NULL)
        values, metrics = np.stack(totals, axis=1), np.empty(recorded.shape, np.int32)
        metrics[:] = self._numbers([metric for metric, _ in dialect.MEMORY_TOTALS])
        recorded[alone, 0], values[alone, 0] = True, change[alone]
        metrics[alone, 0] = self._numbers([dialect.MEMORY_CHANGE])
        event, which = np.nonzero(recorded)
        if not len(event):
            return
        device = device[event]
        distinct, inverse = np.unique(device, return_inverse=True)
        names = [device_name(number) for number in distinct.tolist()]
        self._tables.sample({
            "ts_ns": ts[event], "metric": metrics[event, which], "device": self._numbers(names)[inverse],
            "value": values[event, which].astype(np.float64), "unit": self._numbers(["B"]).repeat(len(event)),
            "pid": np.where(device >= 0, NULL, pid[event]), "rank": rank[event],
        })  # fmt: skip

    def _few(self, numbers: Ints) -> None:
        """One by one, so that they become no batch of their own."""
        if not numbers.shape[1]:
            return
        ts_, pid_, tid_, rank_, _, kind, index, *_, change, address = numbers
        self.allocations.add_all(ts_, pid_, tid_, rank_, device_numbers(kind, index), change, address)
        for ts, pid, _, rank, _, *values in numbers.T.tolist():
            recorded = zip(INSTANT_KEYS, values, strict=True)
            args = {key: value for key, value in recorded if value != NULL} | ({} if rank == NULL else {"rank": rank})
            self._add(ts, pid, args, dialect.memory(args))

    def _numbers(self, texts: Sequence[str | None]) -> npt.NDArray[np.int32]:
        code = self._tables.strings.code
        return np.array([-1 if text is None else code(text) for text in texts], np.int32)
