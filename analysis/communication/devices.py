"""Communication of each device: how long its collectives run, and how much of that is exposed (no computation runs).

Only device activities count. The host calls that request a collective do not wait for any device; they are part of the
overview's breakdown, which keeps torch_tb_profiler's categories, and of no figure here.
"""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from ...loaders.trace import REDUCED, Trace
from ..core.covered import COMPUTES, PLACE, covered, timed, within
from ..core.intervals import Intervals


class Communication(Struct, frozen=True):
    """One device of one rank: time in which a collective ran, and the part without a compute kernel at the time, ns.
    ``shape``: nothing but the shape of its streams says that they communicate."""

    device: str | None
    rank: int | None
    comm_ns: int
    exposed_ns: int
    shape: bool = False

    @property
    def overlap(self) -> float | None:
        """Share of the communication that computation overlaps, 0-1; None without communication."""
        return 1 - self.exposed_ns / self.comm_ns if self.comm_ns else None


def communication(run: Trace, window: Intervals | None = None) -> list[Communication]:
    """Every device of every rank that ran kernels, sorted by rank and name; ``window`` limits it to those intervals. A
    reduced dataset has only the totals of each rank."""
    if REDUCED in run.info.facts:
        return _reduced(run)
    rows = timed(run, COMPUTES | (pl.col("kind") == "collective"), "kind", "by")
    if window is not None:
        rows = within(rows, window)
    talks, works = rows.filter(~COMPUTES), rows.filter(COMPUTES)
    sums = rows.select(PLACE).unique().join(covered(talks, name="comm_ns"), PLACE, "left", nulls_equal=True).join(
        covered(talks, without=works, name="exposed_ns"), PLACE, "left", nulls_equal=True).join(
        talks.group_by(PLACE).agg(shape=pl.col("by").eq_missing(pl.lit("shape")).all()), PLACE, "left",
        nulls_equal=True)
    return [Communication(*row) for row in sums.select(
        pl.col("device").cast(pl.String), "rank", pl.col("comm_ns", "exposed_ns").fill_null(0),
        pl.col("shape").fill_null(False),
    ).sort("rank", "device", nulls_last=False).rows()]


def _reduced(run: Trace) -> list[Communication]:
    rows = run.device_sums.drop_nulls("comm_ns").select(
        pl.col("device").cast(pl.String), "rank", "comm_ns", "exposed_ns"
    ).sort("rank", "device", maintain_order=True).collect(engine="streaming")
    return [Communication(*row) for row in rows.rows()]
