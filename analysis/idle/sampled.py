"""The functions that CPU samples caught while a device was idle, where CPU samples were recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core import units
from ..core.call_stacks import sampled
from ..core.text import display

MOST = 20  # Functions per device in the facts.
_SAID = 4
_NAMED = r"^[^\[]"  # A frame with a symbol; '[module]' is one without.


def samples_of(run: Trace, begin: int, end: int) -> pl.DataFrame:
    """The CPU samples between two moments (ns): ``function``, ``from`` (its nearest caller with a symbol, null if none
    has one) and the number of ``samples``, most first."""
    inside = pl.col("start_ns").is_between(begin, end, closed="left")
    texts = pl.col("function", "stack").cast(pl.String)
    rows = sampled(run).filter(inside).select(texts).collect(engine="streaming")
    callers = pl.col("stack").str.split("\n").list.slice(1)
    named = callers.list.eval(pl.element().filter(pl.element().str.contains(_NAMED))).list.first()
    return rows.select("function", named.alias("from")).group_by("function", "from").agg(samples=pl.len()).sort(
        "samples", "function", "from", descending=[True, False, False], nulls_last=True)


def sampled_while_idle(run: Trace, gaps: pl.LazyFrame) -> list[dict[str, Any]]:
    """``device rank samples functions`` per device with gaps: the number of CPU samples in its gaps, and in how many of
    them each function was the innermost; no entry where no samples were recorded."""
    if not run.has("call_chains"):
        return []
    samples = sampled(run).select(
        "start_ns", pl.col("function").cast(pl.String), "rank").sort("start_ns").collect(engine="streaming")
    idle = gaps.select(pl.col("device").cast(pl.String), "rank", "start_ns", "dur_ns").sort("start_ns").collect(
        engine="streaming")
    devices = []
    for (device, rank), own in idle.group_by("device", "rank", maintain_order=True) if samples.height else ():
        some = samples if rank is None else samples.filter(pl.col("rank").is_null() | (pl.col("rank") == rank))
        starts, ends = own["start_ns"].to_numpy(), (own["start_ns"] + own["dur_ns"]).to_numpy()
        at = some["start_ns"].to_numpy()
        gap = np.searchsorted(starts, at, side="right") - 1
        inside = some.filter(pl.Series((gap >= 0) & (at < ends[gap])))
        counts = inside["function"].value_counts().sort("count", "function", descending=[True, False])
        devices.append({"device": device, "rank": rank, "samples": inside.height,
                        "functions": dict(counts.head(MOST).iter_rows())})
    return devices


def sampled_sentences(sampled: list[dict[str, Any]]) -> tuple[str, ...]:
    """One sentence for each of the first two devices, if any sample was taken in its gaps."""
    return tuple(
        f"While {one['device']} was idle the CPU ran " + ", ".join(
            f"{display(name, 40)} ({units.percent(100 * count / one['samples'], places=0)})"
            for name, count in list(one["functions"].items())[:_SAID]) + f" in {units.count(one['samples'])} samples"
        for one in sampled[:2] if one["samples"])
