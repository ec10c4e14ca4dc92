"""The cycle each launch belongs to, as a column beside the launches."""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from .account import find_cycles
from .assignment import in_cycles

MANY = 500_000
"""Launches among which a rhythm is not looked for only to number them: that takes longer than to show them."""


def cycle_of(run: Trace, index: pl.LazyFrame, options: Options) -> pl.Series | None:
    """The cycle of each of the launches in ``index`` (a column of that name), null outside; None without cycles."""
    many = index.select(pl.len()).collect().item() >= MANY
    if many and not run.has("host") and not run.has("cycles"):
        return None
    cycles = find_cycles(run, options)
    if cycles.frame.is_empty():
        return None
    inside = in_cycles(run, cycles.frame, cycles.device_time).select("index", pl.col("cycle").cast(pl.Int64))
    known = inside.collect(engine="streaming").unique("index", keep="first", maintain_order=True)
    asked = index.select("index").collect(engine="streaming")
    return asked.join(known, on="index", how="left", maintain_order="left")["cycle"]
