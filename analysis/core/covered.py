"""The time that rows cover on their device, overlap counted once: busy, communication, exposed.

Exposed time of some rows is the time they cover and others on the same device do not: communication while nothing is
computed, copies while no kernel runs. ``COMPUTES`` says what computes; nobody else decides that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from .intervals import Intervals, Ints, union, union_per_owner

PLACE = ("rank", "device")
COMPUTES = pl.col("kind") == "kernel"


def timed(run: Trace, kinds: pl.Expr, *columns: str) -> pl.DataFrame:
    """The activities of these kinds with a time: ``PLACE``, start, duration (never negative) and further columns."""
    rows = run.kernels.filter(kinds).select([*dict.fromkeys((*PLACE, "start_ns", "dur_ns", *columns))])
    return rows.drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming").with_columns(
        pl.col("dur_ns").clip(lower_bound=0))


def covered(
    rows: pl.DataFrame, by: Sequence[str] = PLACE, without: pl.DataFrame | None = None, name: str = "time_ns"
) -> pl.DataFrame:
    """Per distinct ``by`` (in order of appearance) the time its rows cover, ns; ``without``: less the time that those
    rows cover on the same place."""
    of_owner = [*dict.fromkeys((*by, *PLACE))]
    keys = rows.select(of_owner).unique(maintain_order=True).with_row_index("_owner")
    owner = rows.join(keys, on=of_owner, how="left", nulls_equal=True, maintain_order="left")
    starts, ends = _bounds(rows)
    first, last, of = union_per_owner(starts, ends, owner["_owner"].cast(pl.Int64).to_numpy())
    time = last - first
    if without is not None and without.height:
        time = time - _taken(keys, without, first, last, of)
    sums = np.bincount(of, weights=time, minlength=keys.height).astype(np.int64)
    return keys.with_columns(pl.Series(name, sums)).group_by(by, maintain_order=True).agg(pl.col(name).sum())


def per_owner(
    starts: Ints, ends: Ints, owner: Ints, owners: int, without: Intervals | None = None
) -> Ints:
    """The time that the intervals of each owner (numbered from 0) cover, ns, less what ``without`` covers of it."""
    first, last, of = union_per_owner(starts, ends, owner)
    time = last - first if without is None else last - first - without.within(first, last)
    return np.bincount(of, weights=time, minlength=owners).astype(np.int64)


def _taken(keys: pl.DataFrame, without: pl.DataFrame, first: Ints, last: Ints, of: Ints) -> Ints:
    """How much of each interval the other rows cover on the place of its owner: places are laid end to end."""
    places = pl.concat([keys.select(PLACE), without.select(PLACE)]).unique(maintain_order=True).with_row_index("_place")

    def place(frame: pl.DataFrame) -> Ints:
        return frame.select(PLACE).join(
            places, on=PLACE, how="left", nulls_equal=True, maintain_order="left")["_place"].cast(pl.Int64).to_numpy()

    starts, ends = _bounds(without)
    zero, end = min(int(starts.min()), int(first.min(initial=0))), max(int(ends.max()), int(last.max(initial=0)))
    shift, mine = place(without) * (end - zero + 1) - zero, place(keys)[of] * (end - zero + 1) - zero
    return union(starts + shift, ends + shift).within(first + mine, last + mine)


def within(rows: pl.DataFrame, window: Intervals) -> pl.DataFrame:
    """The parts of the rows that lie in the window."""
    starts, ends = _bounds(rows)
    first = np.searchsorted(window.ends, starts, side="right")
    count = np.maximum(np.searchsorted(window.starts, ends, side="left") - first, 0)
    mine = np.repeat(np.arange(rows.height), count)
    each = np.arange(len(mine)) + np.repeat(first - (np.cumsum(count) - count), count)
    begin, end = np.maximum(starts[mine], window.starts[each]), np.minimum(ends[mine], window.ends[each])
    return rows[mine].with_columns(start_ns=pl.Series(begin), dur_ns=pl.Series(end - begin))


def _bounds(rows: pl.DataFrame) -> tuple[Ints, Ints]:
    starts = rows["start_ns"].to_numpy()
    return starts, starts + np.maximum(rows["dur_ns"].to_numpy(), 0)
