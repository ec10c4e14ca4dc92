"""What the communication of a run was recognised by, and the kernels that compute and communicate at once."""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.trace import RECOGNITION, REDUCED, Trace
from ..core import units


def recognised(run: Trace) -> list[dict[str, Any]]:
    """``device rank stream by kernels dur_ns`` (summed, ns) of every stream that communicates, most time first."""
    rows = run.collectives if REDUCED in run.info.facts else run.kernels.filter(pl.col("kind") == "collective")
    sums = rows.group_by(pl.col("device").cast(pl.String), "rank", "stream", pl.col("by").cast(pl.String)).agg(
        kernels=pl.len().cast(pl.Int64), dur_ns=pl.col("dur_ns").sum())
    return sums.sort("dur_ns", "rank", "device", "stream", descending=[True, False, False, False]).collect(
        engine="streaming").to_dicts()


def fused(run: Trace) -> list[dict[str, Any]]:
    """``name count total_ns`` of the kernels that compute and communicate at once, most time first."""
    names = (run.info.facts.get(RECOGNITION) or {}).get("fused")
    if not names:
        return []
    name = pl.col("name").cast(pl.String)
    sums = run.kernels.filter(name.is_in(names)).group_by(name).agg(
        count=pl.len().cast(pl.Int64), total_ns=pl.col("dur_ns").sum())
    return sums.sort("total_ns", "name", descending=[True, False]).collect(engine="streaming").to_dicts()


def shape_sentence(run: Trace) -> str | None:
    """That streams are taken for communication by their shape alone; None where none is."""
    by_shape = run.kernels.filter(pl.col("by") == "shape")
    if not (run.info.facts.get(RECOGNITION) or {}).get("shapes") and not run.has("kernels.by=shape"):
        return None
    streams = by_shape.group_by("rank", pl.col("device").cast(pl.String), "stream").agg(
        pl.len(), grid=pl.col("grid").cast(pl.String).drop_nulls().mode().sort().first()).sort(
        "rank", "device", "stream").collect(engine="streaming")
    if streams.is_empty():
        return None
    one = streams.row(0, named=True)
    blocks = 1
    for part in (one["grid"] or "1").split(","):
        blocks *= int(part)
    where = f"Stream {one['stream']}" + (f" of {one['device']}" if streams["device"].n_unique() > 1 else "")
    more = f", and {units.counted(streams.height - 1, 'more stream', 'more streams')}" if streams.height > 1 else ""
    return (f"{where} looks like communication: {units.counted(one['len'], 'kernel', 'kernels')} of "
            f"{units.counted(blocks, 'block', 'blocks')} beside the main stream (by shape, no name says so){more}.")


def fused_sentence(rows: list[dict[str, Any]]) -> str | None:
    """The time in kernels that compute and communicate at once; None without any."""
    if not rows:
        return None
    total = units.duration(sum(row["total_ns"] for row in rows))
    return f"{total} in kernels that compute and communicate: their communication cannot be told apart."
