"""Rows that are part of another one: the host's side of an idle cause, and kernels swapped under one operator.

Both say the same thing twice. The row they are part of stays, and opens into them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...idle.causes import named_cause
from ..prepare.idle_time import idle_name
from ..prepare.samples import HOST, IDLE
from .function_change import FunctionChange

MOSTLY = 0.75
"""Share of a host function's change that idle time must make up to be all there is to it: what is left was hidden."""
_CALLED = ("slower", "faster", "new", "gone")


def fold_into_idle(rows: Sequence[FunctionChange]) -> None:
    """Mark the host rows whose whole change is the idle time of a device by the cause they are."""
    waited = [row for row in rows if row.kind == IDLE and row.verdict in _CALLED]
    for idle in sorted(waited, key=lambda row: -abs(row.delta_ms or 0.0)):
        mine = [
            row for row in rows
            if row.device == HOST and row.part_of is None and row.verdict in _CALLED
            and (row.pid_a, row.pid_b) == (idle.pid_a, idle.pid_b)
            and (cause := named_cause(row.function, row.kind)) is not None and idle_name(cause) == idle.function
        ]
        moved, change = sum(row.delta_ms or 0.0 for row in mine), idle.delta_ms or 0.0
        if mine and change * moved > 0 and abs(change) >= MOSTLY * abs(moved):
            for row in mine:
                row.part_of, row.part_on = idle.function, idle.device
            idle.parts = len(mine)


def under_their_rows(table: pl.DataFrame) -> pl.DataFrame:
    """The ordered table with every part below the row it is part of."""
    numbered = table.with_row_index("at")
    keys = ["function", "device", "pid_a", "pid_b"]
    parents = numbered.filter(pl.col("part_of").is_null()).select(*keys, pl.col("at").alias("parent"))
    placed = numbered.join(
        parents, left_on=["part_of", "part_on", "pid_a", "pid_b"], right_on=keys, how="left", nulls_equal=True,
        maintain_order="left",
    ).with_columns(pl.when(pl.col("part_of").is_null()).then("at").otherwise("parent").alias("under"))
    return placed.sort("under", pl.col("part_of").is_not_null(), "at").drop("at", "parent", "under")
