"""The diff of runs without common cycles: the totals of both recordings side by side, launches as samples.

Two kernel tables or two ncu files hold one replay of each launch; two ranks with one recorded step each are compared by
that step. A function that both runs launch often enough is judged by the time of its launches, paired in order if both
launch it equally often, since one name may stand for several problem sizes. Nothing is scaled to an amount of work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ...loaders.schema import NAME, is_work
from ...loaders.trace import Trace
from ..contract.options import SIDES, Options
from ..contract.view import Answer
from ..core import device_pairs as devices
from ..core import units
from ..cycles import assignment
from ..cycles.detection import find_cycles
from ..cycles.sourced_cycles import WINDOWED
from ..cycles.whole import shared_kinds, why_per_recording
from ..idle.cause_meanings import idle_name
from .cycle_time import CycleTime, compare_lengths
from .device_work import work_of_sums
from .function_change import REGRESSIONS, FunctionChange, category, frame_of, in_order, under_their_rows
from .judge import Floats, q_values, welch
from .matching import Function, Matches, Place, Profile, as_often, matches
from .prepare.idle_time import mean_idle_time
from .prepare.prepared import caveats, replay_notes, replays
from .prepare.samples import IDLE, SWAPPED
from .prepare.swapped import (
    MEETING,
    Changed,
    Group,
    makers_of,
    meeting,
    of_equal_flops,
    under_common_operators,
)
from .rows import MATERIAL, call_of
from .same_work import SameWork, alike_functions, same_work
from .sentences import cycle_sentence, line, some, total_line, unjudged
from .sequence import WorkUnit, unit_of
from .verdict import Calibration, Comparability, Verdict

LEAST_LAUNCHES = 8  # With fewer launches on a side a function is not judged.
MARKED = ("recorded", "annotation")  # Cycle sources that can be trusted even for a single cycle.
Launches = dict[Function, Floats]
"""Durations in ms in recorded order (NaN where none was recorded), by name, device and kind."""


def by_launch(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """Every function of both runs. Raises CannotAnswer without any device activity."""
    if not all(run.has("kernels") for run in runs):
        from .aggregates import aggregates  # only runs with nothing but sums

        return aggregates(runs, options)
    runs, moved = under_the_same_devices(runs)
    steps = steps_of(runs, options)
    kernels = [run.kernels if some is None else assignment.in_cycles(run, some, find_cycles(
        run, options).device_time) for run, some in zip(runs, steps or (None, None), strict=True)]
    per = [1.0 if steps is None else float(some.height) for some in steps or (None, None) if some is not None] or [1, 1]
    sides = [launches_of(frame) for frame in kernels]
    matching, same, units_of = judged_launches(runs, (sides[0], sides[1]), options)
    under = {(matching.names.get((name, device), name), device, kind): times
             for (name, device, kind), times in sides[1].items()}
    rows = [_row(key, sides[0].get(key), under.get(key), (per[0], per[1]))
            for key in dict.fromkeys([*sides[0], *under])]
    total = sum(row.a_ms or 0.0 for row in rows) or 1.0
    names = {(was, device): now for (now, device), was in matching.names.items()}
    lines_of_work = total_line(rows, same, steps is not None), work_of_sums(rows)
    meetings = _meetings(runs, kernels, (sides[0], under), names, units_of)
    heads = [_row((*place, SWAPPED), *times, (per[0], per[1])) if times is not None else
             _summed(place, members, rows, group) for place, (members, group, times) in meetings.items()]
    rows += heads
    for row, q in zip(rows, q_values([row.p for row in rows]), strict=True):
        row.q, row.function_b = q, names.get((row.function, row.device))
        row.match = matching.how.get((row.function, row.device, row.kind))
        row.verdict = call_of(
            (row.a_ms or 0.0, row.b_ms or 0.0), (row.launches_a, row.launches_b),
            (row.delta_ms or 0.0, row.ci_low_ms, row.ci_high_ms), q, same.proved, least_ms=MATERIAL * total)
    _fold(rows, heads, meetings)
    cycles = step_time(runs, options, same)
    slower = sum(row.verdict in REGRESSIONS and row.part_of is None for row in rows)
    why = "" if shared_kinds(runs, options) else why_per_recording(runs, options)
    comparable = Comparability(same.proved, same.flops_ratio, tuple(caveats(runs, options)))
    verdict = Verdict(
        comparable, same, _explanation(same, slower), "launches", cycles, lines_of_work[1],
        calibration=Calibration("none: launches are the samples"))
    lacking = "no common cycles" if why else "too few cycles"
    window = bool(runs[0].info.facts.get(WINDOWED))
    resources = f"{lacking} to relate readings to functions" if all(run.has("metrics") for run in runs) else (
        f"no clock, power or utilisation readings {'in the window' if window else 'in both runs'}")
    data = "; ".join([same.sentence, *comparable.reasons, f"{lacking}: each launch is a sample"])
    lines = [*([line("Cycle", cycle_sentence(cycles, same))] if cycles else []),
             lines_of_work[0], line("Cause", resources), line("Data", data)]
    notes = [*devices.note(moved), *replay_notes((replays(runs[0]), replays(runs[1]))),
             "Launches and ms are per recorded step; what lies outside of the steps is left out." if steps is not None
             else f"Launches and ms are per recording: {why or 'at least one has fewer than two timed cycles'}.",
             *(launched_earlier(runs) if steps is not None else ())]
    if any(run.info.serialised for run in runs):
        notes.append("Launches were replayed one by one: totals are not wall time.")
    rows += _idle_rows(runs, options, same) if steps is not None else []
    ordered = under_their_rows(in_order(frame_of(rows), judged=same.proved))
    return Answer(ordered.lazy(), verdict.facts(), tuple(lines), tuple(notes))


Meetings = dict[Place, tuple[list[Function], Group, tuple[Floats, Floats] | None]]
"""Kernels that meet, by operator and device: their functions, how, and the times of the operator's calls (None where
calls are not known one by one)."""


def _meetings(
    runs: tuple[Trace, Trace], kernels: list[pl.LazyFrame], sides: tuple[Launches, Launches],
    names: dict[Place, str], units_of: tuple[WorkUnit | None, WorkUnit | None],
) -> Meetings:
    """Kernels that only one run has, or that one launches more often, under an operator that both call alike, or that
    do the same FLOPs at the same place; B's under the names they are compared under."""
    keys = [key for key in dict.fromkeys([*sides[0], *sides[1]]) if key[2] in MEETING]
    counts = [(len(sides[0].get(key, ())), len(sides[1].get(key, ()))) for key in keys]
    changed = [Changed(row, keys[row][:2], keys[row][2], float(b - a))
               for row, (a, b) in enumerate(counts) if not as_often(a, b)]
    if not any(one.kind == "kernel" for one in changed):
        return {}
    frames = [frame.filter(is_work()).select("device", "name", "index", "dur_ns").collect(
        engine="streaming") for frame in kernels]
    in_b = {one.place: (names.get(one.place, one.place[0]), one.place[1]) for one in changed}
    launches = under_common_operators(runs, (frames[0], frames[1]), (1.0, 1.0))
    result: Meetings = {}
    if launches is not None:
        makers = makers_of(launches[0], {place: place for place in in_b}), makers_of(launches[1], in_b)
        for operators, by_device in meeting(changed, makers).items():
            for device, rows in by_device.items():
                members = [keys[row] for row in rows]
                own = {key[0] for key in members}, {in_b[key[:2]][0] for key in members}
                every, ran = zip(*(_call_times(one, operators, device, some)
                                   for one, some in zip(launches, own, strict=True)), strict=True)
                a, b = ran if as_often(len(ran[0]), len(ran[1])) else every
                result[", ".join(operators), device] = members, Group("operator"), (a, b)
    used = {key[:2] for members, _, _ in result.values() for key in members}
    kinds = {one.place: keys[one.row] for one in changed}
    for place, members_of, group in of_equal_flops(runs, units_of, names, {}):
        if place not in result and used.isdisjoint(members_of) and kinds.keys() >= set(members_of):
            result[place] = [kinds[one] for one in members_of], group, None
    return result


