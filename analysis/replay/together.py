"""The ranks of a job replayed as one: a collective is over for all once the last rank has come and the data is there.

Each rank keeps its own clock. A member is released as long after that moment as it was recorded to be, so that the
unchanged replay ends as the recording did, and what one rank saves reaches the others through the collectives.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..communication.arrivals import arrivals_of
from ..communication.collectives import ENDS_TOGETHER
from ..core.call_tree import Ints, Rows
from .recording import Recording


class Together(Struct, frozen=True):
    """For each activity its ``group`` (the number of its collective, -1 for none), ``rank``, how far the clock of that
    is ``ahead``, and how ``late`` after the transfer a member ends by its own clock; ns. ``transfer`` is of each
    collective, ``calls_ahead`` of each call."""

    group: Rows
    rank: Rows
    ahead: Ints
    late: Ints
    transfer: Ints
    calls_ahead: Ints


def apart(recording: Recording) -> Together:
    """No collective is matched, and there is one clock."""
    none = np.zeros(len(recording.activities.start), dtype=np.int64)
    few = none.astype(np.int32)
    return Together(few - 1, few, none, none, none[:0], np.zeros(len(recording.calls.start), dtype=np.int64))


def together(run: Trace, recording: Recording) -> Together:
    """What links the ranks of a run."""
    arrivals = arrivals_of(run) if len(run.info.ranks) > 1 else None
    if arrivals is None or not arrivals.count:
        return apart(recording)
    a, c = recording.activities, recording.calls
    ranks = run.kernels.select(pl.col("rank").fill_null(-1)).collect(engine="streaming")["rank"].to_numpy()
    rank = ranks[a.row].astype(np.int64)
    clock = {member.rank: round(float(ahead)) for member, ahead in zip(
        reversed(arrivals.members), reversed(np.nan_to_num(arrivals.clocks.offset)), strict=True)}
    ahead = np.array([clock.get(one, 0) for one in range(int(rank.max()) + 1)], dtype=np.int64)
    matched = arrivals.frame.filter(pl.col("instance").is_not_null(), pl.col("kind").is_in(ENDS_TOGETHER))
    number = run.kernels.select("index").collect(engine="streaming").join(
        matched.select("index", pl.col("instance").rank("dense").cast(pl.Int64) - 1), on="index", how="left",
        maintain_order="left")["instance"].fill_null(-1).to_numpy()
    group, ours = number[a.row], ahead[np.maximum(rank, 0)]
    members = np.flatnonzero(group >= 0)
    groups = int(group.max(initial=-1)) + 1
    last, transfer = np.full(groups, np.iinfo(np.int64).min), np.full(groups, np.iinfo(np.int64).max)
    np.maximum.at(last, group[members], (a.start - ours)[members])
    np.minimum.at(transfer, group[members], a.dur[members])
    late = np.zeros(len(group), dtype=np.int64)
    late[members] = a.end[members] - (last + transfer)[group[members]]
    of_chain = np.zeros(int(c.chain.max()) + 1, dtype=np.int64)
    launched = a.call >= 0
    of_chain[c.chain[a.call[launched]]] = ours[launched]
    return Together(group.astype(np.int32), rank.astype(np.int32), ours, late, transfer, of_chain[c.chain])


def evened(recording: Recording, links: Together, gap: Ints, only: int | None = None) -> tuple[Ints, Ints]:
    """Durations of activities and host time before calls with all ranks as fast as their mean; with ``only`` that rank
    as fast as the mean of the others where it is slower, ns. Collectives stay."""
    a, c = recording.activities, recording.calls
    rank_of = np.full(int(c.chain.max()) + 1, -1, dtype=np.int64)
    launched = a.call >= 0
    rank_of[c.chain[a.call[launched]]] = links.rank[launched]
    work = np.flatnonzero(~a.kind.where("collective".__eq__))
    before = np.flatnonzero((gap > 0) & (rank_of[c.chain] >= 0))
    dur, gap = a.dur.copy(), gap.copy()
    dur[work] = _even(a.name.number[work].astype(np.int64), links.rank[work], dur[work], only)
    gap[before] = _even(c.name[before], rank_of[c.chain[before]], gap[before], only)
    return dur, gap


def _even(name: Ints, rank: Ints | Rows, values: Ints, only: int | None) -> Ints:
    """What all ranks have equally often of a name is compared one by one, the rest by its mean."""
    rows = pl.DataFrame({"name": name, "rank": rank, "value": values}).with_columns(
        at=pl.int_range(pl.len()).over("name", "rank"), count=pl.len().over("name", "rank"),
        own=pl.col("value").mean().over("name", "rank"))
    among = rows if only is None else rows.filter(pl.col("rank") != only)
    ranks = among["rank"].n_unique()
    told = rows.join(
        among.group_by("name", "at").agg(one=pl.col("value").mean(), same=pl.len()), on=["name", "at"], how="left",
        maintain_order="left",
    ).join(among.group_by("name").agg(mean=pl.col("value").mean()), on="name", how="left", maintain_order="left")
    equally = ((pl.col("count").n_unique() == 1) & (pl.col("same").min() == ranks)).over("name")
    even = pl.when(equally).then("one").otherwise(pl.col("value") * pl.col("mean") / pl.col("own"))
    even = pl.when(even.is_finite()).then(even).otherwise("value")
    if only is not None:
        even = pl.when(pl.col("rank") == only).then(pl.min_horizontal(even, "value")).otherwise("value")
    return told.select(even.round().cast(pl.Int64)).to_series().to_numpy()
