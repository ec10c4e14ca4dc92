"""The metric that tells most of each row: the foremost changed resource read while it ran, else the most suspicious."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...core.metrics import is_memory_counter, metric
from ..prepare.samples import Work, of_process
from ..stats.reference import compare
from .resources import ChangedResource

_KEYS = ["function", "device", "pid_a", "pid_b"]
_FILLED = ["metric", "mu_a", "mu_b", "unit", "suspicion"]


def with_metrics(table: pl.DataFrame, scored: pl.DataFrame, changed: Sequence[ChangedResource]) -> pl.DataFrame:
    """``table`` with ``metric mu_a mu_b unit`` (natural units) and the largest ``suspicion`` of each row's metrics."""
    if scored.is_empty():
        return table
    rank = pl.DataFrame(
        [(row.metric, row.device, place) for place, row in enumerate(changed)],
        schema={"metric": pl.String, "device": pl.String, "place": pl.Int64}, orient="row",
    )
    best = (
        scored.join(rank, on=["metric", "device"], how="left", nulls_equal=True, maintain_order="left")
        .sort("place", "suspicion", descending=[False, True], nulls_last=True, maintain_order=True)
        .group_by(_KEYS, maintain_order=True)
        .agg(pl.col("metric", "mu_a", "mu_b", "unit").first(), pl.col("suspicion").max())
    )
    return table.drop(_FILLED).join(best, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")


def _readings(work: Work, pid: int | None) -> pl.DataFrame:
    """The process's metrics without those of its own memory, which say nothing of why it took longer."""
    names = work.metrics["metric"].unique().cast(pl.String).drop_nulls()
    own = [name for name in names if is_memory_counter(name)]
    rows = of_process(work.metrics, pid)
    return rows.filter(~pl.col("metric").cast(pl.String).is_in(own)) if own else rows


def scored_metrics(works: tuple[Work, Work], table: pl.DataFrame, units: dict[str, str]) -> pl.DataFrame:
    """The reference score of every metric of every function and process pair, μ in natural units."""
    pieces = []
    for pid_a, pid_b in table.select("pid_a", "pid_b").unique(maintain_order=True).rows():
        a, b = (_readings(work, pid) for work, pid in zip(works, (pid_a, pid_b), strict=True))
        if a.is_empty() and b.is_empty():
            continue
        both = pl.lit(pid_a, pl.Int64).alias("pid_a"), pl.lit(pid_b, pl.Int64).alias("pid_b")
        pieces.append(compare(a, b).with_columns(*both, pl.col("function", "metric", "device").cast(pl.String)))
    if not pieces:
        return pl.DataFrame()
    scores = pl.concat(pieces)
    largest = scores.group_by("metric", maintain_order=True).agg(pl.max_horizontal("mu_a", "mu_b").max())
    known = [metric(name, units.get(name), most or 0.0) for name, most in largest.rows()]
    natural = pl.DataFrame(
        [(one.name, one.unit, one.divisor) for one in known],
        schema={"metric": pl.String, "unit": pl.String, "divisor": pl.Float64}, orient="row",
    )
    joined = scores.join(natural, on="metric", how="left", maintain_order="left")
    return joined.with_columns(pl.col("mu_a", "mu_b") / pl.col("divisor")).drop("divisor")