def _call_times(
    launches: pl.DataFrame, operators: tuple[str, ...], device: str | None, members: set[str]
) -> tuple[Floats, Floats]:
    """The time (ms) that these kernels took in each call of some operators, NaN where one has no time; and in those
    calls only that launched one of them."""
    is_member = pl.col("name").cast(pl.String).is_in(list(members))
    time = pl.when(is_member).then("dur_ns").otherwise(0)
    there = pl.col("device").cast(pl.String).eq_missing(pl.lit(device, pl.String))
    calls = launches.filter(pl.col("op").is_in(operators), there).group_by("call").agg(
        pl.when(time.null_count() == 0).then(time.sum() / 1e6), ran=is_member.any()).sort("call")
    times: Floats = calls["dur_ns"].fill_null(np.nan).to_numpy()
    return times, times[calls["ran"].to_numpy()]


def _summed(place: Place, members: list[Function], rows: list[FunctionChange], group: Group) -> FunctionChange:
    """The row of kernels that do the same FLOPs, as a sum of theirs: its calls are not known one by one."""
    parts = [row for row in rows if (row.function, row.device, row.kind) in members]
    sums = [None if any(one is None for one in some) else sum(one or 0.0 for one in some)
            for some in ([row.a_ms for row in parts], [row.b_ms for row in parts])]
    calls = group.calls or 1.0
    each = [None if one is None else 1e3 * one / calls for one in sums]
    a, b = sums
    return FunctionChange(
        place[0], place[1], SWAPPED, "device", launches_a=calls, launches_b=calls, launch_us_a=each[0],
        launch_us_b=each[1], ratio=each[1] / each[0] if each[0] and each[1] else None, a_ms=a, b_ms=b,
        delta_ms=None if a is None or b is None else b - a)


