"""Polling: a host thread that waits for a kernel without a call, by reading memory until the kernel has written it.

Nothing records such a wait. It shows as a hole between two calls of a thread that ends when a kernel does which the
call before the hole launched; once or twice that is chance, so a kernel counts from the third time on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.call_tree import HostSlices, Ints, calls_of
from ..core.callers import call_rows
from ..core.derived import derived
from ..core.intervals import union
from ..core.quantiles import order_by

HOLE_NS, RUNS_ON_NS, NEAR_NS, TIMES = 500_000, 300_000, 100_000, 3
"""Least length of a hole; least time its kernel runs on after the call; largest distance of the hole's end from the
kernel's (on either side); and how often a kernel must be waited for."""
_SCHEMA = {
    "row": pl.Int64, "call": pl.Int64, "from_ns": pl.Int64, "to_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.String,
}


class Polls(Struct, frozen=True):
    """``frame`` has one row per polled wait, by begin: ``row`` of the kernels table and ``name`` of what was waited
    for, ``call``, the host row of the call that launched it, the wait ``from_ns`` ``to_ns``, and ``end_ns`` of the
    kernel."""

    frame: pl.DataFrame

    @property
    def facts(self) -> list[dict[str, Any]]:
        """``name count ns`` of every kernel that is polled for, most time first."""
        sums = self.frame.group_by("name").agg(
            count=pl.len().cast(pl.Int64), ns=(pl.col("to_ns") - pl.col("from_ns")).sum())
        return sums.sort("ns", "name", descending=[True, False]).to_dicts()


def polls_of(run: Trace) -> Polls:
    """The polled waits of a run, cached."""
    return run.remember("polls", (), lambda: Polls(derived(run, "polls", lambda: _polls(run))))


def _polls(run: Trace) -> pl.DataFrame:
    nothing = pl.DataFrame(schema=_SCHEMA)
    calls = calls_of(run) if run.has("host") and run.has("kernels") else None
    if calls is None or not len(calls.row):
        return nothing
    outer = calls.outer
    own = np.flatnonzero(outer == np.arange(len(outer)))
    thread = np.unique(np.stack((calls.rank, calls.pid, calls.tid)), axis=1, return_inverse=True)[1].reshape(-1)
    own = own[order_by(thread[own], calls.starts[own])]
    before, after = own[:-1], own[1:]
    hole = (thread[before] == thread[after]) & (calls.starts[after] - calls.ends[before] >= HOLE_NS)
    if hole.sum() < TIMES:
        return nothing
    holes = pl.DataFrame({
        "outer": before[hole], "call": calls.row[before[hole]], "from_ns": calls.ends[before[hole]],
        "to_ns": calls.starts[after[hole]],
    })
    number = np.full(int(calls.row.max()) + 1, -1, dtype=np.int64)
    number[calls.row] = outer
    launch = call_rows(run)
    launch = np.where((launch >= 0) & (launch < len(number)), number[np.clip(launch, 0, len(number) - 1)], -1)
    some = np.flatnonzero(np.isin(launch, before[hole]))
    launched = pl.DataFrame({"row": some, "outer": launch[some]}).join(holes, on="outer", how="left")
    kernels = run.kernels.select(
        pl.col("kind", "name").cast(pl.String), end_ns=pl.col("start_ns") + pl.col("dur_ns"),
    ).with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).join(
        launched.lazy(), on="row", how="inner").filter(pl.col("kind").is_in(["kernel", "collective"])).drop_nulls()
    waits = kernels.filter(
        pl.col("end_ns") - pl.col("from_ns") >= RUNS_ON_NS,
        (pl.col("to_ns") - pl.col("end_ns")).abs() <= NEAR_NS,
    ).collect(engine="streaming").sort("end_ns").unique("outer", keep="last")
    return waits.filter(pl.len().over("name") >= TIMES).sort("from_ns").select(
        pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def unseen_ns(slices: HostSlices, calls: Ints, polls: Polls, marks: pl.DataFrame) -> int:
    """Time (ns) in holes of the host in which no call, operator, Python function or annotation was recorded on any
    thread, and which are no polled waits. ``calls``: host rows of the calls; ``marks``: recorded cycles, which are
    annotations, whichever table has them."""
    some = slices.of_kind("op", "python", "annotation", "dataloader", "io")
    some[calls] = True
    rows = np.flatnonzero(some)
    if not len(rows):
        return 0
    known = union(
        np.concatenate((slices.start[rows], polls.frame["from_ns"].to_numpy(), marks["start_ns"].to_numpy())),
        np.concatenate((slices.ends(rows), polls.frame["to_ns"].to_numpy(),
                        (marks["start_ns"] + marks["dur_ns"]).to_numpy())))
    holes = known.starts[1:] - known.ends[:-1]
    return int(holes[holes >= HOLE_NS].sum())
