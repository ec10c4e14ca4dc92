"""Ranks: what each rank of a job did and waited for, for whom the others waited, and who is late."""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..communication.arrivals import Arrivals, arrivals_of
from ..contract.column import Column, side_by_side
from ..contract.options import SIDES, Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.text import display
from ..cycles.reduced import lacking
from ..ranks.beginnings import Straggler, beginnings_of, straggler_of
from ..ranks.by_rank import by_rank, heat_of
from ..table.sides import beside

COLUMNS = (
    Column("rank", "rank", "number", "rank of the job", width=6, order=0, pinned=True, role="order", pairs="key"),
    Column("device", "device", "text", "its device", width=7, order=6, role="where", pairs="key"),
    Column("host", "host", "text", "machine it ran on", width=14, order=9, role="where"),
    Column("cycle_ns", "cycle", "ns", "mean duration of its cycles", width=10, order=3),
    Column("busy_ns", "busy", "ns", "time in which its device ran anything", width=10, order=4),
    Column("comm_ns", "communication", "ns", "time in which a collective ran", width=13, order=5),
    Column("exposed_ns", "exposed", "ns", "of it while nothing was computed", width=10, order=2),
    Column("wait_ns", "waited", "ns", "in collectives, for the last rank to come", width=10, order=1),
    Column("caused_wait_ns", "caused wait", "ns", "what all others waited where it came last", width=11, order=0,
           role="time", pairs="sum"),
    Column("last_count", "last at", "count", "collectives at which it came last", width=7, order=1, role="count",
           pairs="sum"),
    Column("lead_ns", "behind", "ns", "how far behind the second last it came there, median", width=9, order=6),
    Column("behind_ns", "begins", "ns", "how long after the first rank it begins a cycle, median", width=9, order=5),
    Column("clock_offset_ns", "clock", "ns", "how far its clock is ahead of the first rank's, by the ends of common "
           "collectives", width=10, order=7, signed=True),
    Column("clock_residual_ns", "clock ±", "ns", "spread of those differences: how well the clock is known; empty with "
           "fewer than three", width=9, order=7),
    Column("memory_peak", "memory", "bytes", "most device memory allocated, where recorded", width=9, order=8),
    Column("memory_reserved", "reserved", "bytes", "most device memory the allocator had taken, where recorded",
           width=9, order=8),
    Column("memory_share", "of device", "fraction", "of the device's memory taken at the peak, where both are recorded",
           width=9, order=8),
    Column("matched", "of", "count", "collectives it shares with other ranks", width=6, order=8),
)


def build(runs: Runs, options: Options) -> Answer:
    """The ranks of one run, the one the others waited for most first; of two runs side by side by that change."""
    told = [_one(run, options) for run in runs]
    if len(runs) == 1:
        (frame, facts, summary, notes), = told
        return Answer(frame.select(column.name for column in COLUMNS).lazy(), facts, summary, notes)
    frames = [one[0] for one in told]
    facts = {side: one[1] for side, one in zip(SIDES, told, strict=True)}
    summary = tuple(f"{side}: {line}" for side, one in zip("AB", told, strict=True) for line in one[2])
    notes = tuple(f"{side}: {line}" for side, one in zip("AB", told, strict=True) for line in one[3])
    return Answer(beside(frames[0], frames[1], COLUMNS).lazy(), facts, (*summary, _changed(facts)), notes)


def _one(run: Trace, options: Options) -> tuple[pl.DataFrame, dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    arrivals = arrivals_of(run)
    begun = beginnings_of(run, arrivals, options)
    frame = by_rank(run, arrivals, options, begun)
    if frame.is_empty():
        raise CannotAnswer(f"{run.info.label} holds no device activity with times: its ranks did nothing recorded.")
    late = straggler_of(run, arrivals, begun)
    facts: dict[str, Any] = {
        "straggler": late.facts() if late else None, "collectives": arrivals.count,
        "matched_by": arrivals.matching.how, "heat": heat_of(run, arrivals, options), "memory": _memory(frame),
        "begin": begun.facts(),
    }
    said = (_sentence(arrivals, late, frame), *filter(None, (begun.sentence,)), *_nearest(facts["memory"]))
    return frame, facts, said, (*arrivals.notes, *lacking(run))


def _memory(frame: pl.DataFrame) -> dict[str, Any] | None:
    """The rank nearest to the limit of its device; of unknown limits the one that took most; None without samples."""
    by = "memory_share" if frame["memory_share"].count() else "memory_used"
    used = frame.with_columns(memory_used=pl.max_horizontal("memory_peak", "memory_reserved")).drop_nulls("memory_used")
    if used.is_empty():
        return None
    most = used.sort(by, "rank", descending=[True, False], nulls_last=True).row(0, named=True)
    return {
        "rank": most["rank"], "device": most["device"], "used": most["memory_used"], "share": most["memory_share"],
        "ranks": used.height,
    }


def _nearest(memory: dict[str, Any] | None) -> tuple[str, ...]:
    if memory is None:
        return ()
    who = f"Rank {memory['rank']}" if memory["rank"] is not None else display(memory["device"] or "The device", 24)
    taken = units.size(memory["used"])
    if memory["share"] is None:
        told = f"has most memory taken, {taken}; what its device has is not recorded" if memory["ranks"] > 1 else (
            f"had up to {taken} of memory taken; what its device has is not recorded")
        return (f"{who} {told}.",)
    nearest = "is nearest to the limit of its memory" if memory["ranks"] > 1 else "had its memory taken"
    return (f"{who} {nearest}: {units.percent(100 * memory['share'], places=0)} ({taken}).",)


def _sentence(arrivals: Arrivals, late: Straggler | None, frame: pl.DataFrame) -> str:
    if late is not None:
        return late.sentence
    if len(arrivals.members) < 2 or not arrivals.count:
        return f"{units.counted(frame.height, 'rank', 'ranks')}; who is late shows only at collectives they share."
    shared = units.counted(arrivals.count, "collective", "collectives")
    return (
        f"No rank is late: at {shared} none of {len(arrivals.members)} comes last more often than chance and by more "
        "than clocks are known."
    )


def _changed(facts: dict[str, Any]) -> str:
    """Whether another rank is late in B."""
    a, b = ((facts[side]["straggler"] or {}) for side in SIDES)
    if not a and not b:
        return "No rank is late in either run."
    names = [f"rank {one['rank']}" if one.get("rank") is not None else one.get("device") or "none" for one in (a, b)]
    if names[0] == names[1]:
        return f"The late rank is the same in both: {names[0]}."
    return f"The late rank changed: {names[0]} in A, {names[1]} in B."


VIEW = View("ranks", COLUMNS, build, pair_columns=side_by_side(COLUMNS), noun="ranks")
