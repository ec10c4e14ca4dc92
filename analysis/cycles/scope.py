"""A run limited to one of its cycles: what every view is given when the user scopes to a cycle.

The device activities are those the cycle launched (see ``membership``), wherever they ran; host slices and samples are
those that begin inside it. A scoped run is a Trace like any other, with lazy tables, so no view knows about scope.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import polars as pl

from ...loaders.trace import Trace
from ..core.options import Options
from ..table.view import CannotAnswer

_known: deque[tuple[Trace, int, str | None, Trace]] = deque(maxlen=4)


def scoped(run: Trace, options: Options, side: Literal["a", "b"] = "a") -> Trace:
    """The run, or what belongs to ``options.cycle`` of it (for side 'b' ``options.cycle_b``). Raises CannotAnswer."""
    wanted = options.cycle if side == "a" else options.cycle_b
    if wanted is None:
        return run
    for trace, cycle, anchor, piece in _known:
        if trace is run and (cycle, anchor) == (wanted, options.cycle_anchor):
            return piece
    piece = _cut(run, wanted, options)
    _known.append((run, wanted, options.cycle_anchor, piece))
    return piece


def _cut(run: Trace, wanted: int, options: Options) -> Trace:
    from . import assignment  # who asks for no cycle does not wait for what finds them
    from .account import find_cycles

    cycles = find_cycles(run, options)
    mine = cycles.frame.filter(pl.col("cycle") == wanted)
    if mine.is_empty():
        raise CannotAnswer(f"{run.info.label} has no cycle {wanted}; {_what_there_is(cycles.frame)}.")
    inside = pl.lit(False)
    for start, dur, rank in mine.select("start_ns", "dur_ns", "rank").rows():
        if start is not None:
            here = pl.col("_at").is_between(start, start + dur, closed="left")
            inside = inside | (here if rank is None else here & (pl.col("rank").is_null() | (pl.col("rank") == rank)))
    kernels = assignment.in_cycles(run, cycles.frame, cycles.device_time)
    return run.with_tables(
        kernels=kernels.filter(pl.col("cycle") == wanted).select(run.kernels.collect_schema().names()),
        host=_calls(run.host.with_columns(_at="start_ns"), inside),
        metrics=run.metrics.with_columns(_at="ts_ns").filter(inside).drop("_at"),
        cycles=mine.select(run.cycles.collect_schema().names()).lazy(),
        profile=run.profile.filter(pl.col("cycle") == wanted),
    )


def _calls(host: pl.LazyFrame, inside: pl.Expr) -> pl.LazyFrame:
    """The host slices inside, with parents as rows among them; one whose parent is not inside has none."""
    kept = host.with_row_index("_row").filter(inside).drop("_at").with_row_index("_new").with_columns(
        pl.col("_row").cast(pl.Int64)
    )
    moved = kept.select(pl.col("_row").alias("parent"), pl.col("_new").cast(pl.Int64))
    return kept.drop("_new").join(moved, on="parent", how="left", maintain_order="left").with_columns(
        parent="_new"
    ).drop("_row", "_new")


def _what_there_is(frame: pl.DataFrame) -> str:
    if frame.is_empty():
        return "it has no cycles"
    numbers = frame["cycle"].to_list()
    return f"it has cycles {min(numbers)} to {max(numbers)}"
