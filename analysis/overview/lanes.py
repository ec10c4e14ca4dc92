"""Recordings of host ranges alone, one lane per worker: which range takes far longer on one lane than on the others."""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..core import units
from ..core.text import display

LEAST_LANES, UNEVEN, LEAST_SHARE, MOST = 4, 1.3, 0.05, 3
"""Fewest lanes that have a range; least ratio of the longest to the lower median; least share of all range time; and
the most ranges that are named."""


def uneven_sentence(run: Trace) -> str | None:
    """The range that loses most time on the lane where it takes longest; None where all take about as long."""
    lanes = run.host.filter(pl.col("dur_ns").is_not_null()).group_by(
        pl.col("name").cast(pl.String), "rank", "pid", "tid").agg(pl.col("dur_ns").sum(), calls=pl.len()).sort(
        "name", "dur_ns", "rank", "pid", "tid", descending=[False, True, False, False, False]).collect(
        engine="streaming")
    total = int(lanes["dur_ns"].sum() or 0)
    ranges = lanes.group_by("name", maintain_order=True).agg(
        pl.len(), pl.col("rank", "pid", "tid").first(), most=pl.col("dur_ns").first(),
        usual=pl.col("dur_ns").quantile(0.5, "lower"), sum=pl.col("dur_ns").sum(),
        even=pl.col("calls").min() == pl.col("calls").max())
    uneven = ranges.filter(
        "even", pl.col("len") >= LEAST_LANES, pl.col("usual") > 0, pl.col("most") >= UNEVEN * pl.col("usual"),
        pl.col("sum") >= LEAST_SHARE * total,
    ).sort(pl.col("most") - pl.col("usual"), descending=True)
    if uneven.is_empty():
        return None
    row, *others = uneven.head(MOST).to_dicts()
    rank = f", rank {row['rank']}" if row["rank"] is not None else ""
    more = "".join(f"; {display(one['name'], 40)} {one['most'] / one['usual']:.2f}× on thread {one['tid']} of process "
                   f"{one['pid']}" for one in others)
    return (f"{display(row['name'], 40)} takes {row['most'] / row['usual']:.2f}× as long on thread {row['tid']} of "
            f"process {row['pid']}{rank} as on the median of {row['len']} threads: {units.duration(row['most'])}, not "
            f"{units.duration(row['usual'])}{more}.")
