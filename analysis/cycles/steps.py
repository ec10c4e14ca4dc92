"""The steps of a run: from the start of its first whole cycle that is not warm-up to the end of the last one.

What is said of a run describes its steps; what lies before and after them is start-up and what follows the last cycle.
"""

from __future__ import annotations

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options, Side
from ..core.call_tree import calls_where
from .account import Cycles, counted_cycles, find_cycles
from .assignment import WINDOW

Bounds = tuple[int, int]


class Steps(Struct, frozen=True):
    """Per rank (None: whatever rank) the moments, in ns, at which its steps begin and end."""

    windows: tuple[tuple[int | None, int, int], ...]

    @property
    def bounds(self) -> Bounds:
        """When the first rank's steps begin and the last rank's end."""
        return min(first for _, first, _ in self.windows), max(last for _, _, last in self.windows)

    def of(self, rank: int | None) -> Bounds | None:
        """The steps of a rank; None where none of its cycles is one. What names no rank has those of all."""
        mine = [window[1:] for window in self.windows if window[0] == rank or window[0] is None]
        return mine[0] if mine else self.bounds if rank is None else None

    def holds(self, column: str) -> pl.Expr:
        """Whether the moment in a column lies in the steps of the row's ``rank``."""
        inside = pl.lit(False)
        for rank, first, last in self.windows:
            here = pl.col(column).is_between(first, last, closed="left")
            inside = inside | (here if rank is None else here & (pl.col("rank").is_null() | (pl.col("rank") == rank)))
        return inside


def steps_of(cycles: Cycles) -> Steps | None:
    """The steps among the cycles; None where there are none with times, or a guess that explains too little."""
    if cycles.ignored is not None or cycles.frame["start_ns"].null_count():
        return None
    return _steps(cycles.frame.filter(pl.col("complete") & ~pl.col("warm_up")))


def steps_in_scope(run: Trace, options: Options, side: Side = "a") -> Steps | None:
    """The steps of the run, or the one cycle that the options limit that side to."""
    cycle = options.scope(side).cycle
    if cycle is None:
        return steps_of(counted_cycles(run, options))
    cycles = find_cycles(run, options)
    return steps_of_cycle(replace(cycles, frame=cycles.frame.filter(pl.col("cycle") == cycle)))


def steps_of_cycle(cycles: Cycles) -> Steps | None:
    """The window of the one cycle that was asked for, whole or not; None without times."""
    return None if cycles.frame["start_ns"].null_count() else _steps(cycles.frame)


def _steps(frame: pl.DataFrame) -> Steps | None:
    bounds = frame.group_by("rank").agg(pl.col(WINDOW[0]).min(), pl.col(WINDOW[1]).max()).sort("rank", nulls_last=True)
    return None if bounds.is_empty() else Steps(tuple(bounds.select("rank", *WINDOW).iter_rows()))


def in_steps(run: Trace, steps: Steps | None) -> Trace:
    """The activities and host slices that begin in the steps; the run itself where no device activity lies outside."""
    if steps is None:
        return run
    inside = steps.holds("start_ns")
    outside = run.kernels.filter(pl.col("kind") != "sync").select((~inside).any()).collect(engine="streaming").item()
    if not outside:
        return run
    return run.with_tables(kernels=run.kernels.filter(inside), host=calls_where(run.host, inside))
