"""What launched each kernel of the table: the operator behind most of its launches, and all callers of one kernel."""

from __future__ import annotations

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.callers import callers_of, operators_of_launches
from ..core.derived import derived
from .sources import KEYS, Grain, places

CALLERS = ("op", "op_forward", "module", "frame")
"""What a caller is told by, innermost first."""


def with_callers(run: Trace, launches: pl.LazyFrame, *columns: str) -> pl.DataFrame | None:
    """These columns of some launches of the run, with ``CALLERS`` beside them; None where no callers are known."""
    callers = callers_of(run)
    if callers is None:
        return None
    every = run.kernels.select("index").collect(engine="streaming").hstack(callers.frame.select(CALLERS))
    some = launches.select("index", *columns).collect(engine="streaming")
    if some.height == every.height and some["index"].equals(every["index"]):
        return some.hstack(every.drop("index"))
    return some.join(every, on="index", how="left", maintain_order="left")


def commonest(run: Trace, launches: pl.LazyFrame, grain: Grain) -> pl.DataFrame:
    """``KEYS`` and ``op``, the operator behind most launches of each kernel; ties go to the first by name."""
    if launches is run.kernels:
        return derived(run, f"kernel-operators-by-{grain}", lambda: _commonest(_with_operators(run), grain))
    return _commonest(with_callers(run, launches, *KEYS), grain)


def _with_operators(run: Trace) -> pl.DataFrame | None:
    """``KEYS`` and ``op`` of every launch."""
    operators = operators_of_launches(run)
    return None if operators is None else run.kernels.select(KEYS).collect(engine="streaming").with_columns(operators)


def _commonest(rows: pl.DataFrame | None, grain: Grain) -> pl.DataFrame:
    if rows is None:
        return pl.DataFrame(schema=dict.fromkeys((*KEYS, "op"), NAME) | {"rank": pl.Int64()})
    counted = rows.lazy().with_columns(places(grain)).drop_nulls("op").group_by(*KEYS, "op").len()
    first = counted.sort("len", pl.col("op").cast(pl.String), descending=[True, False])
    return first.unique(KEYS, keep="first", maintain_order=True).drop("len").collect()


def ways(rows: pl.DataFrame) -> pl.DataFrame:
    """How often and how long each operator, module and frame launched: ``CALLERS``, count, total_ns, longest first."""
    return rows.group_by(CALLERS).agg(
        count=pl.len(), total_ns=pl.col("dur_ns").sum()
    ).sort("total_ns", "count", *(pl.col(name).cast(pl.String) for name in CALLERS),
           descending=[True, True, False, False, False, False])
