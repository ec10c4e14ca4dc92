"""Pipelines: warm-up, steady phase and drain of each rank with the time in which it computed nothing; the straggler.

A rank's computation falls into forward and backward units at its messages: a unit ends with the send that carries its
result, and begins with the receive that it needed. A unit with a receive from the stage before, or a send to the next,
is forward; the other way round it is backward. Of one rank, in a cycle: warm-up lasts until the last forward unit
before the first backward one begins; drain begins with the end of the first unit after the last forward one.

The last of a pipeline is not its slowest: in 1F1B without a slow stage rank 0 drains last. A straggler is the rank
whose computation, as fast as that of the others, would shorten the cycle.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...loaders.trace import OPERATIONS, Trace
from ..communication.arrivals import Arrivals
from ..contract.options import Options
from ..core import units
from ..core.intervals import Ints, union
from ..cycles.detection import counted_cycles
from .job_graph import operations
from .job_replay import JobReplay, job_replay_of, pipelines_of, stages_of

WORTH = 0.02
"""Least share of the cycle that a straggler's computation must cost."""
_NEAR_NS = 2_000
PHASES = ("warm_up", "steady", "drain")


class Lateness(NamedTuple):
    """The straggler of a pipeline: its member, the share of the cycle it costs, and that time in ns."""

    member: int
    share: float
    saved_ns: float


def is_pipeline(arrivals: Arrivals) -> bool:
    """Whether ranks of the run send each other messages, paired or not."""
    return bool(len(arrivals.members) > 1 and (arrivals.messages.labelled or arrivals.messages.unlabelled))


def pipeline_straggler(run: Trace, arrivals: Arrivals, options: Options) -> dict[str, Any] | None:
    """The fact ``straggler`` of a job with messages; None where no rank alone would shorten the cycle."""
    replay = job_replay_of(run, options) if arrivals.paired else None
    if not isinstance(replay, JobReplay):
        return None
    at = max(range(len(replay.workers)), key=lambda one: replay.saved_ns[one])
    saved, share = replay.saved_ns[at], replay.saved_ns[at] / max(replay.recorded_ns, 1.0)
    residual = arrivals.clocks.residual[arrivals.frame.filter(pl.col("instance").is_not_null())["member"].unique()]
    doubt = 0.0 if OPERATIONS in run.info.facts else 2 * float(residual.max(initial=0.0))
    if share <= WORTH or not saved > doubt:  # also where a residual is unknown
        return None
    who, stage = replay.workers[at], replay.stages[at]
    of_stage = "" if stage is None else f" (stage {stage})"
    text = who.text[0].upper() + who.text[1:]
    return {
        "rank": who.rank, "device": who.device, "share": share, "saved_ns": round(saved), "reason": "kernels",
        "sentence":
            f"{text}{of_stage} sets the pace of the pipeline: with its computation as fast as that of the other "
                    f"ranks a cycle takes {units.duration(saved)} less "
                    f"({units.percent(100 * share, places=0)} of {units.duration(replay.recorded_ns)}).",
    }


def pipeline_of(run: Trace, arrivals: Arrivals, options: Options) -> dict[str, Any] | None:
    """The fact ``pipeline``: ``stages messages unpaired ranks picture``, idle times in ns per cycle; None without
    messages."""
    if not arrivals.paired:
        return None
    stages = stages_of(arrivals)
    known = [stage for stage in stages if stage is not None]
    cycles = cycles_of_ranks(run, arrivals, stages, options)
    idle = _idle(cycles, stages)
    nothing = dict.fromkeys(f"{phase}_idle_ns" for phase in PHASES)
    ranks = [
        {"rank": member.rank, "stage": stage, **idle.get(at, nothing)}
        for at, (member, stage) in enumerate(zip(arrivals.members, stages, strict=True)) if stage is not None
    ]
    return {"stages": max(known) + 1, "messages": arrivals.paired, "unpaired": arrivals.unpaired, "ranks": ranks,
            "picture": _picture(cycles, arrivals, stages)}


class Unit(NamedTuple):
    """A stretch of a rank's computation between messages: begin and end (ns), and what it is at its begin and its end:
    'F', 'B' or None."""

    begin: int
    end: int
    first: str | None
    last: str | None

    @property
    def letters(self) -> str:
        """What it holds, in order: 'F', 'B', 'FB' or 'BF'; '' where nothing says it."""
        both = [one for one in (self.first, self.last) if one]
        return "".join(dict.fromkeys(both))


