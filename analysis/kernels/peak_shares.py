"""Shares of peak that kernels and launches reach, from their operators' work, for lists without counters.

A share covers the time whose work is known. A kernel has one only if that is nearly all of its time.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.callers import callers_of
from ..core.derived import derived
from ..work.peaks import BadPeaks, of_settings
from .sources import KEYS, Grain, places
from .tensor_cores import by_tensor_cores

TENSOR = "tensor_of_peak"
SHARES = {"compute_of_peak": "compute_ns", "memory_of_peak": "memory_ns", TENSOR: "compute_ns"}
"""Share columns, and the column with the time that the work takes at that peak; ``TENSOR`` only of kernels that may use
tensor cores."""
KNOWN = 0.9
"""Share of a kernel's time, without launches that lack a launch record, whose work must be known."""


MOST = 200_000
"""Above this many activities the kernel list leaves the shares to the roofline view: on 500 MB (222,000 activities,
November 2026) they cost 0.75 of 2.4 s of CPU time and 200 MiB of 490."""


def shares_of_launches(run: Trace) -> pl.DataFrame | None:
    """``index launched`` and ``SHARES`` of every activity, in the order of ``run.kernels``; None if none is known. Work
    is divided among a call's activities by their time, so they all have the same share; copies and memsets of a call
    that computes have none."""
    from ..work.roofline import shaped_work

    divided, callers = shaped_work(run), callers_of(run)
    if divided is None or callers is None:
        return None
    took = pl.when(pl.col("dur_ns") > 0).then(pl.col("dur_ns"))
    helps = pl.col("kind").is_in(["memcpy", "memset"]) & (pl.col("flops") > 0)
    activities = run.kernels.select("index", "dur_ns", "kind").collect(engine="streaming").with_columns(
        launched=pl.Series((callers.call >= 0) | (callers.operator >= 0)), flops=divided.part("flops"),
        may=np.logical_or(*by_tensor_cores(run.kernels.select("name").collect(engine="streaming")["name"])))
    return activities.select("index", "launched", *(
        pl.when(~helps if name != TENSOR else ~helps & pl.col("may")).then(divided.part(ns) / took).alias(name)
        for name, ns in SHARES.items()))


def shares_of_kernels(run: Trace, launches: pl.LazyFrame, grain: Grain) -> pl.DataFrame:
    """``KEYS`` and ``SHARES`` of the kernels among these launches; no rows if nothing is known."""
    def find() -> pl.DataFrame:
        return _by_kernel(run, launches, grain)

    if not worked_out(run):
        return _none()
    usual = launches is run.kernels and run.captures is None and not _corrected()
    return derived(run, f"kernel-peaks-of-three-by-{grain}", find) if usual else find()


def worked_out(run: Trace) -> bool:
    """Whether the kernel list has shares from work: shapes were recorded, and the run is not too large."""
    return not _too_large(run) and _shaped(run)


def left_to_roofline(run: Trace) -> bool:
    """Whether the kernel list has no shares because the run is too large."""
    return run.has("kernels") and _too_large(run) and _shaped(run)


def _too_large(run: Trace) -> bool:
    return int(run.kernels.select(pl.len()).collect(engine="streaming").item()) > MOST


def _shaped(run: Trace) -> bool:
    return (run.has("host.shapes") or run.captures is not None) and run.has("kernels")


def _corrected() -> bool:
    """Whether the settings correct or add peaks."""
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
    rows = launches.select("index", "name", "kind", *places(grain), "dur_ns").collect(engine="streaming")
    whole = launches is run.kernels
    rows = rows.hstack(shares.drop("index")) if whole else rows.join(shares, on="index", how="left")
    every = pl.col("dur_ns").filter("launched").sum()
    measured = {name: pl.col("dur_ns").filter(pl.col(name).is_not_null()).sum() for name in SHARES}
    return rows.group_by(KEYS).agg(
        pl.when(measured[name] > 0, measured[name] >= KNOWN * every).then(
            (pl.col(name) * pl.col("dur_ns")).sum() / measured[name]).alias(name) for name in SHARES)
