"""Why a rank arrives late: what it did differently from the other ranks before that.

The stretch before an arrival begins at the end of the rank's previous collective. Its compute, copy and idle time on
the device are compared with the median of the other ranks in the same stretch. The part that makes up most of the
difference is the reason; for idle time, the host shows whether it loaded data or launched late.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import REDUCED, Trace
from ..core import units
from ..core.batches import at_rows
from ..core.intervals import Intervals, union
from ..core.text import display
from .arrivals import Arrivals
from .collectives import BEFORE, Member

Cause = Literal["kernels", "copies", "input", "host", "none shown"]
MOST_LOOKED_AT = 256  # Arrivals that are examined, spread over the run.
MOST_OTHERS = 32  # Other ranks they are compared with.
_STANDS_OUT = 0.3  # Share of the extra time that a kernel must have to be named.
_MAJOR = 0.5  # Share of the delay that a reason must explain.

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


class Reason(Struct, frozen=True):
    """Why a rank is late: the cause, and a clause that says it with figures."""

    cause: Cause
    text: str


class Stretches(NamedTuple):
    """What one member did before each examined arrival, ns: the whole stretch, computing, copying, loading data on its
    host, and the time until its host had launched the collective (the whole stretch where no launch is recorded)."""

    whole: Ints
    work: Ints
    copies: Ints
    loading: Ints
    unlaunched: Ints


def reason_of(run: Trace, arrivals: Arrivals, late: pl.DataFrame) -> Reason:
    """What the member of these last arrivals (rows of ``Arrivals.frame``) did differently from the others."""
    work = _kernel_sums(run) if REDUCED in run.info.facts else run.kernels
    if work.select(pl.col("kind").is_in(["collective", "sync"]).all()).collect(engine="streaming").item():
        return Reason("none shown", "the recording holds nothing but collectives, so it does not show why")
    late = late.gather_every(max(1, late.height // MOST_LOOKED_AT))
    me = int(late["member"][0])
    bounds = _bounds(arrivals.frame, late["instance"])
    parties = [one for one in bounds["member"].unique().sort().to_list() if one != me]
    others = parties[:: max(1, len(parties) // MOST_OTHERS)][:MOST_OTHERS]
    matching = bounds.filter(pl.col("member") == me).drop_nulls("from_ns").sort("instance")
    if matching.is_empty() or not others:
        return Reason("none shown", "it was late before its first recorded collective, so what delayed it is not shown")
    order = matching["instance"]
    own = _stretches(run, arrivals, me, matching)
    theirs = bounds.filter(pl.col("member").is_in(others), pl.col("instance").is_in(order.implode()))
    before = _stretches_of_others(run, arrivals, theirs, others, order)
    usual = [np.nanmedian(stretches, axis=0) for stretches in before]
    more = [float(np.nansum(a - b)) for a, b in zip(own, usual, strict=True)]
    seen = int(np.isfinite(usual[0]).sum())
    if not seen or more[0] <= 0:
        return Reason("none shown", "the recordings do not show what it did differently before them")
    return _reason(run, arrivals, matching, (me, others), (own, usual, more, seen), bounds)


def _reason(
    run: Trace, arrivals: Arrivals, ours: pl.DataFrame, who: tuple[int, list[int]],
    figures: tuple[Stretches, list[np.ndarray[tuple[int], np.dtype[np.float64]]], list[float], int],
    bounds: pl.DataFrame,
) -> Reason:
    own, usual, (delay, work, copies, loading, unlaunched), seen = figures
    idle = delay - work - copies
    def means(place: int, when: str = "before each collective") -> str:
        measured = np.isfinite(usual[place])
        return (
            f"{units.duration(float(own[place][measured].sum()) / seen)} {when}, "
            f"{units.duration(float(usual[place][measured].sum()) / seen)} on the other ranks"
        )
    if work >= _MAJOR * delay:
        return Reason("kernels", f"its own kernels take longer: {means(1)}{_slower(run, arrivals, ours, who, bounds)}")
    if copies >= _MAJOR * delay:
        return Reason("copies", f"its copies take longer: {means(2)}")
    if loading >= _MAJOR * delay:
        return Reason("input", f"it waits for its input: {means(3)}")
    if idle >= _MAJOR * delay:
        gap = f"its device is idle {units.duration(idle / seen)} longer before each collective than the other ranks'"
        if not host_recorded(run, arrivals.members[who[0]].rank):
            return Reason("none shown", f"{gap}; its host is not recorded, so why is not shown")
        if unlaunched >= _MAJOR * delay:
            return Reason("host", f"its host launches collectives late: {means(4, 'after the previous one')}; {gap}")
        return Reason("none shown", f"{gap}, though its host had launched the collective; why is not shown")
    return Reason("none shown", "nothing it did differently before them explains it alone")


def _bounds(frame: pl.DataFrame, instances: pl.Series) -> pl.DataFrame:
    """The stretch before each member's arrival at these collectives: ``from_ns`` (null for its first) to ``to_ns``."""
    before = frame.sort("member", "start_ns").with_columns(
        from_ns=pl.col("end_ns").cum_max().shift(1).over("member")
    ).filter(pl.col("instance").is_in(instances.implode()))
    return before.select(
        "instance", "member", "index", *BEFORE,
        from_ns=pl.when(pl.col("from_ns").is_not_null()).then(pl.min_horizontal("from_ns", "start_ns")),
        to_ns="start_ns",
    )