class CycleOfRank(NamedTuple):
    """One cycle of a rank on the common clock: where it begins (ns), its units, its kernels (begins, ends, names), and
    its messages and collectives (begins and ends)."""

    member: int
    cycle: int
    begin: int
    units: list[Unit]
    starts: Ints
    ends: Ints
    names: list[str]
    talks: tuple[Ints, Ints]


def cycles_of_ranks(
    run: Trace, arrivals: Arrivals, stages: tuple[int | None, ...], options: Options
) -> list[CycleOfRank]:
    """Every whole cycle of every rank with a stage."""
    kernels, moves = operations(run, arrivals, options)
    frame = arrivals.messages.frame
    ends = moves.filter(pl.col("instance").is_not_null(), pl.col("message").is_not_null()).join(
        frame.select(message="number", src="src", dst="dst"), on="message", how="left")
    begins = _begins(run, arrivals, options)
    talks = {key: part for key, part in ends.group_by("worker", "cycle")}
    every = {key: part for key, part in moves.group_by("worker", "cycle")}
    result = []
    for (member, cycle), rows in kernels.sort("start_ns").group_by("worker", "cycle", maintain_order=True):
        stage, own = stages[member], talks.get((member, cycle))
        if stage is None or own is None:
            continue
        starts = rows["start_ns"].to_numpy()
        last = starts + rows["dur_ns"].to_numpy()
        begin = begins.get((member, cycle), int(min(starts[0], own["start_ns"].min())))
        moving = every[member, cycle].select("start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
        result.append(CycleOfRank(
            int(member), int(cycle), begin, _units(stage, stages, own, starts, last), starts, last,
            rows["name"].to_list(), (moving["start_ns"].to_numpy(), moving["end_ns"].to_numpy())))
    return result


def _begins(run: Trace, arrivals: Arrivals, options: Options) -> dict[tuple[Any, Any], int]:
    """When each member begins each cycle: where its device's window begins, else its mark; ns on the common clock."""
    cycles = counted_cycles(run, options).frame
    if cycles.is_empty() or cycles["start_ns"].null_count():
        return {}
    at = pl.coalesce("from_ns", "start_ns") if "from_ns" in cycles.columns else pl.col("start_ns")
    rows = cycles.select("rank", "cycle", at=at)
    ahead = np.nan_to_num(arrivals.clocks.on_first)  # those that are unknown are in no message
    members: dict[int | None, list[int]] = {}
    for number, one in enumerate(arrivals.members):
        members.setdefault(one.rank, []).append(number)
    return {(member, cycle): int(moment - ahead[member]) for rank, cycle, moment in rows.rows()
            for member in members.get(rank, [])}


def _units(
    stage: int, stages: tuple[int | None, ...], messages: pl.DataFrame, starts: Ints, ends: Ints
) -> list[Unit]:
    """The units of one rank in one cycle; ``messages``: its ends of messages."""
    events = []
    for start, dur, sends, src, dst in messages.select("start_ns", "dur_ns", "sends", "src", "dst").rows():
        other = stages[dst if sends else src]
        if other is None or other == stage:
            continue
        events.append((start if sends else start + dur, sends, "F" if (other > stage) == sends else "B"))
    events.sort()
    moments = np.array([event[0] for event in events], dtype=np.int64)
    place = np.searchsorted(moments, starts + _NEAR_NS, side="right")
    result = []
    for at in np.unique(place).tolist():
        own = np.flatnonzero(place == at)
        before, after = (events[at - 1] if at else None), (events[at] if at < len(events) else None)
        first = before[2] if before is not None and not before[1] else None
        last = after[2] if after is not None and after[1] else None
        result.append(Unit(int(starts[own[0]]), int(ends[own].max()), first or last, last or first))
    return result


COLUMNS, COMPUTES, WAITS, IDLE = 240, "C", "W", "·"
"""Columns of the picture; letters of computation of which nothing says whether it is forward or backward, of a rank
that waits in a message or collective, and of one that does nothing."""
_BACKWARD, _FORWARD = (re.compile(one, re.IGNORECASE) for one in ("backward|bwd|[dw]grad", "forward|fwd"))


def _letter(unit: Unit, name: str) -> str:
    """Whether a kernel of a unit is forward ('F') or backward ('B'); ``COMPUTES`` where nothing says it."""
    if len(unit.letters) == 1:
        return unit.letters
    return "B" if _BACKWARD.search(name) else "F" if _FORWARD.search(name) else COMPUTES


def _picture(cycles: list[CycleOfRank], arrivals: Arrivals, stages: tuple[int | None, ...]) -> dict[str, Any] | None:
    """One line per stage over the cycle of median length, of the pipeline whose ranks compute most: ``cycle length_ns
    lines``, each ``rank stage cells bubble`` (share of the cycle without computation); None without cycles."""
    pipelines = pipelines_of(arrivals)
    busy = dict.fromkeys(range(len(pipelines)), 0.0)
    of_member = {member: number for number, members in enumerate(pipelines) for member in members}
    spans: dict[int, tuple[int, int]] = {}
    for one in cycles:
        low, high = spans.get(one.cycle, (one.begin, one.begin))
        last = int(max(one.ends.max(), one.talks[1].max()))
        spans[one.cycle] = min(low, one.begin), max(high, last)
        busy[of_member[one.member]] += union(one.starts, one.ends).length
    if not spans:
        return None
    shown = max(busy, key=lambda number: busy[number] / len(pipelines[number]))
    cycle = sorted(spans, key=lambda number: spans[number][1] - spans[number][0])[(len(spans) - 1) // 2]
    begin, end = spans[cycle]
    lines = [
        {"rank": arrivals.members[one.member].rank, "stage": stages[one.member], "cells": _cells(one, begin, end),
         "bubble": 1 - union(one.starts, one.ends).length / max(end - begin, 1)}
        for one in cycles if one.cycle == cycle and of_member[one.member] == shown
    ]
    return {"cycle": cycle, "length_ns": end - begin, "lines": sorted(lines, key=lambda line: line["stage"] or 0)}


def _cells(one: CycleOfRank, begin: int, end: int) -> str:
    """The letter of what takes most of each column."""
    edges = np.linspace(begin, end, COLUMNS + 1).astype(np.int64)
    units_begin = np.array([unit.begin for unit in one.units])
    of = np.maximum(np.searchsorted(units_begin, one.starts, side="right") - 1, 0)
    letters = np.array([_letter(one.units[at], name) for at, name in zip(of.tolist(), one.names, strict=True)])
    kinds = ("F", "B", COMPUTES)
    spent = [union(one.starts[letters == kind], one.ends[letters == kind]).within(edges[:-1], edges[1:])
             for kind in kinds]
    talking = union(*one.talks).within(edges[:-1], edges[1:]) - sum(spent)
    rest = np.diff(edges) - sum(spent) - np.maximum(talking, 0)
    most = np.argmax(np.stack([*spent, talking, rest]), axis=0)
    return "".join((*kinds, WAITS, IDLE)[at] for at in most.tolist())


def _idle(
    every: list[CycleOfRank], stages: tuple[int | None, ...]
) -> dict[int, dict[str, int | None]]:
    """Per member, the time per cycle in which it computed nothing in each phase, ns; null where its forward and
    backward units cannot be told apart."""
    if not every:
        return {}
    deepest = max(stage for stage in stages if stage is not None)
    sums: dict[int, list[tuple[int, ...] | None]] = {}
    for one in every:
        sums.setdefault(one.member, []).append(_phases(one, stages[one.member] == deepest))
    result: dict[int, dict[str, int | None]] = {}
    for member, cycles in sums.items():
        known = [phases for phases in cycles if phases is not None]
        if known:
            means = np.array(known, dtype=np.float64).mean(axis=0)
            result[member] = {f"{phase}_idle_ns": round(mean) for phase, mean in zip(PHASES, means, strict=True)}
    return result


def _phases(one: CycleOfRank, is_last: bool) -> tuple[int, ...] | None:
    """Idle time (ns) in warm-up, steady phase and drain of one cycle of a rank; None where these are unknown."""
    letters = [unit.letters for unit in one.units]
    backward = next((at for at, text in enumerate(letters) if "B" in text), None)
    forward = [at for at, text in enumerate(letters) if "F" in text]
    if backward is None or not forward:
        return None
    earlier = [at for at in forward if at < backward or (at == backward and letters[at].startswith("F"))]
    warm = one.units[0].begin if is_last or not earlier else one.units[earlier[-1]].begin
    last = forward[-1]
    after = last if letters[last] == "FB" else min(last + 1, len(letters) - 1)
    steady, end = one.units[after].end, int(one.ends.max())
    busy = union(one.starts, one.ends)
    bounds = np.array([one.begin, warm, max(steady, warm), max(end, steady)])
    return tuple(int(ns) for ns in np.maximum(np.diff(bounds) - busy.within(bounds[:-1], bounds[1:]), 0))
