"""The ranks of a job on one clock: that of the first rank, as in the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import Trace
from .arrivals import arrivals_of, recorded_clock

_TIMES = {"kernels": "start_ns", "host": "start_ns", "cycles": "start_ns", "metrics": "ts_ns",
          "allocations": "start_ns", "call_chains": "start_ns", "profile": "cycle_start_ns"}


def clocks_of(run: Trace) -> dict[int, int]:
    """How far each rank's clock is ahead of the first rank's, ns; ranks whose clock is unknown are left out."""
    if len(run.info.ranks) < 2 or not run.has("kernels"):
        return {}
    arrivals = arrivals_of(run)
    standing = dict.fromkeys(run.info.ranks, 0) if recorded_clock(run) else {}
    return standing | {
        one.rank: round(offset)
        for one, offset in zip(arrivals.members, arrivals.clocks.on_first.tolist(), strict=True)
        if one.rank is not None and not isnan(offset)
    }


def ahead(clocks: Mapping[int, int]) -> pl.Expr:
    """How far the clock of a row's ``rank`` is ahead of the first rank's, ns; 0 for a rank that ``clocks`` lacks:
    it keeps its own zero."""
    if not any(clocks.values()):
        return pl.lit(0)
    return pl.col("rank").replace_strict(clocks, default=0, return_dtype=pl.Int64).fill_null(0)


def on_first_clock(run: Trace, clocks: Mapping[int, int]) -> Trace:
    """The run with the times of all ranks on the clock of the first; ``clocks`` as from ``clocks_of``."""
    if not any(clocks.values()):
        return run
    shifted = {name: run.table(name).with_columns(pl.col(time) - ahead(clocks)) for name, time in _TIMES.items()}
    return replace(run, part_of=None).with_tables(**shifted)  # of its own: its times are not those of a parent