class Before(NamedTuple):
    """What the last member did between its previous collective and this one, ns, and the others' median of each."""

    member: int
    own: tuple[int, ...]
    usual: tuple[float, ...]


def before(run: Trace, arrivals: Arrivals, instance: int) -> Before | None:
    """What the last member did before that collective, and the others' median, in ``Stretches``; None if unrecorded."""
    came = arrivals.frame.filter(pl.col("instance") == instance, pl.col("last").fill_null(False))["member"]
    rows = _bounds(arrivals.frame, pl.Series([instance])).drop_nulls("from_ns").unique("member").sort("member")
    if not len(came) or came[0] not in rows["member"]:
        return None
    each = {
        row["member"][0]: [int(part[0]) for part in _stretches(run, arrivals, row["member"][0], row)]
        for row in rows.gather_every(max(1, rows.height // MOST_OTHERS)).iter_slices(1)
    }
    last = int(came[0])
    if last not in each:
        each[last] = [int(part[0]) for part in _stretches(run, arrivals, last, rows.filter(pl.col("member") == last))]
    others = np.array([figures for member, figures in each.items() if member != last], dtype=np.float64)
    if not len(others):
        return None
    return Before(last, tuple(each[last]), tuple(float(one) for one in np.median(others, axis=0)))


class Beginning(NamedTuple):
    """For a collective that is the last member's first: that member, how long before its arrival its recording begins,
    ns, and the median of the others; None where unknown."""

    member: int
    own: int | None
    usual: float | None


def beginning(run: Trace, arrivals: Arrivals, instance: int) -> Beginning | None:
    """How much is recorded before a collective that is the last member's first; None where it is not its first."""
    came = arrivals.frame.filter(pl.col("instance") == instance)
    last = came.filter(pl.col("last").fill_null(False))["member"]
    if not len(last) or not _bounds(arrivals.frame, pl.Series([instance])).filter(
        pl.col("member") == last[0], pl.col("from_ns").is_not_null()
    ).is_empty():
        return None
    began = [table.group_by("rank").agg(pl.col("start_ns").min()) for table in (run.host, run.kernels)]
    begins = pl.concat(began).group_by("rank").agg(pl.col("start_ns").min()).collect(engine="streaming")
    first = dict(begins.drop_nulls("start_ns").rows())
    held = {
        member: start - first[rank] for member, start in came.select("member", "start_ns").rows()
        if (rank := arrivals.members[member].rank) in first
    }
    others = [time for member, time in held.items() if member != last[0]]
    return Beginning(int(last[0]), held.get(last[0]), float(np.median(others)) if others else None)


def _stretches(run: Trace, arrivals: Arrivals, member: int, bounds: pl.DataFrame) -> Stretches:
    if REDUCED in run.info.facts:
        return Stretches(*(bounds[name].fill_null(0).to_numpy() for name in BEFORE))
    return stretches(run, arrivals.members[member], bounds)


def stretches(run: Trace, who: Member, bounds: pl.DataFrame) -> Stretches:
    """What a member did before each of some collectives: ``bounds`` has their ``from_ns to_ns index``."""
    matching = run.kernels.filter(
        pl.col("rank").eq_missing(pl.lit(who.rank, pl.Int64)), pl.col("device").cast(pl.String).eq_missing(
            pl.lit(who.device, pl.String)), pl.col("kind").is_in(["kernel", "memcpy", "memset"]),
    ).select("start_ns", "dur_ns", copies=pl.col("kind") != "kernel").drop_nulls().collect(engine="streaming")
    work, copies = (_union(matching.filter(pl.col("copies") == each)) for each in (False, True))
    loads = run.host.filter(
        pl.col("kind") == "dataloader", pl.col("rank").eq_missing(pl.lit(who.rank, pl.Int64))
    ).select("start_ns", "dur_ns").drop_nulls().collect(engine="streaming")
    first, last = bounds["from_ns"].to_numpy(), bounds["to_ns"].to_numpy()
    launches = run.remember("collective launches", (), lambda: _launches(run))
    launched = bounds.select("index").join(launches, on="index", how="left", maintain_order="left")["launched"]
    until = np.clip(launched.fill_null(pl.Series(last)).to_numpy(), first, last)
    return Stretches(
        last - first, work.within(first, last), (copies - work).within(first, last), _union(loads).within(first, last),
        until - first,
    )


def _launches(run: Trace) -> pl.DataFrame:
    """When the launch call of each collective returned, ns: ``index launched``."""
    rows = run.kernels.select("index", "kind").collect(engine="streaming").with_columns(
        call=run.account().activities["call"].cast(pl.Int64)).filter(pl.col("kind") == "collective").drop_nulls("call")
    returned = run.host.select(launched=pl.col("start_ns") + pl.col("dur_ns").fill_null(0))
    return rows.select("index").with_columns(pl.Series(name, ends) for name, ends in at_rows(
        returned, rows["call"].to_numpy()).items())


def _union(rows: pl.DataFrame) -> Intervals:
    starts = rows["start_ns"].to_numpy()
    return union(starts, starts + np.maximum(rows["dur_ns"].to_numpy(), 0))


def _stretches_of_others(
    run: Trace, arrivals: Arrivals, bounds: pl.DataFrame, others: list[int], order: pl.Series
) -> list[np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Each field of ``Stretches`` for the other members (their rows of ``_bounds``), an array (members, collectives);
    NaN where a member has none. A dataset holds these figures already, for all members at once."""
    rows = bounds.drop_nulls("from_ns").unique(["member", "instance"]).sort("member", "instance")
    each = [rows] if REDUCED in run.info.facts else rows.partition_by("member", maintain_order=True)
    stretches = [_stretches(run, arrivals, part["member"][0], part) for part in each if part.height]
    at = np.searchsorted(others, rows["member"]), np.searchsorted(order, rows["instance"])
    result = []
    for name in Stretches._fields:
        whole = np.full((len(others), len(order)), np.nan)
        if stretches:
            whole[at] = np.concatenate([getattr(one, name) for one in stretches])
        result.append(whole)
    return result


def host_recorded(run: Trace, rank: int | None) -> bool:
    """Whether anything of the rank's host is recorded."""
    if REDUCED in run.info.facts:
        sums = run.rank_sums.filter(pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)))
        return bool(sums.select(pl.col("host_recorded").any()).collect().item())
    return bool(run.host.select(pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)).any()).collect().item())


