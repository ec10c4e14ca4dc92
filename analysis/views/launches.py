"""Launches: every device activity in the order it was recorded, with who launched it and in which cycle.

The recorded columns stay on disk, so that five million rows open at once; only the derived ones (operator, module,
frame, cycle) are in memory. A ``sync`` is not a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.column import Column
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core.callers import FRAME as CALLER_COLUMNS
from ..core.callers import callers_of, capture_facts, links_of
from ..cycles.scope import scoped
from ..cycles.whole import MANY, cycle_of
from ..kernels.peak_shares import SHARES, shares_of_launches

COLUMNS = (
    Column("index", "#", "count", "recorded order, from 0", width=7, order=0, pinned=True, role="order"),
    Column("start_ns", "start", "ns", "start, from the start of the trace; empty without timestamps", width=12, order=4,
           role="moment"),
    Column("dur_ns", "duration", "ns", "duration", width=9, order=0, role="time"),
    Column("name", "kernel", "text", "short form of the name; the details show it as recorded", width=34,
           order=0, elastic=True, pinned=True, role="name"),
    Column("kind", "kind", "text", "kernel, collective, memcpy or memset", width=10, order=7, role="where"),
    Column("device", "device", "text", "device it ran on; empty where not recorded", width=7, order=3, role="where"),
    Column("stream", "stream", "number", "stream or queue", width=6, order=5, role="where"),
    Column("tensor", "tensor", "fraction", "tensor-core utilisation, share of peak", width=12, order=2, bar="tensor",
           estimate="tensor_of_peak", of="of tensor-core peak"),
    Column("dram", "DRAM", "fraction", "DRAM throughput, share of peak", width=12, order=2, bar="dram",
           estimate="memory_of_peak", of="of DRAM peak"),
    Column("grid", "grid", "text", "blocks in the grid as x,y,z", width=12, order=8),
    Column("block", "block", "text", "threads in a block as x,y,z", width=10, order=9),
    Column("op", "operator", "text", "operator that launched it; empty where not recorded", width=22, order=3,
           role="label"),
    Column("op_forward", "forward operator", "text", "forward operator of this backward operator", width=20, order=11,
           role="label"),
    Column("module", "module", "text", "module that called the operator or its forward operator", width=20, order=10,
           role="label"),
    Column("frame", "Python line", "text", "innermost Python frame around it outside the framework", width=28, order=5,
           role="name"),
    Column("launch_ns", "launched", "ns", "start of the call that launched it", width=10, order=None, role="moment"),
    Column("cycle", "cycle", "number", "cycle in which it was launched; empty outside all cycles", width=6, order=9),
    Column("rank", "rank", "number", "rank of the job", width=5, order=9),
    Column("correlation", "corr", "number", "correlation id, shared with the call that launched it", width=9,
           order=None),
    Column("compute_of_peak", "of compute", "fraction", "achieved FLOP/s, share of peak, from the FLOPs of its "
           "operator", width=11, order=None, of="of peak FLOP/s"),
    Column("memory_of_peak", "of memory", "fraction", "achieved B/s, share of peak, from the bytes of its operator",
           width=11, order=None, of="of peak B/s"),
    Column("tensor_of_peak", "of tensor", "fraction", "the same as of compute, for kernels that may use tensor cores",
           width=11, order=None, of="of peak FLOP/s"),
    Column("registers", "regs", "number", "registers per thread", width=5, order=9),
    Column("shared_bytes", "shared", "bytes", "shared memory per block", width=9, order=10),
    Column("occupancy", "occupancy", "fraction", "achieved occupancy, measured or estimated by the profiler", width=9,
           order=9, of="of warps"),
)
FOUND = ("op", "op_forward", "module", "frame", "launch_ns")


def build(runs: Runs, options: Options) -> Answer:
    """The launches of one run; given two runs, those of A."""
    run = scoped(runs[0], options)
    if not run.has("kernels"):
        if options.cycle is not None:
            raise CannotAnswer(f"{run.info.label} holds no launches in this cycle.")
        if run.has("kernel_stats") or run.has("profile"):
            raise CannotAnswer(f"{run.info.label} holds sums, not launches; the kernels view shows them.")
        raise CannotAnswer(f"{run.info.label} holds no launches: nothing a device did was recorded.")
    rows, notes = _with_launchers(runs[0], run, options)
    if len(runs) == 2:
        notes = (*notes, "These are the launches of A; `--run b` gives those of B.")
    waits = run.kernels.select((pl.col("kind") == "sync").sum()).collect(engine="streaming").item()
    if waits:
        notes = (*notes, f"{waits:,} synchronisations only wait and are left out.")
    keep = is_work() if waits else None
    facts = {"links": links_of(runs[0])} | capture_facts(runs[0])
    return Answer(rows.select(column.name for column in COLUMNS), facts, notes=notes, recorded=True, keep=keep)


def _with_launchers(whole: Trace, run: Trace, options: Options) -> tuple[pl.LazyFrame, tuple[str, ...]]:
    """The run's kernels with the columns ``FOUND``, shares of peak and ``cycle``, and notes."""
    callers = callers_of(whole)
    columns: list[pl.DataFrame] = []
    rows, notes = run.kernels, callers.notes if callers is not None else ()
    index = run.kernels.select("index")
    if callers is None:
        rows = rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in CALLER_COLUMNS.items())
    elif run is whole:
        columns.append(callers.frame.select(FOUND))
    else:
        every = whole.kernels.select("index").collect(engine="streaming").hstack(callers.frame.select(FOUND))
        here = index.collect(engine="streaming")
        columns.append(here.join(every, on="index", how="left", maintain_order="left").drop("index"))
    shares = shares_of_launches(whole)
    if shares is None:
        rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in SHARES)
    else:
        columns.append(shares.select(*SHARES) if run is whole else index.collect(engine="streaming").join(
            shares, on="index", how="left", maintain_order="left").select(*SHARES))
    cycle = cycle_of(whole, index, options)
    if cycle is not None:
        columns.append(cycle.to_frame())
    else:
        rows = rows.with_columns(pl.lit(None, pl.Int64).alias("cycle"))
        if index.select(pl.len()).collect().item() >= MANY:
            notes = (*notes, f"The trace marks no cycles, so the column cycle is filled for at most {MANY:,} launches.")
    if columns:
        rows = pl.concat([rows, *(frame.lazy() for frame in columns)], how="horizontal")
    if whole.has("kernels.op_line"):  # XLA: the line that the op came from
        rows = rows.with_columns(frame=pl.coalesce(pl.col("frame").cast(pl.String), pl.col("op_line").cast(pl.String)))
    return rows, notes


def _details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    from ..details.row_details import launch_sections  # needed only when a row is opened

    return launch_sections(row, runs, options)


def _glance(runs: Runs, options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    from ..details.glances import launch_glance  # needed only in the app

    return launch_glance(runs, options)


VIEW = View(
    "launches", COLUMNS, build, pair_columns=COLUMNS, noun="launches", row_id=("index",), scopes_itself=True,
    details=_details, glance=_glance,
)
