"""What the ranks of a job cost each other per cycle, from when each came to each collective.

A collective is over for all once the last rank has come and the transfer is done, so a rank that is late at one makes
all others late. It needs no launches: a reduced dataset of a thousand ranks keeps the columns. After ByteDance's
StragglerAnalysis: the job as recorded beside the same job with a straggler as fast as the others, with perfect balance,
and with all communication hidden. Where communication is overlapped these are bounds, and the sentence says so.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct, to_builtins

from ...loaders.trace import REDUCED, Trace
from ..communication.arrivals import Arrivals, arrivals_of
from ..communication.by_kind import exposed
from ..contract.options import Options
from ..core import units
from ..cycles.detection import counted_cycles
from ..ranks.beginnings import straggler_of


class Job(Struct, frozen=True):
    """Times in ns per cycle (per recording where there are no cycles, ``cycles`` then is 0).

    ``straggler_ns`` is how much sooner collectives would end if the ``straggler`` came as early as the second last,
    null where none is late more often than chance. ``balance_ns`` is that if every rank came at the mean of all,
    ``hidden_ns`` the mean time of a rank in which it communicates and computes nothing.
    """

    ranks: int
    collectives: int
    cycles: int
    cycle_ns: int | None
    straggler: str | None
    straggler_ns: int | None
    balance_ns: int
    hidden_ns: int

    @property
    def facts(self) -> dict[str, Any]:
        """As exports carry it."""
        made: dict[str, Any] = to_builtins(self)
        return made

    @property
    def sentence(self) -> str:
        """The three in words."""
        unit = "cycle" if self.cycles else "recording"
        parts = [f"perfect balance {self._of(self.balance_ns)}", f"hiding all communication {self._of(self.hidden_ns)}"]
        if self.straggler_ns is not None:
            parts.insert(0, f"{self.straggler} as fast as the others {self._of(self.straggler_ns)}")
        matched = units.counted(self.collectives, "collective", "collectives")
        return (f"{units.count(self.ranks)} ranks, {matched} matched. "
                f"Wins at most per {unit}: {', '.join(parts)}.")

    def _of(self, ns: int) -> str:
        share = "" if not self.cycle_ns else f" ({units.percent(100 * ns / self.cycle_ns, places=1)})"
        return f"{units.duration(ns)}{share}"


def job_of(run: Trace, options: Options) -> Job | None:
    """What ranks cost each other; None where no collective was matched between ranks."""
    arrivals = arrivals_of(run)
    return _job(run, arrivals, options) if arrivals.count else None


def _job(run: Trace, arrivals: Arrivals, options: Options) -> Job:
    frame = arrivals.frame.drop_nulls("instance")
    cycles = counted_cycles(run, options).frame.filter(pl.col("dur_ns").is_not_null())
    number = int(cycles.group_by("rank").len()["len"].median() or 0) if cycles.height else 0  # type: ignore[arg-type]
    mean = float(cycles["dur_ns"].mean()) if number else None  # type: ignore[arg-type]
    late = straggler_of(run, arrivals)
    each = frame.group_by("instance").agg(behind=pl.col("arrival_ns").max() - pl.col("arrival_ns").mean())
    lead = None
    if late is not None:
        member = arrivals.members.index(late.member)
        lead = frame.filter("last", pl.col("member") == member)["lead_ns"].sum()
    alone = arrivals.frame["exposed_ns"] if REDUCED in run.info.facts else pl.Series(
        exposed(run, arrivals.frame, arrivals.members))
    per = max(number, 1)
    return Job(
        len(arrivals.members), arrivals.count, number, None if mean is None else round(mean),
        None if late is None else late.member.text, None if lead is None else round(lead / per),
        round(float(each["behind"].sum()) / per), round(float(alone.sum()) / len(arrivals.members) / per),
    )
