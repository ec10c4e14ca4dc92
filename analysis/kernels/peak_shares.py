"""What kernels and launches reach of their device's peaks by the work of their operators, for lists without counters.

A share is that of the time whose work is known. A kernel has one where that is nearly all of its time.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.derived import derived
from ..work.peaks import BadPeaks, of_settings
from ..work.roofline import shaped_roofline
from .sources import KEYS, Grain, places

SHARES = {"compute_of_peak": "compute_ns", "memory_of_peak": "memory_ns"}
"""Columns and the time that the work takes at that peak, which they are the share of."""
KNOWN = 0.9
"""Of the time of a kernel's launches, those without a launch record apart, so much must have known work."""

MOST = 200_000
"""Activities of a run above which its list of kernels leaves the shares to the roofline view: of 500 MB they took
1.0 to 1.5 s beside 1.4 s for all the rest, and 217 MiB more."""


def shares_of_launches(run: Trace) -> pl.DataFrame | None:
    """``index launched`` and ``SHARES`` of every activity of the run, in the order of ``run.kernels``; None where none
    is known. Work is divided among the activities of a call by their time, so those of one call have the same share;
    the copies and sets of a call that computes have none."""
    found = shaped_roofline(run)
    if found is None:
        return None
    took = pl.when(pl.col("dur_ns") > 0).then(pl.col("dur_ns"))
    helps = pl.col("kind").is_in(["memcpy", "memset"]) & (pl.col("flops") > 0)
    return found.activities.select("index", "launched", *(
        pl.when(~helps).then(pl.col(ns) / took).alias(name) for name, ns in SHARES.items()))


def shares_of_kernels(run: Trace, launches: pl.LazyFrame, grain: Grain) -> pl.DataFrame:
    """``KEYS`` and ``SHARES`` of the kernels among some launches of the run; no rows where nothing is known."""
    def find() -> pl.DataFrame:
        return _by_kernel(run, launches, grain)

    if _too_many(run) or not _shaped(run):
        return _none()
    usual = launches is run.kernels and run.captures is None and not _corrected()
    return derived(run, f"kernel-peaks-by-{grain}", find) if usual else find()


def _too_many(run: Trace) -> bool:
    """Whether working them out would take longer than everything else in the list of kernels does."""
    return int(run.kernels.select(pl.len()).collect(engine="streaming").item()) > MOST


def _shaped(run: Trace) -> bool:
    return (run.has("host.shapes") or run.captures is not None) and run.has("kernels")


def _corrected() -> bool:
    """Whether the settings say anything of peaks."""
    try:
        return bool(of_settings())
    except BadPeaks:
        return True


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(KEYS, NAME) | {"rank": pl.Int64()} | dict.fromkeys(SHARES, pl.Float64()))


def _by_kernel(run: Trace, launches: pl.LazyFrame, grain: Grain) -> pl.DataFrame:
    shares = shares_of_launches(run)
    if shares is None:
        return _none()
    rows = launches.select("index", "name", "kind", *places(grain), "dur_ns").collect(engine="streaming").join(
        shares, on="index", how="left")
    every = pl.col("dur_ns").filter("launched").sum()
    known = {name: pl.col("dur_ns").filter(pl.col(name).is_not_null()).sum() for name in SHARES}
    return rows.group_by(KEYS).agg(
        pl.when(known[name] > 0, known[name] >= KNOWN * every).then(
            (pl.col(name) * pl.col("dur_ns")).sum() / known[name]).alias(name) for name in SHARES)
