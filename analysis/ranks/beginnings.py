"""The straggler of a job, and how far apart its ranks begin a cycle.

A rank is named only if, by chance, any of so many ranks would come last that often in fewer than one job in a hundred;
only collectives count at which it came behind the second last by more than the residual of both clocks. A rank that
begins its cycle late comes late to the first collective of the cycle, however fast it is afterwards. Cycle begins are
recorded on each rank's own clock and converted to the common clock, which the ends of collectives define.
"""

from __future__ import annotations

from math import comb, isnan
from typing import Any

import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..communication.arrivals import Arrivals
from ..communication.collectives import Member
from ..communication.reasons import Reason, reason_of
from ..contract.options import Options
from ..core import units
from ..cycles.detection import view_cycles

UNMEASURED = 1e6  # ns by which recorded clocks may be off where no collective measures them.
LEAST_SHARE = 0.01  # Ranks that begin less than this share of a cycle apart are not mentioned.


class Beginnings(Struct, frozen=True):
    """``behind`` has one row per rank and cycle: ``rank member cycle start_ns dur_ns`` on its own clock, ``begin_ns``
    on the common clock, ``doubt``, how far that may be off, and ``behind_ns``, how long after the first rank it begins.
    Empty where that is unknown."""

    behind: pl.DataFrame

    @property
    def of_ranks(self) -> dict[int | None, float | None]:
        """How long after the first rank each rank begins a cycle, median over the cycles, ns; None where recorded
        clocks do not tell."""
        rows = self.behind.group_by("rank").agg(pl.col("behind_ns").median(), pl.col("doubt").max()).sort("rank")
        told = (pl.col("behind_ns") == 0) | (pl.col("doubt") != UNMEASURED) | (pl.col("behind_ns") >= UNMEASURED)
        return dict(rows.select("rank", pl.when(told).then("behind_ns")).rows())

    @property
    def spread_ns(self) -> float | None:
        """How long after the first rank the last one begins a cycle, median over the cycles, ns."""
        most = self.behind.group_by("cycle").agg(pl.col("behind_ns").max())["behind_ns"].median()
        return float(most) if isinstance(most, int | float) else None

    def facts(self) -> dict[str, Any] | None:
        """Which ranks begin first and last, and how far apart; None where that is unknown."""
        by_rank = sorted((behind, rank) for rank, behind in self.of_ranks.items() if behind is not None)
        if len(by_rank) < 2:
            return None
        return {"spread_ns": self.spread_ns, "first_rank": by_rank[0][1], "last_rank": by_rank[-1][1],
                "cycles": self.behind["cycle"].n_unique()}

    @property
    def sentence(self) -> str | None:
        """How far apart ranks begin cycles; None where they begin together within the clocks' residual."""
        last, least = self.facts(), self.behind.select(
            pl.max_horizontal(pl.col("doubt").max(), pl.col("dur_ns").median() * LEAST_SHARE)).item()
        if last is None or last["spread_ns"] <= (least or 0.0):
            return None
        per = "the cycle" if last["cycles"] == 1 else "a cycle"
        typically = "" if last["cycles"] == 1 else " (median)"
        return (f"Ranks begin {per} up to {units.duration(last['spread_ns'])} apart{typically}: rank "
                f"{last['first_rank']} first, rank {last['last_rank']} last.")


def beginnings_of(run: Trace, arrivals: Arrivals, options: Options) -> Beginnings:
    """When each rank begins each of the cycles that several ranks recorded."""
    cycles = view_cycles(run, options)
    rows = cycles.frame.select("rank", "cycle", "start_ns", "dur_ns").drop_nulls()
    clocks = arrivals.clocks
    clocks_of = [
        (one.rank, offset, UNMEASURED if isnan(doubt) else doubt, number)
        for number, (one, offset, doubt) in enumerate(
            zip(arrivals.members, clocks.on_first.tolist(), clocks.doubt.tolist(), strict=True))
        if one.rank is not None and not isnan(offset)
    ]
    schema = {"rank": pl.Int64, "offset": pl.Float64, "doubt": pl.Float64, "member": pl.Int64}
    clock = pl.DataFrame(clocks_of, schema=schema, orient="row").unique("rank", keep="first", maintain_order=True)
    rows = rows.cast({"rank": pl.Int64}).join(clock, on="rank")
    rows = rows.filter(pl.len().over("cycle") > 1, pl.len().over("rank", "cycle") == 1)
    starts = rows.with_columns(begin_ns=pl.col("start_ns") - pl.col("offset")).with_columns(
        behind_ns=pl.col("begin_ns") - pl.col("begin_ns").min().over("cycle"))
    return Beginnings(starts.clear() if cycles.guessed else starts)


