"""The diff of runs with cycles: a function's samples are its times in each cycle."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import numpy as np
import polars as pl
from msgspec import Struct
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
from ..idle.cause_meanings import LABELS, idle_name
from .change import CycleChange, change_of
from .cycle_time import CycleTime, cycle_time
from .device_work import DeviceWork, agreed, device_work, paths
from .function_change import (
    REGRESSIONS,
    FunctionChange,
    IdleChange,
    fold_into_idle,
    frame_of,
    idle_changes,
    in_order,
    under_their_rows,
)
from .prepare.idle_time import UNKNOWN
from .prepare.prepared import Prepared, caveats, replay_notes, replays
from .prepare.samples import HOST, IDLE, SWAPPED, Matched, Work
from .resources import ChangedResource, recorded_units, resources, scored_metrics, with_metrics
from .rows import function_rows
from .sentences import (
    cause_lines,
    change_line,
    cycle_line,
    data_line,
    device_lines,
    explanation,
    uniform_line,
)
from .verdict import Calibration, Comparability, UniformChange, Verdict, cause_of, predicted_effect


class JudgedCycle(Struct, frozen=True):
    """The cycle time of two runs and where its change went."""

    cycles: CycleTime
    change: CycleChange | None


def judged(runs: tuple[Trace, Trace], ready: Prepared, options: Options) -> JudgedCycle:
    """The cycle time and its account; cached for the next view."""
    def judge() -> tuple[Prepared, JudgedCycle]:
        cycles = cycle_time(ready.matched, ready.same.proved)
        change, cycles = change_of(ready, cycles, options)
        return ready, JudgedCycle(cycles, change)

    return runs[0].remember("judged", (runs[1], id(ready), options), judge, most=1)[1]  # keeps ``ready``, so its id


def compare(runs: tuple[Trace, Trace], ready: Prepared, options: Options) -> Answer:
    """The ranking and the verdict of two runs whose cycles are matched."""
    matched, same = ready.matched, ready.same
    one = judged(runs, ready, options)
    cycles, change = one.cycles, one.change
    comparable = Comparability(same.proved, same.flops_ratio, tuple(caveats(runs, options)))
    rows = function_rows(matched, same.proved)
    for row, key in zip(rows, _places(matched), strict=True):
        row.rank = matched[key[0]].pair.rank
        row.wait_a_ms, row.wait_b_ms = ready.waits.a.get(key), ready.waits.b.get(key)
        row.function_b = ready.names.get((row.function, row.device))
        group = ready.groups.get((key[0], row.function, row.device)) if row.kind == SWAPPED else None
        if group is None:
            row.match = ready.how.get((row.function, row.device, row.kind))
        else:
            row.match, row.function_b = group.match, group.name_b
    uniform = uniform_change(rows) if same.proved else None
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
    calibration = _calibration(rows)
    cause = cause_of(changed, cycles, work, idle)
    if same.proved and cause.resource is not None:
        of_table = {(name, device): metric for name, device, metric in table.select(
            pl.col("function", "device", "metric").cast(pl.String)).iter_rows()}
        for row in rows:
            row.metric = of_table.get((row.function, row.device))
        cause = replace(cause, alone=predicted_effect(runs[0], cause.resource, rows, options))
    slower = len({(row.function, row.device) for row in slowed if row.kind != IDLE and row.part_of is None})
    uniform = None if cause.resource is not None else uniform
    verdict = Verdict(
        comparable, same, explanation(cause, cycles, slower, same, all(run.has("metrics") for run in runs)),
        "cycles", cycles, tuple(work), tuple(changed), tuple(idle), cause, calibration, tuple(ready.timings),
        change=change, uniform=uniform,
    )
    shape = histogram(matched[0].a.cycle_ms * 1e6, matched[0].b.cycle_ms * 1e6)
    short = {name: fit_name(name, 40) for name in table["function"].unique()}
    data = data_line(same, comparable, matched, calibration.row_ms)
    lines = [
        cycle_line(cycles, same), *change_line(change, cycles, short),
        *device_lines(work, ready.timings, short, cycles.median_a_ms), *uniform_line(uniform),
        *cause_lines(cause, changed, cycles, same), data,
    ]
    notes = [*ready.notes, *replay_notes((replays(runs[0]), replays(runs[1]))), *_notes(matched, rows, ready)]
    ordered = under_their_rows(in_order(table, _first(change, cycles), same.proved))
    return Answer(ordered.lazy(), verdict.facts() | {"histogram": shape}, tuple(lines), tuple(notes))


def _first(change: CycleChange | None, cycles: CycleTime) -> tuple[str, str | None, str | None] | None:
    """Function, device and kind of the row of the first cause, where the cycle is called."""
    if change is None or not cycles.called:
        return None
    # idle time without a cause only repeats the rows of what the device waited for
    top = next((one for one in change.causes if (one.kind, one.name) != (IDLE, LABELS[UNKNOWN])), None)
    if top is None:
        return None
    return f"idle: {top.name}" if top.kind == IDLE else top.name, change.device, top.kind


LEAST_KERNELS, LEAST_SHARE = 10, 0.9  # A lead needs so many kernels in both runs, with so much of A's kernel time...
EVEN, LEAST_CHANGE = 0.02, 0.05  # ...changed by one factor: at most this spread, at least so far off 1.


def uniform_change(rows: Iterable[FunctionChange]) -> UniformChange | None:
    """The lead that all kernels got slower, or faster, by one factor; None where they did not."""
    kernels = [row for row in rows if row.kind == "kernel" and row.part_of is None]
    both = [row for row in kernels if row.launch_us_a and row.launch_us_b and row.a_ms]
    total = sum(row.a_ms or 0.0 for row in kernels)
    if len(both) < LEAST_KERNELS or sum(row.a_ms or 0.0 for row in both) < LEAST_SHARE * total:
        return None
    ratios = np.array([(row.launch_us_b or 0.0) / (row.launch_us_a or 1.0) for row in both])
    if not ((ratios > 1).all() or (ratios < 1).all()):
        return None
    weights = np.array([row.a_ms or 0.0 for row in both])
    factor = float(np.average(ratios, weights=weights))
    spread = float(np.sqrt(np.average((ratios - factor) ** 2, weights=weights))) / factor
    return UniformChange(len(both), len(kernels), factor, spread) if (
        spread <= EVEN and abs(factor - 1) >= LEAST_CHANGE) else None


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
        by_place[kernel].verdict = None  # what is judged is the row they meet in
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


def _calibration(rows: Iterable[FunctionChange]) -> Calibration:
    """The noise between two halves of the baseline, ms per cycle: the largest per category."""
    most: dict[str, float] = {}
    for row in rows:
        if row.noise_ms is not None:
            most[row.category] = max(most.get(row.category, 0.0), row.noise_ms)
    return Calibration(
        "two halves of the baseline's cycles, 95 of 100 halvings, by their median spread",
        most.get("device", most.get("host")), dict(sorted(most.items())),
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
    notes.append("Times of rows are means of their compared cycles: without a run's first cycles and outliers.")
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
