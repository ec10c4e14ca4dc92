"""The diff of runs with cycles: a function's samples are its times in each cycle."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import polars as pl
from msgspec.structs import replace

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import Answer
from ..core import units
from ..core.batches import CALLS
from ..core.distribution import histogram
from ..core.names.short_name import fit_name
from ..core.processes import recorded
from ..idle.cause_meanings import idle_name
from .prepare.idle_time import UNKNOWN
from .prepare.prepared import Prepared, replay_notes, replays
from .prepare.samples import HOST, IDLE, Matched, Work
from .present.sentences import cause_lines, cycle_line, data_line, device_lines, explanation, launches_text, line
from .stats.robust_location import trimmed
from .verdict.alone import predicted_alone
from .verdict.comparability import judged
from .verdict.device_work import DeviceWork, agreed, device_work, paths
from .verdict.function_change import (
    REGRESSIONS,
    FunctionChange,
    IdleChange,
    fold_into_idle,
    frame_of,
    idle_changes,
    in_order,
    under_their_rows,
)
from .verdict.resources import ChangedResource, recorded_units, resources, scored_metrics, with_metrics
from .verdict.suspects import judge_by_launch, per_launch, suspects
from .verdict.verdict import Calibration, FunctionNoise, Verdict, cause_of


def compare(runs: tuple[Trace, Trace], ready: Prepared, options: Options) -> Answer:
    """The ranking and the verdict of two runs whose cycles are matched."""
    matched = ready.matched
    cycles, comparable = judged(runs, matched, options)
    rows = suspects(matched)
    if not comparable.comparable:
        judge_by_launch(rows)
    for row, key in zip(rows, _places(matched), strict=True):
        row.rank = matched[key[0]].pair.rank
        row.wait_a_ms, row.wait_b_ms = ready.waits.a.get(key), ready.waits.b.get(key)
        row.renamed = ready.names.get((row.function, row.device))
    _fold(rows, matched, ready)
    slowed = [row for row in rows if row.verdict in REGRESSIONS]
    _locate_losses(slowed, runs, ready)
    idle = idle_changes(rows, cycles)
    _mark_waits(rows, idle)
    work = _with_paths(
        device_work(ready, cycles, options), [row for row in slowed if row.kind != IDLE], ready, options)
    table = frame_of(rows)
    units = recorded_units(runs)
    pids = [(one.pair.a, one.pair.b) for one in matched]
    changed = resources(*ready.works, pids, units, {(row.function, str(row.device)) for row in slowed}, cycles.ratio)
    table = with_metrics(table, scored_metrics(ready.works, table, units), changed)
    table, work, changed = _as_recorded(ready.works, table, work, changed)
    calibration = _calibration(rows, ready.works[0])
    launches = per_launch(rows) if comparable.by_launch else ()
    cause = cause_of(changed, cycles, work, idle)
    if comparable.comparable and cause.resource is not None:
        of_table = {(name, device): metric for name, device, metric in table.select(
            pl.col("function", "device", "metric").cast(pl.String)).iter_rows()}
        for row in rows:
            row.metric = of_table.get((row.function, row.device))
        cause = replace(cause, alone=predicted_alone(runs[0], cause.resource, rows, options))
    regressions = len({(row.function, row.device) for row in slowed if row.kind != IDLE and row.part_of is None})
    verdict = Verdict(
        comparable,
        explanation(cause, cycles, regressions, comparable, all(run.has("metrics") for run in runs), launches),
        "cycles", cycles, tuple(work), tuple(changed), tuple(idle), cause, calibration, tuple(ready.timings),
        per_launch=launches,
    )
    shape = histogram(matched[0].a.cycle_ms * 1e6, matched[0].b.cycle_ms * 1e6)
    short = {name: fit_name(name, 40) for name in table["function"].unique()}
    lines = [
        cycle_line(cycles), *device_lines(work, ready.timings, short, cycles.median_a_ms),
        *([line("Launch", f"{launches_text(launches)}.")] if launches else []),
        *cause_lines(cause, changed, cycles, comparable),
    ]
    data = data_line(comparable, matched, calibration.row_ms)
    lines = [*lines, data] if comparable.comparable else [data, *lines]
    notes = [*ready.notes, *replay_notes((replays(runs[0]), replays(runs[1]))), *_notes(matched, rows, ready)]
    ordered = under_their_rows(in_order(table))
    return Answer(ordered.lazy(), verdict.facts() | {"histogram": shape}, tuple(lines), tuple(notes))


def _as_recorded(
    works: tuple[Work, Work], table: pl.DataFrame, work: list[DeviceWork], changed: list[ChangedResource]
) -> tuple[pl.DataFrame, list[DeviceWork], list[ChangedResource]]:
    """Rows, devices and resources with the recorded pids in place of the keys of a job's processes."""
    a, b = (one.processes for one in works)
    if not a or not b:
        return table, work, changed
    table = table.with_columns(
        pl.col(name).replace_strict(
            {stand_in: one.pid for stand_in, one in side.items()}, default=pl.col(name), return_dtype=pl.Int64)
        for name, side in (("pid_a", a), ("pid_b", b))
    )
    work = [replace(one, pid_a=recorded(a, one.pid_a), pid_b=recorded(b, one.pid_b)) for one in work]
    return table, work, [replace(one, pid_a=recorded(a, one.pid_a), pid_b=recorded(b, one.pid_b)) for one in changed]


