"""Launches: every device activity in the order it was recorded.

Nothing is computed: the rows are the recorded columns, so that five million of them open at once. A ``sync`` is no
launch.
"""

from __future__ import annotations

import polars as pl

from ..core.options import Options
from ..details.row_details import launch_sections
from ..table.column import Column
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
)


def build(runs: Runs, options: Options) -> Answer:
    """The launches of run A, or of run B where the options' ``side`` says so."""
    run = runs[-1] if options.side == "b" else runs[0]
    if not run.has("kernels"):
        if (options.cycle_b if options.side == "b" else options.cycle) is not None:
            raise CannotAnswer(f"{run.info.label} holds no launches in this cycle.")
        if run.has("kernel_stats") or run.has("profile"):
            raise CannotAnswer(f"{run.info.label} holds sums, not launches; the kernels view shows them.")
        raise CannotAnswer(f"{run.info.label} holds no launches: nothing a device did was recorded.")
    rows = run.kernels
    notes: tuple[str, ...] = ()
    waits = rows.select((pl.col("kind") == "sync").sum()).collect(engine="streaming").item()
    if waits:
        notes = (f"{waits:,} synchronisations only wait and are left out.",)
    keep = pl.col("kind") != "sync" if waits else None
    return Answer(rows.select(column.name for column in COLUMNS), notes=notes, recorded=True, keep=keep)


VIEW = View("launches", COLUMNS, build, pair_columns=COLUMNS, noun="launches", details=launch_sections)
