"""Cycles from executions of a compiled program: a graph that is launched, or an XLA executable that is run, repeatedly.

A training step or a decode step is often one such execution. The call returns long before the device is done, so a
cycle goes, in device time, from the first activity of one execution to the first of the next. Small programs run beside
the step (a conversion, a sampler): the program that takes most device time is the step, if it fills its cycles.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl

from ...loaders import schema
from ...loaders.trace import Trace
from . import assignment
from .sourced_cycles import SourcedCycles

PROGRAM = r"^(PJRT_LoadedExecutable_Execute|PjitFunction\(.*\)|(hip|cuda|cu)GraphLaunch(_\w+)?)$"
"""Calls that run a whole compiled program."""
LEAST = 3
"""So many executions make a rhythm."""
LEAST_FILLED = 0.5
"""Share of the device time of its cycles that the program itself takes: else it is a small part of a step."""
LARGEST_SPREAD = 0.5
"""Median absolute deviation of the cycles over their median, at most."""


def executed(run: Trace) -> SourcedCycles | None:
    """A cycle per execution of the program that takes most device time; None where none repeats or fills its cycles."""
    calls = run.host.filter(pl.col("name").cast(pl.String).str.contains(PROGRAM), pl.col("dur_ns") >= 0).select(
        pl.col("name").cast(pl.String), "start_ns", "dur_ns", "rank").drop_nulls(["start_ns"])
    calls_made = calls.sort("start_ns").collect(engine="streaming")
    if calls_made.height < LEAST:
        return None
    work = assignment.launched(run).filter(pl.col("kind") != "sync").select(
        pl.col("name").cast(pl.String), "launch_ns", "start_ns", "dur_ns", "rank",
    ).drop_nulls(["start_ns", "dur_ns"]).sort("start_ns").collect(engine="streaming")
    pieces = [
        (rank, piece) for rank in work["rank"].unique().sort()
        if (piece := _of_rank(_mine(calls_made, rank), _mine(work, rank))) is not None
    ]
    if not pieces:
        return None
    names = pl.concat([piece for _, piece in pieces])["label"].unique().to_list()
    frame = pl.concat([_frame(piece, rank) for rank, piece in pieces])
    return SourcedCycles(
        frame, "execution", names[0] if len(names) == 1 else None, device_time=True, guessed=True,
    )


def _mine(rows: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    return rows.filter(pl.col("rank").is_null() | pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)))


def _of_rank(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame | None:
    """``start_ns dur_ns label`` of the cycles of one rank."""
    best: tuple[int, pl.DataFrame] | None = None
    for (name,), mine in calls.group_by("name", maintain_order=True):
        found = _executions(mine, work)
        for _, program in found.group_by("program", maintain_order=True):
            spent = int(program["spent"].sum())
            if program.height >= LEAST and (best is None or spent > best[0]):
                best = spent, program.with_columns(label=pl.lit(cast(str, name)))
    return None if best is None else _cycles(best[1], work)


def _executions(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Each call's ``first`` and ``last`` moment on the device, the time ``spent`` there, and which ``program`` it ran.

    A program is told by the kernel it begins with. Calls inside another of the same name are part of that one.
    """
    end = pl.col("start_ns") + pl.col("dur_ns")
    outer = calls.filter((pl.col("start_ns") >= end.cum_max().shift(1)).fill_null(True))
    starts, ends = outer["start_ns"].to_numpy(), (outer["start_ns"] + outer["dur_ns"]).to_numpy()
    launch = work["launch_ns"].fill_null(-1).to_numpy()
    at = np.searchsorted(starts, launch, side="right") - 1
    inside = (at >= 0) & (launch >= 0) & (launch <= ends[np.maximum(at, 0)])
    rows = work.with_columns(pl.Series("call", at)).filter(pl.Series(inside))
    return rows.group_by("call").agg(
        first=pl.col("start_ns").min(), last=(pl.col("start_ns") + pl.col("dur_ns")).max(),
        spent=pl.col("dur_ns").sum(),
        program=pl.col("name").sort_by("start_ns").first(),
    ).sort("first")


def _cycles(program: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame | None:
    begin, last = program["first"].to_numpy(), int(program["last"].to_numpy()[-1])
    spans = np.diff(np.append(begin, last))
    middle = float(np.median(spans[:-1]))
    ran = work.filter(pl.col("start_ns").is_between(int(begin[0]), last, closed="left"))
    filled = int(program["spent"].sum()) >= LEAST_FILLED * int(ran["dur_ns"].sum())
    if not filled or float(np.median(np.abs(spans[:-1] - middle))) > LARGEST_SPREAD * middle:
        return None
    return program.select(start_ns="first", label="label").with_columns(pl.Series("dur_ns", spans))


def _frame(cycles: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    rows = cycles.with_row_index("cycle", offset=1).with_columns(
        pl.lit(rank, pl.Int64).alias("rank"), pl.lit("step").alias("kind"), pl.lit("execution").alias("source"),
        pl.lit(True).alias("complete"),
    )
    return schema.conform("cycles", rows.lazy()).collect()
