"""Ranks: compute, communication and wait time of each rank of a job, and which rank is the straggler.

``caused_wait_ns`` is the summed wait of all others at the collectives where this rank arrived last, ``lead_ns`` its
median distance to the second-last rank there, ``behind_ns`` how long after the first rank it begins its cycles. A run
without ranks has one row per device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from ...loaders.schema import is_work
from ...loaders.trace import REDUCED, Trace
from ..communication.arrivals import RECORDED, Arrivals, arrivals_of, recorded_clock
from ..communication.collectives import places_of
from ..communication.devices import communication
from ..contract.column import Column, pair_columns, with_cycle_sums
from ..contract.options import SIDES, Options, Side
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View, lettered
from ..core import units
from ..core.covered import covered, timed
from ..core.device_pairs import note
from ..core.text import display
from ..cycles.assignment import row_at
from ..cycles.detection import view_cycles
from ..cycles.paired import OneRun, cycle_sums, on_the_same_devices
from ..cycles.reduced import lacking
from ..cycles.step_facts import step_by_rank
from ..ranks.beginnings import Beginnings, Straggler, beginnings_of, straggler_of
from ..ranks.hang import hang_of, last_calls
from ..ranks.job_replay import JobReplay, job_replay_of, stages_of
from ..ranks.memory import memory_of, of_place
from ..ranks.pipeline import PHASES, is_pipeline, pipeline_of, pipeline_straggler
from ..ranks.two_runs import wait_sentences
from ..table.sides import paired_rows

if TYPE_CHECKING:
    from ..cycles.whole import WholeCycles

COLUMNS = (
    Column("rank", "rank", "number", "rank of the job", width=6, order=0, pinned=True, role="order", pairs="key"),
    Column("device", "device", "text", "its device", width=7, order=6, role="where", pairs="key"),
    Column("place", "place", "text", "its place in the layout that the names of files or processes carry (PP1 TP0)",
           width=9, order=8, role="label"),
    Column("host", "host", "text", "machine it ran on", width=14, order=9, role="where"),
    Column("cycle_ns", "step", "ns", "mean step time: lead + device + tail", width=10, order=3),
    Column("busy_ns", "busy", "ns", "device busy time over the whole recording", width=10, order=4, pairs="sum"),
    Column("comm_ns", "communication", "ns", "time with a collective running", width=13, order=5, pairs="sum"),
    Column("exposed_ns", "exposed", "ns", "communication not overlapped with computation", width=10, order=2,
           pairs="sum"),
    Column("wait_ns", "waited", "ns", "time in collectives waiting for the last rank to arrive", width=10, order=1,
           pairs="sum"),
    Column("caused_wait_ns", "caused wait", "ns", "summed wait of all other ranks where it arrived last", width=11,
           order=0, role="time", pairs="sum"),
    Column("last_count", "last at", "count", "collectives at which it arrived last", width=7, order=1, role="count"),
    Column("lead_ns", "behind", "ns", "median lag behind the second-last rank where it arrived last", width=9, order=6),
    Column("behind_ns", "begins", "ns", "median delay of its cycle starts behind the first rank", width=9, order=5),
    Column("clock_offset_ns", "clock", "ns", "clock offset from the first rank's (+ is ahead), from the ends of shared "
           "collectives", width=10, order=7, signed=True),
    Column("clock_residual_ns", "clock ±", "ns", "half the spread (p16 to p84) of those offsets, the uncertainty of "
           "the clock; empty where the recorded clock stands", width=9, order=7),
    Column("clock_evidence", "clock by", "text", "how the clock is known: seq (sequence numbers of collectives), step "
           "(recorded steps), order (equally many), recorded (wall clocks, to within what they are off)", width=8,
           order=9),
    Column("memory_peak", "memory", "bytes", "peak device memory allocated, where recorded", width=9, order=8),
    Column("memory_reserved", "reserved", "bytes", "peak device memory reserved by the allocator, where recorded",
           width=9, order=8),
    Column("memory_share", "of device", "fraction", "share of the device's memory in use at the peak, where both are "
           "recorded", width=9, order=8, of="of device memory"),
    Column("matched", "of", "count", "collectives it shares with other ranks", width=6, order=8),
    Column("p2p_wait_ns", "waits p2p", "ns", "time in messages before the other side was there", width=10, order=3,
           pairs="sum"),
    Column("stage", "stage", "number", "its stage in the pipeline", width=5, order=4, role="where"),
    Column("state", "state", "text", "of a flight recorder: missing, differs, waits, ended, no dump", width=8, order=0,
           role="label"),
    Column("call", "call", "text", "of a flight recorder: the call it waits in, or its last", width=32, order=1,
           elastic=True, role="label"),
    Column("line", "line", "text", "of a flight recorder: line of the program of that call", width=18, order=2,
           elastic=True, role="label"),
)


def build(runs: Runs, options: Options) -> Answer:
    """The ranks of one run, most caused wait first; of two runs side by side, by the change of the caused wait."""
    sides = [_one(run, options) for run in runs]
    if len(sides) == 1:
        return sides[0].answer()
    facts: dict[str, Any] = {side: one.facts for side, one in zip(SIDES, sides, strict=True)}
    lines, notes = _of_both([one.summary for one in sides]), lettered([one.notes for one in sides])
    per = cycle_sums(runs, options, COLUMNS, [one.frame for one in sides], _in_cycles)
    (a, b), moved = on_the_same_devices(per.frames)
    device = pl.col("device").cast(pl.String)
    if a["rank"].n_unique() == b["rank"].n_unique() == 1:  # one rank of each run is compared whatever its number
        b = b.with_columns(pl.lit(a["rank"][0], a.schema["rank"]).alias("rank"))
    columns = with_cycle_sums(COLUMNS)
    rows = _of_ranks_there(paired_rows(a.with_columns(device), b.with_columns(device), columns))
    lines = (*lines, *_changed(facts))
    waits = wait_sentences(runs, rows) if per.has_sums else ()
    return Answer(
        rows.lazy(), facts | per.facts, lines, (*notes, *note(moved), *per.notes),
        cycle_summary=(*waits, *lines, per.sentence(rows, ())) if per.has_sums else ())


def _of_both(sides: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The lines of both runs; what both say is there once."""
    a, b = sides
    same = tuple(line for line in a if line in b)
    rest = lettered([tuple(line for line in one if line not in same) for one in sides])
    return (*(f"A and B: {line}" for line in same), *rest)


