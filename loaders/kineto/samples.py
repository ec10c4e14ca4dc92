"""Collects counter and memory samples for the table ``metrics``."""

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
_TOTALS, _ADDRESS = INSTANT_INTS.index("allocated"), INSTANT_INTS.index("address")


class Samples:
    """Collects rows of ``metrics`` and adds them to the tables in batches, because each addition takes 0.5 ms however
    few its rows. Counter samples are in file order among themselves, and so are memory samples."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows: list[tuple[int, str, str | None, float, str, int, int]] = []
        self._instants: list[Ints] = []
        self._single_instants: list[tuple[int, ...]] = []
        self._waiting = 0

    def add(self, event: dict[str, Any], samples: list[tuple[str, str | None, float, str]]) -> None:
        """Add the samples of one event, (metric, device, value, unit) each, with the event's time and pid."""
        if (ts := nanoseconds(event.get("ts"))) == NULL:
            return
        args = event.get("args")
        rank = integer(args.get("rank")) if isinstance(args, dict) else NULL
        for metric, device, value, unit in samples:
            of_process = device is None or device == "Host"
            pid = integer(event.get("pid")) if of_process else NULL
            self._rows.append((ts, metric, device, value, unit, pid, rank))
        if len(self._rows) >= _BATCH:
            self._flush_counters()

    def memory(self, event: dict[str, Any]) -> None:
        """Add one memory instant decoded by itself: totals, change and address. Numbers written as text are ignored."""
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if (ts := nanoseconds(event.get("ts"))) != NULL:
            where = (integer(value) for value in (event.get("pid"), event.get("tid"), args.get("rank")))
            values = ((key, args.get(key)) for key in INSTANT_KEYS)
            amounts = (NULL if type(value) is str else integer(value, key != "Addr") for key, value in values)
            self._single_instants.append((ts, *where, NULL, *amounts))
            self._count(1)

    def instants(self, numbers: Ints) -> None:
        """Add memory instants, an array with the rows ``INSTANT_INTS``."""
        with_totals = numbers[0, (numbers[_TOTALS:_ADDRESS] != NULL).any(axis=0)]
        if with_totals.size:
            self._tables.begin(int(with_totals.min()))
        self._join_single()
        self._instants.append(numbers)
        self._count(numbers.shape[1])

    def flush(self) -> None:
        """Add everything collected so far to the tables."""
        self._flush_instants()
        self._flush_counters()

    def _count(self, instants: int) -> None:
        self._waiting += instants
        if self._waiting >= _BATCH:
            self._flush_instants()

    def _join_single(self) -> None:
        if self._single_instants:
            self._instants.append(np.array(self._single_instants, np.int64).T)
            self._single_instants = []

    def _flush_counters(self) -> None:
        if not self._rows:
            return
        ts, metric, device, value, unit, pid, rank = zip(*self._rows, strict=True)
        self._rows = []
        self._tables.sample({
            "ts_ns": np.array(ts, np.int64), "metric": self._numbers(metric), "device": self._numbers(device),
            "value": np.array(value, np.float64), "unit": self._numbers(unit), "pid": np.array(pid, np.int64),
            "rank": np.array(rank, np.int64),
        })  # fmt: skip

    def _flush_instants(self) -> None:
        self._join_single()
        if not self._waiting:
            return
        numbers = np.concatenate(self._instants, axis=1)
        self._instants, self._waiting = [], 0
        ts, pid, tid, rank, _, kind, index, *totals, change, address = numbers
        device = device_numbers(kind, index)
        self._tables.allocations.add(ts, pid, tid, rank, device, change, address)
        values, metrics = np.stack(totals, axis=1), np.empty((len(ts), len(totals)), np.int32)
        recorded = values != NULL
        change_only = ~recorded.any(axis=1) & (change != NULL)
        metrics[:] = self._numbers([metric for metric, _ in dialect.MEMORY_TOTALS])
        recorded[change_only, 0], values[change_only, 0] = True, change[change_only]
        metrics[change_only, 0] = self._numbers([dialect.MEMORY_CHANGE])
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

    def _numbers(self, texts: Sequence[str | None]) -> npt.NDArray[np.int32]:
        code = self._tables.strings.code
        return np.array([-1 if text is None else code(text) for text in texts], np.int32)