def _slower(
    run: Trace, arrivals: Arrivals, ours: pl.DataFrame, who: tuple[int, list[int]], bounds: pl.DataFrame
) -> str:
    """The kernel that makes up most of the extra time, as the end of a clause; '' where none stands out."""
    me, others = who[0], who[1][:8]
    if REDUCED in run.info.facts:
        each = _kernels_of(run, arrivals, [me, *others])
        own, theirs = each.filter(pl.col("member") == me), each.filter(pl.col("member") != me)
    else:
        timed = bounds.drop_nulls("from_ns")
        own = _by_name(run, arrivals, me, ours)
        theirs = pl.concat(_by_name(run, arrivals, one, timed.filter(pl.col("member") == one)) for one in others)
    usual = theirs.group_by("name").agg(pl.col("mean", "count").median())
    both = own.join(usual, on="name", how="left", suffix="_usual").with_columns(
        more=pl.col("mean") * pl.col("count") - (pl.col("mean_usual") * pl.col("count_usual")).fill_null(0)
    ).sort("more", "name", descending=[True, False])
    more = both["more"].to_numpy()
    if not len(more) or more[0] < _STANDS_OUT * max(float(np.maximum(more, 0).sum()), 1.0):
        return ""
    top = both.row(0, named=True)
    name = display(top["name"] or "?", 60)
    if top["mean_usual"] is None:
        return f", most of all {name}, which the others do not run"
    return f", most of all {name}: {units.duration(top['mean'])} against {units.duration(top['mean_usual'])}"


