"""Launches: every device activity in the order it was recorded.

The rows are the recorded columns, so that five million of them open at once; only where they are few is it looked up
which cycle launched each. A ``sync`` is no launch.
"""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..core.options import Options
from ..details.row_details import launch_sections
from ..table.column import Column
from ..table.table import ON_DISK
from ..table.view import Answer, CannotAnswer, Runs, View

COLUMNS = (
    Column("index", "#", "count", "recorded order, from 0", width=7, order=0, pinned=True, role="order"),
    Column("start_ns", "start", "ns", "from the start of the trace; empty where the format has no times", width=12,
           order=4, role="moment"),
    Column("dur_ns", "duration", "ns", "duration", width=9, order=0, role="time"),
    Column("name", "kernel", "text", "name, in the form lists show it; the details have it as recorded", width=34,
           order=0, elastic=True, pinned=True, role="name"),
    Column("kind", "kind", "text", "kernel, collective, memcpy or memset", width=10, order=7, role="where"),
    Column("device", "device", "text", "device it ran on; empty where not recorded", width=7, order=6, role="where"),
    Column("stream", "stream", "number", "stream or queue", width=6, order=5, role="where"),
    Column("tensor", "tensor", "fraction", "tensor-core utilisation, of peak", width=12, order=2, bar="tensor"),
    Column("dram", "DRAM", "fraction", "DRAM throughput, of peak", width=12, order=2, bar="dram"),
    Column("grid", "grid", "text", "blocks in the grid as x,y,z", width=12, order=8),
    Column("block", "block", "text", "threads in a block as x,y,z", width=10, order=9),
    Column("cycle", "cycle", "number", "the cycle that launched it; empty outside all of them", width=6, order=9),
    Column("rank", "rank", "number", "rank of the job", width=5, order=9, role="where"),
    Column("correlation", "corr", "number", "ties it to the call that launched it", width=9, order=None),
)


def build(runs: Runs, options: Options) -> Answer:
    """The launches of one run: of two the first, for the second is asked by itself."""
    run = runs[0]
    if not run.has("kernels"):
        if options.cycle is not None:
            raise CannotAnswer(f"{run.info.label} holds no launches in this cycle.")
        if run.has("kernel_stats") or run.has("profile"):
            raise CannotAnswer(f"{run.info.label} holds sums, not launches; the kernels view shows them.")
        raise CannotAnswer(f"{run.info.label} holds no launches: nothing a device did was recorded.")
    rows = run.kernels
    notes: tuple[str, ...] = ()
    if len(runs) == 2:
        notes = ("These are the launches of A; `--run b` gives those of B.",)
    waits = rows.select((pl.col("kind") == "sync").sum()).collect(engine="streaming").item()
    if waits:
        notes = (*notes, f"{waits:,} synchronisations only wait and are left out.")
    keep = pl.col("kind") != "sync" if waits else None
    if rows.select(pl.len()).collect(engine="streaming").item() < ON_DISK:
        rows = _with_cycles(run, options)
    else:
        notes = (*notes, f"The column cycle is told of up to {ON_DISK:,} launches; --cycle shows those of one.")
        rows = rows.with_columns(cycle=pl.lit(None, pl.Int64))
    return Answer(rows.select(column.name for column in COLUMNS), notes=notes, recorded=True, keep=keep)


def _with_cycles(run: Trace, options: Options) -> pl.LazyFrame:
    """The launches with the number of the cycle each belongs to."""
    from ..cycles.account import find_cycles
    from ..cycles.assignment import in_cycles

    cycles = find_cycles(run, options)
    if cycles.frame.is_empty():
        return run.kernels.with_columns(cycle=pl.lit(None, pl.Int64))
    numbers = in_cycles(run, cycles.frame, cycles.device_time).select("index", "cycle")
    return run.kernels.join(numbers, on="index", how="left", maintain_order="left")


VIEW = View("launches", COLUMNS, build, pair_columns=COLUMNS, noun="launches", details=launch_sections)
