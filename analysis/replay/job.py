"""The time per cycle that ranks of a job cost each other: from one replay of all ranks, else from their arrivals.

A collective ends for all ranks once the last one has arrived and the transfer is done, so one late rank delays all
others. After ByteDance's StragglerAnalysis: the recorded job is compared with the same job with its straggler as fast
as the others, with perfect balance, and with all communication hidden. Arrivals alone give upper bounds, and the
sentence says so; they need no launches, and neither does the replay of devices alone, which a reduced dataset of a
thousand ranks has, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from ...loaders.trace import REDUCED, Trace
from ..communication.arrivals import Arrivals, arrivals_of
from ..communication.by_kind import exposed_per_call
from ..contract.options import Options
from ..core import units
from ..core.call_tree import Ints
from ..cycles.detection import counted_cycles
from ..ranks.beginnings import straggler_of
from ..ranks.job_replay import JobReplay, job_replay_of
from ..ranks.pipeline import pipeline_straggler
from .replayed import Replayed
from .together import balanced

_SLOW = 0.1
"""Part of what an arrival with the others may save that faster work must save for the late rank to be slow."""


class Job(Struct, frozen=True):
    """Savings in ns per cycle (per recording if ``cycles`` is 0).

    If ``replayed``, the savings with the ``straggler`` (null if no rank is late more often than chance) as fast as the
    mean of the others, with every rank as fast as the mean, and with collectives that take no time and wait for
    nobody. Else upper bounds: how much sooner collectives would end if the straggler arrived with the second-last rank,
    or if every rank arrived at the mean; and the mean exposed communication of a rank. ``straggler_at_most_ns`` is the
    first of these bounds, kept beside the replayed figure.
    """

    ranks: int
    collectives: int
    cycles: int
    cycle_ns: int | None
    straggler: str | None
    straggler_ns: int | None
    balance_ns: int
    hidden_ns: int
    replayed: bool = False
    straggler_at_most_ns: int | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The fields as they are exported."""
        result: dict[str, Any] = to_builtins(self)
        return result

    def sentence(self, doubt: float = 0.0) -> str:
        """The three savings in words, rounded to ``doubt``: the share by which replayed times may be off."""
        unit = "cycle" if self.cycles else "recording"
        least = "" if self.replayed else "at most "
        parts = [f"the same work on every rank saves {least}{self._of(self.balance_ns, doubt)} a {unit}",
                 f"no exposed communication {least}{self._of(self.hidden_ns, doubt)}"]
        late = ""
        if self.straggler is not None and self.straggler_ns is not None:
            name, most = f"{self.straggler[0].upper()}{self.straggler[1:]}", self.straggler_at_most_ns
            if self.replayed and most is not None and self.straggler_ns < _SLOW * most:
                late = (f"{name} arrives late but works as fast as the others: faster work there saves "
                        f"{self._of(self.straggler_ns, doubt)} a {unit}, arriving with the second-last "
                        f"rank at most {units.duration(most)}. ")
            else:
                bound = "" if most is None else f" (by arrivals alone at most {units.duration(most)})"
                late = (f"{name}, as fast as the others, saves "
                        f"{least}{self._of(self.straggler_ns, doubt)} a {unit}{bound}. ")
        matched = units.counted(self.collectives, "collective", "collectives")
        ranks = units.counted(self.ranks, "rank", "ranks")
        return f"{late}{ranks} replayed together at {matched}: {'; '.join(parts)}." if self.replayed else (
            f"{late}{ranks} share {matched}: {'; '.join(parts)}.")

    def _of(self, ns: int, doubt: float) -> str:
        share = "" if not self.cycle_ns else f" ({units.percent(100 * ns / self.cycle_ns, places=1)})"
        return f"{units.within(ns, ns * doubt)}{share}"


def job_of(run: Trace, options: Options, replayed: Replayed | None = None) -> Job | None:
    """What ranks cost each other: from the replay if it predicts changes, else bounds. None where no collective was
    matched between ranks."""
    arrivals = arrivals_of(run)
    if not arrivals.count:
        return None
    bounds = _bounds(run, arrivals, options)
    if arrivals.paired or REDUCED in run.info.facts:
        together = job_replay_of(run, options)
        if isinstance(together, JobReplay):
            return _of_devices(run, arrivals, bounds, together, options)
        if arrivals.paired:
            return None
    return bounds if replayed is None or not replayed.predicts else _replayed(run, arrivals, replayed, bounds)


def _of_devices(run: Trace, arrivals: Arrivals, bounds: Job, replay: JobReplay, options: Options) -> Job:
    """The savings by the replay of devices alone: of a pipeline, where arrivals bound nothing because ranks wait for
    each other all the time, and of a reduced dataset."""
    late = pipeline_straggler(run, arrivals, options)
    if late is None and not arrivals.paired and (one := straggler_of(run, arrivals)) is not None:
        late = {"rank": one.member.rank, "saved_ns": round(replay.saved_ns[replay.workers.index(one.member)])}
    cycles = bounds.cycles or 1
    return replace(
        bounds, cycles=cycles, cycle_ns=round(replay.recorded_ns),
        straggler=None if late is None else f"rank {late['rank']}",
        straggler_ns=None if late is None else late["saved_ns"],
        balance_ns=max(0, round(replay.replayed_ns - replay.even_ns)),
        hidden_ns=max(0, round(replay.replayed_ns - replay.free_ns)), replayed=True)


def _replayed(run: Trace, arrivals: Arrivals, replayed: Replayed, bounds: Job) -> Job:
    model = replayed.model
    assert model is not None
    recorded, links, recording = model.recorded, model.links, model.recording

    def saved(**knobs: Ints) -> int:
        return min(max(0, round(replayed.saved_with(replace(recorded, **knobs)))), round(replayed.cycle_ns))

    def even(only: int | None = None) -> int:
        dur, gap = balanced(recording, links, recorded.gap, only)
        return saved(dur=dur, gap=gap)

    late, alone = straggler_of(run, arrivals), recording.activities.kind.where("collective".__eq__)
    straggler = None if late is None or late.member.rank is None else even(late.member.rank)
    hidden = saved(group=np.full_like(links.group, -1), dur=np.where(alone, 0, recorded.dur))
    return replace(
        bounds, cycles=replayed.accuracy.cycles, cycle_ns=round(replayed.cycle_ns), straggler_ns=straggler,
        balance_ns=even(), hidden_ns=hidden, replayed=True, straggler_at_most_ns=bounds.straggler_ns)


def _bounds(run: Trace, arrivals: Arrivals, options: Options) -> Job:
    frame = arrivals.met
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
        exposed_per_call(run, arrivals.frame, arrivals.members))
    per = max(number, 1)
    return Job(
        len(arrivals.members), arrivals.count, number, None if mean is None else round(mean),
        None if late is None else late.member.text, None if lead is None else round(lead / per),
        round(float(each["behind"].sum()) / per), round(float(alone.sum()) / len(arrivals.members) / per),
    )
