"""Host intervals and calls from a single pass over the host slices, the longest table and the slowest to read."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.batches import ABSENT, CALLS, TextColumn, batches, ids, in_one, in_order
from ..core.intervals import EMPTY, Intervals, Ints, joined, union
from ..operators.tree import DATA_LOADER

COMMUNICATION = re.compile(r"(nccl|gloo):")
"""Host slices that request a collective; kernels launched under them are communication, whatever their name."""
_STEP = re.compile(r"ProfilerStep#")
_OPS = ("op", "annotation", "dataloader")
_LOADS, _ASKS, _MARKS = 1, 2, 4


class RuntimeCalls(Struct, frozen=True):
    """Runtime and driver calls sorted by start, times in ns; ``ABSENT`` where not recorded."""

    starts: Ints
    dur: Ints
    rank: Ints

    @property
    def timed(self) -> RuntimeCalls:
        """The calls with a duration."""
        has_duration = self.dur != ABSENT
        return self if has_duration.all() else self.at(np.flatnonzero(has_duration))

    def at(self, rows: Ints) -> RuntimeCalls:
        """The calls at these rows, in that order."""
        return RuntimeCalls(*(in_order(getattr(self, name), rows) for name in RuntimeCalls.__struct_fields__))


class HostTimes(Struct, frozen=True):
    """Intervals in which the host waits for data, or is in another operator; and its calls. Slices that request
    communication are operators like others: that is host time. ``requesting``: their rows of the host table."""

    loader: Intervals
    op: Intervals
    requesting: Ints
    calls: RuntimeCalls

    @property
    def any(self) -> bool:
        """Whether any of the intervals was recorded; ignores calls."""
        return bool(len(self.loader.starts) or len(self.op.starts))


def host_times(run: Trace) -> HostTimes:
    """Host intervals and calls of the run."""
    columns = ("row", "name", "kind", "start_ns", "dur_ns", "rank")
    moments: list[list[Intervals]] = [[], []]
    requesting: list[Ints] = []
    calls: list[RuntimeCalls] = []
    flags_of = cache(_name_flags)  # most names of a batch occurred in earlier batches
    for rows in batches(run.host.with_row_index("row").filter(pl.col("kind").is_in([*_OPS, *CALLS])).select(columns)):
        names, kinds = TextColumn.of(rows["name"]), TextColumn.of(rows["kind"])
        flags, is_call = names.mapped(flags_of), kinds.where(CALLS.__contains__)
        starts, dur = ids(rows["start_ns"]), ids(rows["dur_ns"])
        asking = kinds.where("op".__eq__) & (flags & _ASKS > 0)
        requesting.append(rows["row"].filter(pl.Series(asking)).cast(pl.Int64).to_numpy())
        loads = kinds.where("dataloader".__eq__) | (flags & _LOADS > 0)
        operator = kinds.where("op".__eq__) & (flags & _MARKS == 0)
        group = np.select([loads, operator], [0, 1], -1)
        group[is_call | (starts == ABSENT) | (dur == ABSENT)] = -1
        for number, parts in enumerate(moments):
            matching = group == number
            parts.append(union(starts[matching], starts[matching] + dur[matching]))
        result = np.flatnonzero(is_call & (starts != ABSENT))
        calls.append(RuntimeCalls(starts, dur, ids(rows["rank"])).at(result))
    every = RuntimeCalls(*(in_one([getattr(some, name) for some in calls]) for name in RuntimeCalls.__struct_fields__))
    loader, op = (joined(parts) if parts else EMPTY for parts in moments)
    by_start = every.at(np.argsort(every.starts, kind="stable"))
    return HostTimes(loader, op, in_one(requesting), by_start)


def _name_flags(name: str | None) -> int:
    """Flags from a slice's name: loads data, requests communication, marks a step."""
    patterns = {_LOADS: DATA_LOADER, _ASKS: COMMUNICATION, _MARKS: _STEP}
    return 0 if name is None else sum(sign for sign, pattern in patterns.items() if pattern.match(name))
