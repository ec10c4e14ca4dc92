"""Time per FLOP of kernels that do different work per launch in A and B: 8 times the work in 6 times the time is not
slower. Work follows from the recorded shapes; rows with the same work per launch have no time per FLOP.
"""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..core.callers import callers_of

OTHER = 0.01
"""FLOPs per launch that differ by at most this share are the same work."""
KNOWN = 0.9
"""Share of a kernel's time (launches without a launch record aside) that must have known FLOPs."""
MOST = 200_000
"""A run with more activities gets no time per FLOP here; its work is left to the roofline."""


def with_time_per_flop(table: pl.DataFrame, runs: tuple[Trace, Trace]) -> pl.DataFrame:
    """The table with ``us_per_gflop_a`` and ``us_per_gflop_b``, null where work per launch is the same or unknown."""
    a, b = (_work(run) for run in runs)
    if a is None or b is None:
        return table
    own = table.select(
        a=pl.col("function").cast(pl.String), b=pl.coalesce(pl.col("function_b", "function").cast(pl.String)),
        kernel=pl.col("kind").cast(pl.String) == "kernel")
    both = own.join(a, left_on="a", right_on="name", how="left", maintain_order="left").join(
        b, left_on="b", right_on="name", how="left", maintain_order="left", suffix="_b")
    differs = pl.col("kernel") & ((pl.col("flops_b") / pl.col("flops") - 1).abs() > OTHER)
    return table.with_columns(both.select(
        pl.when(differs).then("us_per_gflop").alias("us_per_gflop_a"), pl.when(differs).then("us_per_gflop_b")))


def _work(run: Trace) -> pl.DataFrame | None:
    """``name flops us_per_gflop`` of a run's kernels with known work: FLOPs per launch, and µs per 10⁹ FLOPs."""
    from ..work.peaks import BadPeaks  # only pairs of different operators need work
    from ..work.roofline import divided_work_of

    if not (run.has("host.shapes") or run.captures is not None) or not run.has("kernels"):
        return None
    kernels = run.kernels.select(pl.col("name").cast(pl.String), "dur_ns", "kind").collect(engine="streaming")
    try:
        divided = divided_work_of(run) if kernels.height <= MOST else None
    except BadPeaks:
        return None
    callers = callers_of(run)
    if divided is None or callers is None:
        return None
    launched = pl.Series((callers.call >= 0) | (callers.operator >= 0))
    took = pl.col("dur_ns").sum()
    counted = pl.col("flops").is_not_null()
    flops, spent = pl.col("flops").sum(), pl.col("dur_ns").filter(counted).sum()
    whole = divided.work["flops"].gather(divided.number)
    computed = kernels.with_columns(whole=whole, owner=pl.Series(divided.attribution.owner)).filter(
        launched & (kernels["kind"] == "kernel"))  # copies and sets of a call compute nothing
    share = pl.when(took.over("owner") > 0).then(pl.col("dur_ns") / took.over("owner"))
    return computed.with_columns(flops=pl.col("whole") * share).group_by("name").agg(
        (flops / counted.sum()).alias("flops"), (spent / 1e3 / (flops / 1e9)).alias("us_per_gflop"), known=spent / took,
    ).filter(pl.col("known") >= KNOWN, pl.col("flops") > 0).select("name", "flops", "us_per_gflop")