def _fold(rows: list[FunctionChange], matched: list[Matched], ready: Prepared) -> None:
    """Mark the rows that are part of another row."""
    by_place = {(place, row.function, row.device): row
                for row, (place, _) in zip(rows, _places(matched), strict=True) if row.device != HOST}
    for kernel, operator in ready.parts.items():
        by_place[kernel].part_of, by_place[kernel].part_on = operator[1], operator[2]
        by_place[operator].parts += 1
    fold_into_idle(rows)


def _places(matched: list[Matched]) -> list[tuple[int, int]]:
    """(pair index, function row) of every suspect, in the order of the suspects."""
    return [(index, row) for index, one in enumerate(matched) for row in range(one.functions.height)]


def _locate_losses(slowed: Iterable[FunctionChange], runs: tuple[Trace, Trace], ready: Prepared) -> None:
    """Set ``lost_here_ms`` of slower host functions: time not lost in calls inside them or waiting for a device."""
    on_host = [row for row in slowed if row.category == "host"]
    for row in on_host:
        if waits_for_device(row.function, row.kind):
            row.lost_here_ms = 0.0
    left = [row for row in on_host if row.lost_here_ms is None]
    own_a = own_shares(runs[0], {row.function for row in left})
    own_b = own_shares(runs[1], {_name_in_b(row, ready) for row in left})
    for row in left:
        there = _name_in_b(row, ready)
        if row.function in own_a or there in own_b:
            a, b = (row.a_ms or 0.0) * own_a.get(row.function, 0.0), (row.b_ms or 0.0) * own_b.get(there, 0.0)
            row.lost_here_ms = max(0.0, b - a)


def _mark_waits(rows: Iterable[FunctionChange], idle: Iterable[IdleChange]) -> None:
    """Mark as exposed the causes of idle time that explain the change of the cycle."""
    explaining = {(one.function, one.device, one.rank) for one in idle if one.explains_cycle}
    for row in rows:
        if row.function == idle_name(UNKNOWN):
            row.lost_here_ms = 0.0  # idle time without a cause only repeats the rows of what the device waited for
        if row.kind == IDLE and (row.function, row.device, row.rank) in explaining:
            row.path = "exposed"


def _name_in_b(row: FunctionChange, ready: Prepared) -> str:
    return ready.names.get((row.function, row.device), row.function)


def _with_paths(
    work: list[DeviceWork], slowed: list[FunctionChange], ready: Prepared, options: Options
) -> list[DeviceWork]:
    """Set the path (exposed or hidden) of every slower row, then make each device agree with its rows. A row's path
    comes from the times the function ran at; where these do not tell, it is the path of its device."""
    of_device = {(one.device, one.pid_a, one.pid_b): one.path for one in work}
    by_function = paths(ready, slowed, options)
    row_paths: dict[tuple[str | None, int | None, int | None], list[str | None]] = {}
    for row in slowed:
        place = row.device, row.pid_a, row.pid_b
        row.path = by_function.get((row.function, *place), of_device.get(place))
        if row.category == "device":
            row_paths.setdefault(place, []).append(row.path)
    return [agreed(one, row_paths.get((one.device, one.pid_a, one.pid_b), ())) for one in work]