def _fold(rows: list[FunctionChange], heads: list[FunctionChange], meetings: Meetings) -> None:
    """Mark the rows that are part of the row they meet in, which is what is judged."""
    by_key = {(row.function, row.device, row.kind): row for row in rows}
    for head, (members, group, _) in zip(heads, meetings.values(), strict=True):
        head.match, head.function_b, head.parts = group.match, group.name_b, len(members)
        for key in members:
            by_key[key].part_of, by_key[key].part_on, by_key[key].verdict = head.function, head.device, None


def steps_of(runs: tuple[Trace, Trace], options: Options) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """The recorded steps of both runs, those recorded whole unless none was; None unless both have steps of one kind.
    A time window cuts steps and is compared as it is."""
    if any(run.info.facts.get(WINDOWED) for run in runs) or not shared_kinds(runs, options):
        return None
    result = []
    for run in runs:
        cycles = find_cycles(run, options)
        if cycles.source not in MARKED or cycles.frame["start_ns"].null_count():
            return None
        timed = cycles.frame.drop_nulls("dur_ns")
        result.append(whole if (whole := timed.filter("complete")).height else timed)
    return (result[0], result[1]) if all(one.height for one in result) else None


def step_time(runs: tuple[Trace, Trace], options: Options, same: SameWork) -> CycleTime | None:
    """The step time of the recorded steps of runs with too few to compare; None where they have none."""
    steps = steps_of(runs, options)
    if steps is None:
        return None
    lengths = [one.select(pl.coalesce("step_ns", "dur_ns")).to_series().to_numpy() / 1e6 for one in steps]
    time = compare_lengths(lengths[0], lengths[1])
    return time if same.proved else time.unjudged


