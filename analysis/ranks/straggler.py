"""Which rank is late: named only where it comes last more often than chance, and by more than clocks are known.

By chance each of the ranks in a collective is last equally often. A rank is named where one of as many ranks would come
last so often by chance in less than one job of a hundred, and only those collectives count at which it came later than
the second last by more than the clocks of both are known.
"""

from __future__ import annotations

from math import comb
from typing import Any

import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..communication.arrivals import Arrivals
from ..communication.collectives import Member
from ..communication.reasons import Reason, reason_of
from ..core import units
from .beginnings import Beginnings, waits_for_beginning

CHANCE = 0.01
"""Jobs without a late rank of which this share may have one named."""
MENTIONED = 0.1
"""A part of the waits below this share is not told apart from the rest."""


class Straggler(Struct, frozen=True):
    """The late rank: at how many of its ``matched`` collectives it was last, how far behind the second last (median),
    what all others waited for it there, and what of that because it began a cycle after them, ns.
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
    def sentence(self) -> str:
        """Who is late, how often and by how much, and what it did differently."""
        who = self.member.text[0].upper() + self.member.text[1:]
        if self.member.rank is not None and self.member.device is not None:
            who += f" ({self.member.device})"
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
        """What the view says beside its rows."""
        return {
            "rank": self.member.rank, "device": self.member.device, "share": self.share, "times": self.times,
            "matched": self.matched, "lead_ns": self.lead_ns, "caused_wait_ns": self.caused_ns,
            "begin_wait_ns": self.begin_ns, "chance": self.chance, "sentence": self.sentence,
            "reason": "begins late" if self.begin_ns > self.caused_ns / 2 else self.reason.cause,
        }


def straggler_of(run: Trace, arrivals: Arrivals, begun: Beginnings | None = None) -> Straggler | None:
    """The late rank of the run; None where none is late more often than chance and by more than clocks are known."""
    frame = arrivals.frame.drop_nulls("instance")
    if frame.is_empty():
        return None
    late = _surely_last(frame, arrivals)
    met = dict(frame.group_by("member").len().rows())
    odds = dict(frame.group_by("member").agg((1 / pl.col("parties")).mean()).rows())
    caused = late.group_by("member").agg(
        pl.len(), pl.col("caused_ns").sum(), pl.col("lead_ns").median()
    ).sort("caused_ns", "member", descending=[True, False])
    for member, times, cost, lead in caused.rows():
        chance = min(1.0, _at_least(times, met[member], odds[member]) * len(met))
        if chance < CHANCE:
            mine = late.filter(pl.col("member") == member)
            began = waits_for_beginning(arrivals, begun) if begun is not None else {}
            return Straggler(
                arrivals.members[member], times, met[member], lead, cost, chance, reason_of(run, arrivals, mine),
                min(cost, began.get(member, 0)),
            )
    return None


def _surely_last(frame: pl.DataFrame, arrivals: Arrivals) -> pl.DataFrame:
    """The last arrivals that are later than the second last by more than both clocks are known."""
    residual = pl.Series(arrivals.clocks.residual)
    known = frame.with_columns(residual=pl.lit(residual).gather(pl.col("member")))
    second = known.sort("arrival_ns", descending=True).group_by("instance").agg(
        doubt=pl.col("residual").head(2).max(), unknown=pl.col("residual").head(2).is_nan().any()
    )
    told = known.filter("last").join(second, on="instance")
    return told.filter(~pl.col("unknown"), pl.col("lead_ns") > pl.col("doubt")).sort("instance")


def _at_least(times: int, of: int, chance: float) -> float:
    """Probability of at least so many of independent trials."""
    if of > 2_000:
        from math import erfc, sqrt

        spread = sqrt(of * chance * (1 - chance)) or 1.0
        return 0.5 * erfc((times - 0.5 - of * chance) / spread / sqrt(2))
    return sum(comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(times, of + 1))