def waits_for_beginning(arrivals: Arrivals, beginnings: Beginnings) -> dict[int, int]:
    """Per member: how long others waited at the first collectives of cycles because it began these later, ns."""
    if beginnings.behind.is_empty():
        return {}
    starts = beginnings.behind.select("member", "cycle", "begin_ns", cycle_ns="start_ns").sort("cycle_ns")
    met = arrivals.met.select("instance", "member", "start_ns", "wait_ns", "last")
    inside = met.sort("start_ns").join_asof(
        starts, left_on="start_ns", right_on="cycle_ns", by="member", check_sortedness=False).drop_nulls("cycle")
    first = inside.unique(["member", "cycle"], keep="first", maintain_order=True)
    late = first.filter("last").select("instance", "cycle", "begin_ns", late="member")
    both = inside.join(late, on=["instance", "cycle"], suffix="_late").filter(pl.col("member") != pl.col("late"))
    earlier = (pl.col("begin_ns_late") - pl.col("begin_ns")).clip(lower_bound=0)
    sums = both.group_by("late").agg(pl.min_horizontal("wait_ns", earlier).sum().round().cast(pl.Int64))
    return dict(sums.rows())


CHANCE = 0.01  # False-alarm rate: share of jobs without a straggler in which one may be named.
MENTIONED = 0.1  # A part of the waits below this share is not reported by itself.


class Straggler(Struct, frozen=True):
    """The late rank: at how many of its ``matched`` collectives it was last, how far behind the second last (median),
    how long all others together waited for it there, and how much of that because it began a cycle after them, ns.
    """

    member: Member
    times: int
    matched: int
    lead_ns: float
    caused_ns: int
    chance: float
    reason: Reason
    begin_ns: int = 0

    @property
    def share(self) -> float:
        """Share of its collectives at which it came last, 0-1."""
        return self.times / self.matched

    @property
    def who(self) -> str:
        """The rank with its device."""
        text, device = self.member.text, self.member.device
        if self.member.rank is None or device is None:
            return text
        return f"{text[:-1]}, {device})" if self.member.place else f"{text} ({device})"

    @property
    def sentence(self) -> str:
        """Which rank is late, how often and by how much, and what it did differently."""
        who = self.who[0].upper() + self.who[1:]
        shared = units.counted(self.matched, "collective", "collectives")
        waits = f"makes the others wait {units.duration(self.caused_ns)} in all"
        began = f"{units.duration(self.begin_ns)} of it because it begins its cycles after them"
        if self.begin_ns < MENTIONED * self.caused_ns:
            waits = f"{waits}: {self.reason.text}."
        elif self.begin_ns > (1 - MENTIONED) * self.caused_ns:
            waits = f"{waits}, {began}."
        else:
            waits = f"{waits}, {began}. Within the cycle {self.reason.text}."
        return (f"{who} comes last at {units.count(self.times)} of {shared}, {units.duration(self.lead_ns)} behind the "
                f"second last (median), and {waits}")

    def facts(self) -> dict[str, Any]:
        """The straggler as facts of the view."""
        return {
            "rank": self.member.rank, "device": self.member.device, "share": self.share, "times": self.times,
            "matched": self.matched, "lead_ns": self.lead_ns, "caused_wait_ns": self.caused_ns,
            "begin_wait_ns": self.begin_ns, "chance": self.chance, "sentence": self.sentence,
            "reason": "begins late" if self.begin_ns > self.caused_ns / 2 else self.reason.cause,
        }


def straggler_of(run: Trace, arrivals: Arrivals, beginnings: Beginnings | None = None) -> Straggler | None:
    """The late rank of the run; None if none is late more often than chance and by more than the clocks' residual, and
    where ranks send each other messages: the last of a pipeline is not its slowest (``pipeline``)."""
    frame = arrivals.met
    if frame.is_empty() or arrivals.messages.labelled or arrivals.messages.unlabelled:
        return None
    residual = pl.Series(arrivals.clocks.residual)
    measured = frame.with_columns(residual=pl.lit(residual).gather(pl.col("member")))
    second = measured.sort("arrival_ns", descending=True).group_by("instance").agg(
        doubt=pl.col("residual").head(2).max(), unknown=pl.col("residual").head(2).is_nan().any()
    )
    last = measured.filter("last").join(second, on="instance")
    late = last.filter(~pl.col("unknown"), pl.col("lead_ns") > pl.col("doubt")).sort("instance")
    met = dict(frame.group_by("member").len().rows())
    odds = dict(frame.group_by("member").agg((1 / pl.col("parties")).mean()).rows())
    caused = late.group_by("member").agg(
        pl.len(), pl.col("caused_ns").sum(), pl.col("lead_ns").median()
    ).sort("caused_ns", "member", descending=[True, False])
    for member, times, cost, lead in caused.rows():
        chance = min(1.0, _at_least(times, met[member], odds[member]) * len(met))
        if chance < CHANCE:
            matching = late.filter(pl.col("member") == member)
            began = waits_for_beginning(arrivals, beginnings) if beginnings is not None else {}
            return Straggler(
                arrivals.members[member], times, met[member], lead, cost, chance, reason_of(run, arrivals, matching),
                min(cost, began.get(member, 0)),
            )
    return None


def _at_least(times: int, of: int, chance: float) -> float:
    """Probability of at least ``times`` successes in ``of`` independent trials."""
    if of > 2_000:
        from math import erfc, sqrt

        spread = sqrt(of * chance * (1 - chance)) or 1.0
        return 0.5 * erfc((times - 0.5 - of * chance) / spread / sqrt(2))
    return sum(comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(times, of + 1))