def _calibration(rows: Iterable[FunctionChange], work: Work) -> Calibration:
    """The noise between two halves of the baseline, ms per cycle: the largest per category, and per function."""
    most: dict[str, float] = {}
    functions = []
    for row in rows:
        if row.noise_ms is not None:
            most[row.category] = max(most.get(row.category, 0.0), row.noise_ms)
            pid = recorded(work.processes, row.pid_a)
            functions.append(FunctionNoise(row.function, row.device, pid, row.noise_ms))
    return Calibration(
        "two random halves of the baseline's cycles, 95 of 100 halvings", most.get("device", most.get("host")),
        dict(sorted(most.items())), tuple(functions),
    )


def _notes(matched: list[Matched], rows: list[FunctionChange], ready: Prepared) -> list[str]:
    notes = []
    if crossed := sum(not one.pair.strict for one in matched):
        notes.append(f"{crossed} process pair{'' if crossed == 1 else 's'} matched without a common pid.")
    a, b = ({process.rank for process in work.processes.values()} for work in ready.works)
    for side, only in (("A", a - b), ("B", b - a)):
        if matched[0].pair.rank is not None and (alone := len(only)):
            notes.append(f"{alone:,} rank{'' if alone == 1 else 's'} of {side} {'is' if alone == 1 else 'are'} not in "
                         "the other run, and not compared.")
    if few := sum(row.verdict == "too few cycles" for row in rows):
        notes.append(f"{few} of {len(rows)} rows have too few cycles for a verdict.")
    if ready.names:
        paired = units.counted(len(ready.names), "function of B is", "functions of B are")
        notes.append(f"{paired} paired with one of A under another name.")
    if any(trimmed(len(side.cycles)) for one in matched for side in (one.a, one.b)):
        notes.append("Times of rows are geometric means without the largest and smallest fifth of the cycles. Other "
                     "views show the mean of all whole cycles.")
    if any(row.wait_a_ms is not None for row in rows):
        notes.append("Rows of collectives show the transfer (time on the last rank); waits have columns of their own.")
    notes.append("One run per side: run-to-run noise is unknown, so changes under 2% are not flagged.")
    return notes


_NESTING = ("op", "runtime", "driver", "python", "overhead", "dataloader")
"""Kinds of host slices that nest."""
_WAITS = re.compile(r"Synchronize|StreamWait|EventQuery|StreamQuery|Memcpy")
"""Calls that last as long as the device still has to work, or to copy."""


def waits_for_device(function: str, kind: str | None) -> bool:
    """Whether a runtime or driver call of that name waits for a device."""
    return kind in CALLS and _WAITS.search(function) is not None


def own_shares(run: Trace, functions: Collection[str]) -> dict[str, float]:
    """Self time of each function as a share of its host time, 0-1, over the whole recording. The DataLoader's total
    counts as self time, whatever it calls. Functions without timed slices are left out."""
    if not run.has("host") or not functions:
        return {}
    # names stay categorical: as strings, those of a million slices cost more time and memory than all the rest
    matching = pl.col("name").is_in(pl.Series(list(functions), dtype=NAME).implode()) & pl.col("kind").is_in(_NESTING)
    own = pl.when(pl.col("kind") == "dataloader").then("dur_ns").otherwise("self_ns").sum().alias("own")
    timed = run.host.filter(matching).drop_nulls(["dur_ns", "self_ns"])
    sums = timed.group_by("name").agg(own, pl.col("dur_ns").sum().alias("whole")).with_columns(
        pl.col("name").cast(pl.String))
    rows = sums.collect(engine="streaming").select("name", "own", "whole").rows()
    return {name: own_ns / whole if whole else 0.0 for name, own_ns, whole in rows}
