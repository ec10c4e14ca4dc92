"""Replay of all ranks of a job together: a collective ends once its last rank has arrived and the transfer is done.

Each rank keeps its own clock. A member ends as long after that moment as recorded, so that the unchanged replay ends
as the recording did, and what one rank saves reaches the others through the collectives.
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


class RankLinks(Struct, frozen=True):
    """Per activity: ``group``, the number of its collective (-1: none); ``rank``; ``ahead``, how far that rank's clock
    is ahead; ``late``, how long after the transfer it ends, on its own clock. Per collective: ``transfer``. Per call:
    ``calls_ahead``, as ``ahead``. Times in ns."""

    group: Rows
    rank: Rows
    ahead: Ints
    late: Ints
    transfer: Ints
    calls_ahead: Ints


def no_links(recording: Recording) -> RankLinks:
    """No links: no collective is matched, and all ranks share one clock."""
    none = np.zeros(len(recording.activities.start), dtype=np.int64)
    few = none.astype(np.int32)
    return RankLinks(few - 1, few, none, none, none[:0], np.zeros(len(recording.calls.start), dtype=np.int64))


def links_of(run: Trace, recording: Recording) -> RankLinks:
    """The links between the ranks of a run."""
    arrivals = arrivals_of(run) if len(run.info.ranks) > 1 else None
    if arrivals is None or not arrivals.count:
        return no_links(recording)
    a, c = recording.activities, recording.calls
    ranks = run.kernels.select(pl.col("rank").fill_null(-1)).collect(engine="streaming")["rank"].to_numpy()
    rank = ranks[a.row].astype(np.int64)
    clock = {member.rank: round(float(ahead)) for member, ahead in zip(
        reversed(arrivals.members), reversed(np.nan_to_num(arrivals.clocks.offset)), strict=True)}  # unknown: unmatched
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
    return RankLinks(group.astype(np.int32), rank.astype(np.int32), ours, late, transfer, of_chain[c.chain])


def balanced(recording: Recording, links: RankLinks, gap: Ints, only: int | None = None) -> tuple[Ints, Ints]:
    """Activity durations and host time before calls (ns) with all ranks as fast as their mean; with ``only``, that rank
    as fast as the mean of the others where it is slower. Collectives stay as they are."""
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
    """Names that all ranks have equally often are averaged occurrence by occurrence; others are scaled to the mean."""
    rows = pl.DataFrame({"name": name, "rank": rank, "value": values}).with_columns(
        at=pl.int_range(pl.len()).over("name", "rank"), count=pl.len().over("name", "rank"),
        own=pl.col("value").mean().over("name", "rank"))
    among = rows if only is None else rows.filter(pl.col("rank") != only)
    ranks = among["rank"].n_unique()
    spread = rows.join(
        among.group_by("name", "at").agg(one=pl.col("value").mean(), same=pl.len()), on=["name", "at"], how="left",
        maintain_order="left",
    ).join(among.group_by("name").agg(mean=pl.col("value").mean()), on="name", how="left", maintain_order="left")
    equally = ((pl.col("count").n_unique() == 1) & (pl.col("same").min() == ranks)).over("name")
    even = pl.when(equally).then("one").otherwise(pl.col("value") * pl.col("mean") / pl.col("own"))
    even = pl.when(even.is_finite()).then(even).otherwise("value")
    if only is not None:
        even = pl.when(pl.col("rank") == only).then(pl.min_horizontal(even, "value")).otherwise("value")
    return spread.select(even.round().cast(pl.Int64)).to_series().to_numpy()