def _in_cycles(cycles: WholeCycles, options: Options, side: Side) -> pl.DataFrame:
    """The sums of each rank over the cycles; collectives are matched over the whole run, as in ``collectives``."""
    run = cycles.run
    arrivals = arrivals_of(run)
    if cycles.scoped or REDUCED in run.info.facts:
        return by_rank(cycles.part, arrivals_of(cycles.part), options, beginnings_of(cycles.part, arrivals, options))
    inside = cycles.part.kernels.select("index").collect(engine="streaming")["index"]
    within = replace(arrivals, frame=arrivals.frame.filter(pl.col("index").is_in(inside.implode())))
    return by_rank(cycles.part, within, options, beginnings_of(run, arrivals, options))


def _of_ranks_there(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with null sums for a rank that a run does not have: its caused wait there is unknown, not 0 ns."""
    a, b = (pl.col(f"busy_ns_{side}").is_not_null() for side in SIDES)
    there = {"a": a, "b": b, "delta": a & b}
    return rows.with_columns(
        pl.when(known).then(f"{column.name}_{side}").alias(f"{column.name}_{side}")
        for column in with_cycle_sums(COLUMNS) if column.sums for side, known in there.items())


def _one(run: Trace, options: Options) -> OneRun:
    if not run.has("kernels") and (hang := hang_of(run)) is not None:
        rows = pl.DataFrame(hang.rows, schema={"rank": pl.Int64, **dict.fromkeys(("state", "call", "line"), pl.String)})
        frame = pl.DataFrame(schema=SCHEMA | {name: pl.String() for name in ("state", "call", "line")})
        frame = pl.concat([frame, rows], how="diagonal")
        return OneRun(frame.select(one.name for one in COLUMNS), {"hang": hang.facts}, (hang.sentence,), hang.notes)
    arrivals = arrivals_of(run)
    beginnings = beginnings_of(run, arrivals, options)
    frame = by_rank(run, arrivals, options, beginnings)
    if frame.is_empty():
        raise CannotAnswer(f"{run.info.label} holds no device activity with times to compare ranks by.")
    late = straggler_of(run, arrivals, beginnings)
    paced = pipeline_straggler(run, arrivals, options)
    replay = job_replay_of(run, options)
    facts: dict[str, Any] = {
        "straggler": late.facts() if late else paced, "collectives": arrivals.count,
        "matched_by": arrivals.matching.how, "heat": heat_of(run, arrivals, options), "memory": _memory(frame),
        "begin": beginnings.facts(), "pipeline": pipeline_of(run, arrivals, options),
        "slowdown": replay.slowdown if isinstance(replay, JobReplay) else None, "hang": None,
    }
    first = paced["sentence"] if paced else _sentence(arrivals, late, frame)
    said = (_pipeline_sentence(facts), beginnings.sentence, replay if isinstance(replay, str) else None)
    summary = (first, *filter(None, said), *_nearest(facts["memory"]))
    return OneRun(frame.select(column.name for column in COLUMNS), facts, summary, (*arrivals.notes, *lacking(run)))


def _pipeline_sentence(facts: dict[str, Any]) -> str | None:
    """Size of the pipeline and its idle time; None without one."""
    pipeline = facts["pipeline"]
    if pipeline is None:
        return None
    text = (f"Pipeline of {units.counted(pipeline['stages'], 'stage', 'stages')}, "
            f"{units.counted(pipeline['messages'], 'message', 'messages')}")
    if pipeline["unpaired"]:
        text += f", {units.counted(pipeline['unpaired'], 'send or receive', 'sends and receives')} without another end"
    idle = [sum(one[f"{phase}_idle_ns"] for phase in PHASES) for one in pipeline["ranks"]
            if one["steady_idle_ns"] is not None]
    if idle:
        text += f"; a rank waits {units.duration(sum(idle) / len(idle))} a cycle in its bubbles (mean)"
    return f"{text}."


def _memory(frame: pl.DataFrame) -> dict[str, Any] | None:
    """The rank closest to its memory limit (no limit known: the one with the most memory); None without samples."""
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
        most = "the most memory, up to" if memory["ranks"] > 1 else "up to"
        return (f"{who} uses {most} {taken}; how much its device has is not recorded.",)
    share = units.percent(100 * memory["share"], places=0)
    if memory["ranks"] > 1:
        return (f"{who} is nearest to the limit of its memory: {share} ({taken}).",)
    return (f"{who} uses up to {share} of its memory ({taken}).",)


def _sentence(arrivals: Arrivals, late: Straggler | None, frame: pl.DataFrame) -> str:
    if late is not None:
        return late.sentence
    if is_pipeline(arrivals):
        why = ("no rank's computation alone sets the pace" if arrivals.paired else
               "sends and receives name no source and target, and the last of a pipeline is not its slowest")
        return f"No straggler: {why}."
    if len(arrivals.members) < 2 or not arrivals.count:
        one, many = ("rank", "ranks") if frame["rank"].count() else ("device", "devices")
        ranks = units.counted(frame.height, one, many)
        return f"{ranks}; a straggler shows only at collectives that several share."
    shared = units.counted(arrivals.count, "collective", "collectives")
    members = arrivals.met["member"].unique().to_numpy()
    if np.isnan(arrivals.clocks.residual[members]).all():
        return f"Which rank is late is not known: at {shared} the clocks are as recorded, and nothing measures them."
    return (
        f"No straggler: at {shared} the last rank varies as by chance, or is late by less than the error of the clocks."
    )


def _changed(facts: dict[str, Any]) -> tuple[str, ...]:
    """Sentence on whether the straggler changed between A and B; empty where neither run has one."""
    a, b = ((facts[side]["straggler"] or {}) for side in SIDES)
    if not a and not b:
        return ()
    names = [f"rank {one['rank']}" if one.get("rank") is not None else one.get("device") or "none" for one in (a, b)]
    if names[0] == names[1]:
        return (f"The late rank is the same in both: {names[0]}.",)
    return (f"The late rank changed: {names[0]} in A, {names[1]} in B.",)


def by_rank(run: Trace, arrivals: Arrivals, options: Options, beginnings: Beginnings) -> pl.DataFrame:
    """One row per rank and device, most caused wait first; null where not recorded."""
    busy = _busy(run)
    talk = {(one.rank, one.device): one for one in communication(run)}
    cycles = step_by_rank(view_cycles(run, options))
    hosts = run.info.facts.get("hosts") or {}
    waited = _waited(arrivals)
    places = places_of(run)
    offset, doubt, clocks = arrivals.clocks.on_first, arrivals.clocks.doubt, arrivals.clocks
    place = {(one.rank, one.device): number for number, one in enumerate(arrivals.members)}
    memory, behind = memory_of(run), beginnings.of_ranks
    stages, waits = stages_of(arrivals), _message_waits(arrivals)
    rows: list[dict[str, Any]] = []
    several = len({*busy, *place}) > 1
    standing = (0.0, RECORDED) if several and recorded_clock(run) else (None, None)
    for who in sorted({*busy, *place}, key=lambda who: (who[0] is None, who[0] or 0, len(who[1] or ""), who[1] or "")):
        rank, device = who
        spoken = talk.get(who)
        at, taken = place.get(who), of_place(memory, rank, device)
        rows.append({
            "rank": rank, "device": device, "place": places.get(rank),
            "host": hosts.get(str(rank), run.info.facts.get("host_name") if len(run.info.ranks) < 2 else None),
            "cycle_ns": cycles.get(rank, cycles.get(None)), "busy_ns": busy.get(who),
            "behind_ns": behind.get(rank),
            "comm_ns": spoken.comm_ns if spoken else None, "exposed_ns": spoken.exposed_ns if spoken else None,
            "clock_offset_ns": standing[0] if at is None or not several else _finite_at(offset, at),
            "clock_residual_ns": _finite_at(doubt, at),
            "clock_evidence": standing[1] if at is None or not several else clocks.evidence_of(at),
            "memory_peak": taken.peak, "memory_reserved": taken.reserved, "memory_share": taken.share,
            "p2p_wait_ns": waits.get(at), "stage": None if at is None else stages[at],
            **waited.get(at, NOTHING if at is None else {**NOTHING, "last_count": 0}),
        })
    frame = pl.DataFrame(rows, schema=SCHEMA).with_columns(
        pl.lit(None, pl.String).alias(name) for name in ("state", "call", "line"))
    return frame.sort("caused_wait_ns", "rank", "device", descending=[True, False, False], nulls_last=True)


NOTHING = dict.fromkeys(("wait_ns", "caused_wait_ns", "lead_ns", "last_count", "matched"))
SCHEMA: dict[str, Any] = {
    "rank": pl.Int64, "device": pl.String, "place": pl.String, "host": pl.String, "cycle_ns": pl.Float64,
    "busy_ns": pl.Int64, "comm_ns": pl.Int64, "exposed_ns": pl.Int64, "wait_ns": pl.Int64, "caused_wait_ns": pl.Int64,
    "lead_ns": pl.Float64, "behind_ns": pl.Float64, "last_count": pl.Int64, "clock_offset_ns": pl.Float64,
    "clock_residual_ns": pl.Float64, "clock_evidence": pl.String, "matched": pl.Int64,
    "p2p_wait_ns": pl.Int64, "stage": pl.Int64,
    "memory_peak": pl.Float64, "memory_reserved": pl.Float64, "memory_share": pl.Float64,
}


def _finite_at(values: np.ndarray[tuple[int], np.dtype[np.float64]], at: int | None) -> float | None:
    return None if at is None or np.isnan(values[at]) else float(values[at])


def _busy(run: Trace) -> dict[tuple[int | None, str | None], int]:
    """Time in which each device of each rank ran anything, ns."""
    if REDUCED in run.info.facts:
        sums = run.device_sums.select("rank", pl.col("device").cast(pl.String), "busy_ns").collect(engine="streaming")
        return {(rank, device): busy for rank, device, busy in sums.rows()}
    rows = covered(timed(run, is_work())).with_columns(pl.col("device").cast(pl.String))
    return {(rank, device): busy for rank, device, busy in rows.rows()}


def _waited(arrivals: Arrivals) -> dict[int | None, dict[str, int]]:
    rows = arrivals.met.group_by("member").agg(
        pl.col("wait_ns").sum(), pl.col("caused_ns").sum().alias("caused_wait_ns"),
        pl.col("lead_ns").filter("last").median(), pl.col("last").sum().cast(pl.Int64).alias("last_count"),
        pl.len().cast(pl.Int64).alias("matched"),
    )
    return {row.pop("member"): row for row in rows.to_dicts()}


def _message_waits(arrivals: Arrivals) -> dict[int | None, int]:
    """Per member, the time in messages before the other side was there, ns."""
    rows = arrivals.frame.filter(pl.col("instance").is_not_null(), pl.col("message").is_not_null())
    return dict(rows.group_by("member").agg(pl.col("wait_ns").sum()).rows())


MOST_RANKS, MOST_PARTS = 32, 120
_PARTS = 60  # Equal parts of a run without cycles.


def heat_of(run: Trace, arrivals: Arrivals, options: Options) -> dict[str, Any] | None:
    """Heat map of caused wait: ``ranks`` (names, most first), ``parts`` (meaning of a column), ``caused_ns`` (one list
    per rank). None without waits. Adjacent cycles are summed where there are many; ranks without waits are left out."""
    came_last = arrivals.met.filter(pl.col("last").fill_null(False))
    last = came_last.select("member", "arrival_ns", "start_ns", "caused_ns")
    if last.is_empty():
        return None
    cycles = view_cycles(run, options).frame.drop_nulls(["start_ns", "dur_ns"])
    ranks = pl.Series([arrivals.members[member].rank for member in last["member"]], dtype=pl.Int64)
    parts = "cycle"
    if cycles.is_empty():
        times = last["arrival_ns"].to_numpy()
        span = max(float(times.max() - times.min()), 1.0)
        column = np.minimum(((times - times.min()) / span * _PARTS).astype(np.int64), _PARTS - 1)
        parts = "part of the run"
    else:
        row = row_at(last["start_ns"], ranks, cycles, ("start_ns", "dur_ns"))
        order = cycles["cycle"].rank("dense").cast(pl.Int64).to_numpy() - 1
        column = np.where(row >= 0, order[row], -1)
    width = int(column.max(initial=0)) + 1
    each = -(-width // MOST_PARTS)
    grid = np.zeros((len(arrivals.members), -(-width // each)), dtype=np.int64)
    inside = column >= 0
    np.add.at(grid, (last["member"].to_numpy()[inside], column[inside] // each), last["caused_ns"].to_numpy()[inside])
    sums = grid.sum(axis=1)
    chosen = [int(one) for one in np.argsort(-sums, kind="stable")[:MOST_RANKS] if sums[one]]
    return {
        "parts": parts if each == 1 else f"{each} {parts}s", "ranks": [arrivals.members[one].text for one in chosen],
        "caused_ns": grid[chosen].tolist(),
    }


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The collectives of a rank by kind, most caused wait first; of a flight recorder its last calls; of two runs what
    makes it late."""
    from ..details.listed import in_run, row_section, sides, span
    from ..ranks.two_runs import sections

    if len(runs) == 2 and all(run.has("kernels") for run in runs):
        from .diff import build as compare  # thirty modules that the list does not need

        return sections(row, runs, options, compare)

    result: list[Section] = []
    for number, scope, tail in sides(runs, options):
        if not scope.has("kernels") and scope.has("enqueued"):
            calls = last_calls(scope, in_run(row, runs, number).get("rank"))
            result += row_section(f"Its last calls, newest first{tail}", calls, (str,) * 5,
                                  ("group", "#", "call", "state", "line"))
            continue
        arrivals, here = arrivals_of(scope), in_run(row, runs, number)
        alone = len({one.rank for one in arrivals.members}) == 1
        own = [at for at, one in enumerate(arrivals.members)
                if one.device == here.get("device") and (alone or one.rank == here.get("rank"))]
        sums = arrivals.met.filter(pl.col("member").is_in(own)).group_by("kind").agg(
            pl.len(), pl.col("last").sum().cast(pl.Int64), pl.col("wait_ns", "caused_ns").sum())
        result += row_section(
            f"Collectives it took part in{tail}", sums.sort("caused_ns", "kind", descending=[True, False]),
            (str, units.count, units.count, span, span), ("collective", "count", "last at", "waited", "caused wait"))
    return result


VIEW = View("ranks", COLUMNS, build, pair_columns=pair_columns(COLUMNS), noun="ranks", details=details)
