"""Idle: idle time of each device by cause, and every gap with the activities around it and what emptied the queue.

The analysis is imported on demand: a cached answer does not need it and takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from ...loaders.schema import NAME, columns_of
from ...loaders.trace import REDUCED, Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.derived import derived_rows
from ..cycles.paired import OneRun, paired
from ..idle.cause_meanings import CAUSES

if TYPE_CHECKING:
    from ..cycles.whole import Steps, WholeCycles
    from ..idle.attribution import DeviceIdle, Idle

_MEANINGS = "; ".join(f"{k}: {v}" for k, v in CAUSES.items())
COLUMNS = (
    Column("device", "device", "text", "device that waited", width=7, order=5, role="where"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=9, role="where"),
    Column("start_ns", "start", "ns", "start, from the start of the trace", width=12, order=3, role="moment"),
    Column("dur_ns", "idle", "ns", "length of the gap", width=10, order=0, pinned=True, role="time"),
    Column("cause", "cause", "text", _MEANINGS, width=10, order=0),
    Column("before", "before", "text", "activity that ended when the gap began", width=20, order=7, role="name"),
    Column("after", "after", "text", "activity that ended the gap", width=24, order=1, elastic=True, role="name"),
    Column("call", "call", "text", "runtime or driver call that launched the activity after the gap", width=18, order=8,
           role="label"),
    Column("op", "operator", "text", "operator that launched that activity", width=20, order=2, role="label"),
    Column("frame", "Python line", "text", "Python frame around the operator", width=28, order=4, role="name"),
    Column("drained_by", "drained by", "text", "call that emptied the queue: the last one that waited for the device; "
           "empty if the host never got ahead", width=26, order=6, role="label"),
    Column("cycle", "cycle", "number", "cycle that the gap lies in (its middle, if it spans two)", width=6, order=8),
    Column("cause_ns", "of it", "ns", "part of the gap with that cause", width=10, order=9),
    Column("index", "launch", "number", "number of the launch that ended it", width=8, order=None),
)
MANY = 100_000  # Gaps from which on the rows stay on disk; a smaller answer is cached whole, as in other views.
MOST_SAID = 4
"""Up to this many devices get a line each; more share one line that names the ``WORST`` with the largest idle share."""
WORST = 3
MOST_CAUSES = 4
BY_CAUSE = (
    Column("device", "device", "text", "device that waited", width=8, order=3, role="where", pairs="key"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=9, role="where", pairs="key"),
    Column("cause", "cause", "text", _MEANINGS, width=12, order=0, pinned=True, pairs="key"),
    Column("total_ns", "idle", "ns", "idle time with that cause", width=10, order=0, role="time", pairs="sum"),
    Column("share", "share", "fraction", "share of the time from the device's first to its last activity", width=8,
           order=1, role="share", pairs="sum", of="of first to last activity"),
)


def build(runs: Runs, options: Options) -> Answer:
    """Every gap of one run, longest first; for two runs the idle time by cause, largest change first."""
    from ..cycles.scope import scoped
    from ..findings.evidence.waits import captured
    from ..idle.facts import facts_of, headline_devices
    from ..idle.polling import polls_of
    from ..idle.sampled import sampled_sentences, sampled_while_idle

    if len(runs) == 1:
        scope = scoped(runs[0], options, "a")
        steps = _steps(runs[0], options, "a")
        idle = _idle(runs[0], scope, steps)
        gaps = idle.gaps
        if "cycle" not in columns_of(gaps):
            gaps = pl.concat([gaps, _cycles(runs[0], scope, gaps, options)], how="horizontal")
        rows, many = gaps.select(c.name for c in COLUMNS), sum(one.gaps for one in idle.devices) >= MANY
        sampled = sampled_while_idle(scope, gaps)
        facts, sampled_lines = facts_of(idle, steps), sampled_sentences(sampled)
        facts["polls"] = polls_of(runs[0]).facts
        facts |= {"host_samples": sampled} if sampled else {}
        most = max(headline_devices(idle), key=lambda one: one.idle_ns)
        capture = captured(scope, idle, most, steps) if scope.has("kernels") else None
        notes = (f"Graph capture, not a run: {capture}.", *idle.notes) if capture else idle.notes
        return Answer(rows, facts, (*_summary(idle, steps), *sampled_lines), notes, recorded=many)
    jobs = all(len(run.info.ranks) > 1 for run in runs)  # a one-rank run is compared with the sum over a job's ranks
    return paired(runs, options, BY_CAUSE, partial(_one, by_rank=jobs), partial(_in_cycles, by_rank=jobs))


def _one(run: Trace, options: Options, side: Side, by_rank: bool) -> OneRun:
    from ..cycles.scope import scoped
    from ..idle.facts import facts_of

    steps = _steps(run, options, side)
    idle = _idle(run, scoped(run, options, side), steps)
    return OneRun(by_cause(idle, by_rank), facts_of(idle, steps), _summary(idle, steps), idle.notes)


def _in_cycles(cycles: WholeCycles, options: Options, side: Side, by_rank: bool) -> pl.DataFrame:
    """Rows of ``by_cause`` for the idle time of the cycles. Raises CannotAnswer."""
    from ..idle.by_cycle import idle_by_cycle

    if cycles.scoped:
        return _one(cycles.run, options, side, by_rank).frame
    idle = idle_by_cycle(cycles.run, cycles.frame, cycles.times)
    if idle.is_empty():
        raise CannotAnswer(f"{cycles.run.info.label} has no idle time per cycle.")
    same = ["device", "rank", "cause"]
    means = idle.group_by(same, maintain_order=True).agg(pl.col("dur_ns").mean())
    counts = cycles.by_rank()
    return _rows([
        (device, rank, cause, round(mean * (count := counts.get(rank, cycles.frame.height))),
         mean * count / cycles.step_ns(rank))
        for device, rank, cause, mean in means.iter_rows()
    ], by_rank)


def _steps(run: Trace, options: Options, side: Side) -> Steps | None:
    from ..cycles.whole import steps_in_scope

    return None if REDUCED in run.info.facts else steps_in_scope(run, options, side)


def _idle(run: Trace, scope: Trace, steps: Steps | None) -> Idle:
    from ..idle.attribution import idle_of
    from ..idle.reduced import reduced_idle

    if REDUCED in run.info.facts:
        reduced = reduced_idle(scope)
        if reduced is None:
            raise CannotAnswer(f"{run.info.label} is a reduced dataset, which has no idle causes of a single cycle.")
        return reduced
    idle = idle_of(run, scope, steps) if scope.has("kernels") else None
    if idle is None:
        why = "launches without times" if scope.has("kernels") else "no launches"
        raise CannotAnswer(f"{run.info.label} holds {why}: when devices waited is not recorded.")
    return idle


def _cycles(run: Trace, scope: Trace, gaps: pl.LazyFrame, options: Options) -> pl.LazyFrame:
    """The column ``cycle``: the cycle whose window holds the middle of each gap; null outside cycles."""
    from ..cycles.whole import cycle_around

    def found() -> tuple[pl.DataFrame]:
        spans = gaps.select("start_ns", "dur_ns", "rank").collect(engine="streaming")
        cycle = cycle_around(run, spans, options)
        return (spans.with_columns(cycle=pl.lit(None, pl.Int64) if cycle is None else cycle).select("cycle"),)

    usual = scope is run and options.cycle_anchor is None
    return derived_rows(run, "gap-cycles", found) if usual else found()[0].lazy()


def by_cause(idle: Idle, by_rank: bool) -> pl.DataFrame:
    """One row per device, cause and, if asked, rank: ``device rank cause total_ns share``."""
    from ..idle.facts import ordered

    return _rows([
        (device.device, device.rank, cause, total, total / device.window_ns if device.window_ns else None)
        for device in idle.devices for cause, total in ordered(device)
    ], by_rank)


def _rows(rows: list[tuple[Any, ...]], by_rank: bool) -> pl.DataFrame:
    dtypes: dict[str, Any] = {
        "device": NAME, "rank": pl.Int64, "cause": NAME, "total_ns": pl.Int64, "share": pl.Float64,
    }
    frame = pl.DataFrame(rows, schema=dtypes, orient="row")
    if by_rank:
        return frame
    return frame.group_by("device", "cause", maintain_order=True).agg(
        pl.lit(None, pl.Int64).alias("rank"), pl.col("total_ns").sum(), pl.col("share").mean()
    ).select(frame.columns)


def _summary(idle: Idle, steps: Steps | None) -> tuple[str, ...]:
    from ..findings.spread import share_text
    from ..idle.facts import cause_times, headline_devices, summed

    devices = headline_devices(idle)
    counts = {} if steps is None or not idle.scope else steps.counts()
    word = "" if steps is None else steps.cycles.noun

    def where(device: DeviceIdle) -> str:
        name = device.device or "device"
        return name if device.rank is None or len(devices) < 2 else f"{name} of rank {device.rank}"

    def share(device: DeviceIdle) -> float:
        return device.idle_ns / device.window_ns if device.window_ns else 0.0

    def said(device: DeviceIdle) -> str:
        count = counts.get((device.rank, device.device), 0)
        each = f" {units.each(word)}" if count else ""
        idle_of = units.part_of(device.idle_ns / max(count, 1), device.window_ns / max(count, 1))
        parts = ", ".join(cause_times(device, MOST_CAUSES, max(count, 1)))
        return f"{where(device)} idles {idle_of}{each}{': ' if parts else ''}{parts}"

    if len(devices) <= MOST_SAID:
        return tuple(map(said, devices))
    every = summed(devices)
    worst = ", ".join(
        f"{where(one)} {share_text(share(one))}" for one in sorted(devices, key=share, reverse=True)[:WORST])
    total = sum(counts.get((one.rank, one.device), 0) for one in devices) or len(devices)
    each = f" {units.each(word)}" if counts else ""
    causes = ", ".join(cause_times(every, MOST_CAUSES, total))
    part = units.part_of(every.idle_ns / total, every.window_ns / total)
    return (f"{len(devices):,} devices idle {part}{each} (mean; most {worst}): {causes}.",)


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The sections of a gap."""
    from ..details.gaps import gap_sections

    return gap_sections(row, runs, options)


def glance(runs: Runs, options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """A function that gives the sections of a gap for the pane beside the list."""
    from ..details import gaps

    return gaps.glance(runs, options)


VIEW = View(
    "idle", COLUMNS, build, pair_columns=pair_columns(BY_CAUSE), scopes_itself=True, noun="gaps", pair_noun="causes",
    details=details,
    glance=glance,
)
