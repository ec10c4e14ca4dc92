"""The runtime and driver calls of a run, by start."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from .batches import numbers
from .call_tree import pack
from .launch_calls import CALLS, Ints, in_order, numbered


class Calls(Struct, frozen=True):
    """Runtime and driver calls by start: rows of the host table, times in ns, ids ``ABSENT`` where not recorded."""

    row: Ints
    starts: Ints
    ends: Ints
    correlation: Ints
    external_id: Ints
    pid: Ints
    tid: Ints
    rank: Ints

    @property
    def outermost(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which calls did not begin inside another call of their thread."""
        thread = numbered(self.rank, self.pid, self.tid)
        key = pack(np.concatenate((thread, thread)), np.concatenate((self.starts, self.ends)))
        starts, ends = key[: len(thread)], key[len(thread) :]
        order = np.lexsort((-ends, starts))
        outer = np.ones(len(order), dtype=bool)
        outer[order[1:]] = starts[order[1:]] >= np.maximum.accumulate(ends[order])[:-1]
        return outer


def calls_of(run: Trace) -> Calls:
    """Every runtime and driver call of the run with a start and a duration, by start."""
    keys = ("correlation", "external_id", "pid", "tid", "rank")
    found = numbers(
        run.host.with_row_index("row").filter(pl.col("kind").is_in(CALLS)).select("row", "start_ns", "dur_ns", *keys)
        .drop_nulls(["start_ns", "dur_ns"]), "row", *keys,
    )
    order = np.argsort(found["start_ns"], kind="stable")
    row, starts, spans = (in_order(found[name], order) for name in ("row", "start_ns", "dur_ns"))
    return Calls(row, starts, starts + spans, *(in_order(found[name], order) for name in keys))
