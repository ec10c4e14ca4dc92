"""Expert parallelism: how unevenly the ranks compute between a dispatch of tokens and the combine of their results."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import REDUCED, Trace
from ..core.covered import COMPUTES, timed
from ..core.intervals import Ints, union
from .arrivals import Arrivals
from .collectives import COMBINE, DISPATCH


def experts(run: Trace, arrivals: Arrivals) -> dict[str, Any] | None:
    """``dispatches combines pairs spread``: numbers of both on all ranks, of pairs on a rank, and the median over the
    pairs of the largest computation between the two over the mean of the ranks (None with a single rank); None where
    no dispatch is recorded."""
    rows = arrivals.frame.filter(pl.col("kind").is_in([DISPATCH, COMBINE]))
    counts = dict(rows.group_by("kind").len().rows())
    if not counts.get(DISPATCH) or REDUCED in run.info.facts:
        return None
    work = timed(run, COMPUTES).with_columns(pl.col("device").cast(pl.String))
    between: list[Ints] = []
    for (number,), own in rows.group_by("member", maintain_order=True):
        member = arrivals.members[int(number)]
        same = pl.col("rank").eq_missing(pl.lit(member.rank)) & pl.col("device").eq_missing(pl.lit(member.device))
        kernels = work.filter(same)
        begins, ends = _pairs(own)
        if len(begins) and kernels.height:
            starts = kernels["start_ns"].to_numpy()
            between.append(union(starts, starts + kernels["dur_ns"].to_numpy()).within(begins, ends))
    pairs = min(map(len, between), default=0)
    spread = None
    if len(between) > 1 and pairs:
        each = np.stack([one[:pairs] for one in between]).astype(np.float64)
        mean = each.mean(axis=0)
        uneven = (each.max(axis=0) / np.maximum(mean, 1))[mean > 0]
        spread = float(np.median(uneven)) if len(uneven) else None
    return {"dispatches": counts[DISPATCH], "combines": counts.get(COMBINE, 0), "pairs": pairs, "spread": spread}


def _pairs(own: pl.DataFrame) -> tuple[Ints, Ints]:
    """Where each dispatch of a rank ends, and where the first combine after it begins that belongs to no other."""
    sent = own.filter(pl.col("kind") == DISPATCH)["end_ns"].sort().to_numpy()
    back = own.filter(pl.col("kind") == COMBINE)["start_ns"].sort().to_numpy()
    begins, ends, at = [], [], 0
    for moment in sent.tolist():
        while at < len(back) and back[at] < moment:
            at += 1
        if at == len(back):
            break
        begins.append(moment)
        ends.append(int(back[at]))
        at += 1
    return np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)