def judged_launches(
    runs: tuple[Trace, Trace], sides: tuple[Launches, Launches], options: Options
) -> tuple[Matches, SameWork, tuple[WorkUnit | None, WorkUnit | None]]:
    """How the functions of two recordings match, whether these are of the same work, and the units they are of."""
    kinds = shared_kinds(runs, options) if steps_of(runs, options) is not None else []
    found = [unit_of(run, options, side, kinds[0] if kinds else None) for run, side in zip(runs, SIDES, strict=True)]
    profiles = [_profiles(side, None if unit is None else unit.launches) for side, unit in zip(
        sides, found, strict=True)]
    matching = matches(profiles[0], profiles[1], (found[0], found[1]), {}, runs)
    table = not any(run.has("host") or run.kernels.select(
        pl.col("start_ns").is_not_null().any()).collect().item() for run in runs)
    evidence = alike_functions(
        {key: one.launches for key, one in profiles[0].items()},
        {(matching.names.get((key[0], key[1]), key[0]), *key[1:]): one.launches for key, one in profiles[1].items()},
        True) if table else None
    return matching, same_work(runs, (found[0], found[1]), matching.common, evidence), (found[0], found[1])


def _profiles(side: Launches, launches: pl.DataFrame | None) -> dict[Function, Profile]:
    first: dict[tuple[str, str | None, str | None], tuple[int, str | None]] = {}
    if launches is not None:
        rows = launches.with_row_index("place").group_by("name", "device", "kind").agg(
            pl.col("place").min(), pl.col("grid").first())
        columns = ["name", "device", "kind", "place", "grid"]
        first = {(str(name), device, kind): (place, grid) for name, device, kind, place, grid in rows.with_columns(
            pl.col("name", "device", "kind", "grid").cast(pl.String)).select(columns).rows()}
    return {key: Profile(len(times), 1e3 * float(np.nanmean(times)) if np.isfinite(times).any() else 0.0,
                         first.get(key, (0, None))[1], first.get(key, (None, None))[0]) for key, times in side.items()}


def launched_earlier(runs: tuple[Trace, Trace]) -> list[str]:
    """What devices are busy with in the steps and no step launched."""
    earlier = pl.col("earlier") & is_work()
    took = [assignment.launched(run).filter(earlier).select(pl.col("dur_ns").sum()).collect().item() for run in runs]
    amounts = " and ".join(f"{units.duration(ns)} in {name}" for name, ns in zip("AB", took, strict=True) if ns)
    return [f"Device time launched before the recording is left out: {amounts}."] if amounts else []


def _idle_rows(runs: tuple[Trace, Trace], options: Options, same: SameWork) -> list[FunctionChange]:
    """Idle time per step, by device and cause; with so few steps no verdict is given."""
    a, b = (mean_idle_time(run, options) for run in runs)
    return [] if not a or not b else [
        FunctionChange(
            idle_name(cause), device, IDLE, "idle", a_ms=a.get((device, cause), 0.0), b_ms=b.get((device, cause), 0.0),
            delta_ms=b.get((device, cause), 0.0) - a.get((device, cause), 0.0),
            verdict="too few cycles" if same.proved else "not judged",
        ) for device, cause in dict.fromkeys([*a, *b])
    ]


def under_the_same_devices(runs: tuple[Trace, Trace]) -> tuple[tuple[Trace, Trace], dict[str, str]]:
    """The runs with B's devices under A's names if they used different ones, and the renames (B's name → A's)."""
    names = [run.kernels.select(pl.col("device").unique().cast(pl.String)).collect()["device"] for run in runs]
    if (only := devices.only_device(*names)) is not None:
        a, b = (run.with_tables(kernels=run.kernels.with_columns(pl.col("device").fill_null(only))) for run in runs)
        return (a, b), {}
    if devices.together(*names):
        a, b = (run.with_tables(kernels=run.kernels.with_columns(device=pl.lit(None, NAME))) for run in runs)
        return (a, b), {}
    if not (moved := devices.mapped(*names)):
        return runs, {}
    return (runs[0], runs[1].with_tables(kernels=runs[1].kernels.with_columns(devices.renamed_devices(moved)))), moved