def _by_name(run: Trace, arrivals: Arrivals, member: int, bounds: pl.DataFrame) -> pl.DataFrame:
    who = arrivals.members[member]
    rows = run.kernels.filter(
        pl.col("rank").eq_missing(pl.lit(who.rank, pl.Int64)), pl.col("kind") == "kernel",
        pl.col("device").cast(pl.String).eq_missing(pl.lit(who.device, pl.String)),
    ).select("start_ns", "dur_ns", pl.col("name").cast(pl.String)).drop_nulls(["start_ns", "dur_ns"]).collect()
    windows = union(bounds["from_ns"].to_numpy(), bounds["to_ns"].to_numpy())
    starts = rows["start_ns"].to_numpy()
    inside = windows.before(starts + 1) > windows.before(starts)
    return rows.filter(pl.Series(inside)).group_by("name").agg(
        mean=pl.col("dur_ns").mean(), count=pl.len().cast(pl.Float64)
    )


def _kernels_of(run: Trace, arrivals: Arrivals, members: list[int]) -> pl.DataFrame:
    """``member name mean count`` in a dataset: over the whole recording or cycle, since it lacks each kernel's time."""
    who = [arrivals.members[member] for member in members]
    looked_at = pl.LazyFrame(
        {"member": members, "rank": [one.rank for one in who], "device": [one.device for one in who]},
        schema={"member": pl.Int64, "rank": pl.Int64, "device": pl.String},
    )
    sums = _kernel_sums(run).filter(
        pl.col("kind") == "kernel", pl.col("rank").is_in([one.rank for one in who], nulls_equal=True)
    )
    return sums.with_columns(pl.col("device").cast(pl.String)).join(
        looked_at, on=["rank", "device"], nulls_equal=True, maintain_order="left"
    ).select("member", pl.col("name").cast(pl.String), "mean", pl.col("count").cast(pl.Float64)).collect()


def _kernel_sums(run: Trace) -> pl.LazyFrame:
    """``rank device name kind count mean`` of a dataset; of a dataset of single cycles, from its sums per cycle."""
    if run.has("kernel_stats"):
        return run.kernel_stats.with_columns(mean="mean_ns")
    keys = ("rank", "device", "function", "kind")
    sums = run.profile.unique([*keys, "pid", "cycle", "cycle_start_ns"]).group_by(keys).agg(
        count=pl.col("instances").sum(), total=pl.col("dur_ns").sum()
    )
    return sums.with_columns(mean=pl.col("total") / pl.col("count")).rename({"function": "name"})