def launches_of(kernels: pl.LazyFrame) -> Launches:
    """The durations of every function."""
    frame = kernels.filter(is_work()).select(
        pl.col("name", "device", "kind").cast(pl.String), pl.col("dur_ns") / 1e6, "index",
    ).sort("index").collect(engine="streaming")
    groups = frame.group_by("name", "device", "kind", maintain_order=True)
    return {(str(name), device, kind): rows["dur_ns"].fill_null(np.nan).to_numpy()
            for (name, device, kind), rows in groups}


def _row(key: Function, a: Floats | None, b: Floats | None, per: tuple[float, float]) -> FunctionChange:
    function, device, kind = key
    sides = [np.empty(0) if one is None else one for one in (a, b)]
    a_ms, b_ms = (_total(side, count) for side, count in zip(sides, per, strict=True))
    us_a, us_b = (float(np.nanmean(side)) * 1e3 if np.isfinite(side).any() else None for side in sides)
    p, half = _tested(sides, per)
    delta = None if a_ms is None or b_ms is None else b_ms - a_ms
    low, high = (None if delta is None or half is None else delta + sign * half for sign in (-1, 1))
    return FunctionChange(
        function, device, kind, category(kind, device), launches_a=len(sides[0]) / per[0],
        launches_b=len(sides[1]) / per[1], launch_us_a=us_a, launch_us_b=us_b,
        ratio=us_b / us_a if us_a and us_b else None, a_ms=a_ms, b_ms=b_ms, delta_ms=delta, ci_low_ms=low,
        ci_high_ms=high, p=p, metric="latency" if us_a and us_b else None, mu_a=us_a, mu_b=us_b, unit="µs",
        sure_ms=max(0.0, low, -high) if low is not None and high is not None else
        abs(delta or 0.0) if (len(sides[0]) == 0) != (len(sides[1]) == 0) else 0.0,  # new or gone: beyond doubt
    )


def _total(times: Floats, per: float) -> float | None:
    """Total ms of the launches, those without a duration at the mean of the others; None if none has a duration."""
    if not len(times):
        return 0.0
    return float(np.nanmean(times)) * len(times) / per if np.isfinite(times).any() else None


def _tested(sides: Sequence[Floats], per: tuple[float, float]) -> tuple[float | None, float | None]:
    """p of the change of the total, and half its 95% interval in ms; None for both with too few launches."""
    counts = [len(side) for side in sides]
    if min(counts) < LEAST_LAUNCHES:
        return None, None
    a, b = (side / count for side, count in zip(sides, per, strict=True))
    if counts[0] == counts[1] and per[0] == per[1]:
        moved = (b - a)[np.isfinite(a) & np.isfinite(b)]
        if len(moved) < LEAST_LAUNCHES:
            return None, None
        _, low, high, p = welch(np.zeros((1, len(moved))), moved[None, :])
        return float(p[0]), float(high[0] - low[0]) / 2 * counts[0]
    a, b = a[np.isfinite(a)] * counts[0], b[np.isfinite(b)] * counts[1]
    if min(len(a), len(b)) < LEAST_LAUNCHES:
        return None, None
    _, low, high, p = welch(a[None, :], b[None, :])
    return float(p[0]), float(high[0] - low[0]) / 2


def _explanation(same: SameWork, slower: int) -> str:
    if not same.proved:
        return unjudged(same)
    count = f"{some(slower).capitalize()} function{'' if slower == 1 else 's'}"
    return f"{count} significantly slower per launch; without cycles and readings of the machine no cause can be named."


