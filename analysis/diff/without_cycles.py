"""The diff of runs with too few cycles to compare: launches are the samples, or there are only totals.

Two kernel tables or two ncu files hold one replay of each launch: a function's launches are its samples, paired in
order if both runs launch it equally often, since one name may stand for several problem sizes. Two ranks with one
recorded step each are compared by that step, and launches show which kernels differ. If only totals are known they are
subtracted, without statistics, the step breakdown first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl
from msgspec.structs import replace

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer
from ..core import device_pairs as devices
from ..core import units
from ..core.names.same_function import Function, same_functions
from ..cycles.whole import shared_kinds, why_per_recording
from ..idle.cause_meanings import idle_name
from ..kernels.sources import kernels_of
from .prepare.idle_time import mean_idle_time
from .prepare.prepared import replay_notes, replay_reasons, replays
from .prepare.samples import HOST, IDLE, SWAPPED
from .prepare.swapped_calls import SwappedCalls, swapped_calls
from .present.sentences import line, not_comparable, some
from .stats.permutation import q_values
from .stats.robust_location import Floats
from .unit_of_work import WorkTime, in_marked_steps, is_window, launched_earlier, unit_of_work, work_sentence
from .verdict.comparability import LEAST_SHARED, Comparability, by_operators, different_devices
from .verdict.cycle_time import CycleTime
from .verdict.device_work import DeviceWork
from .verdict.function_change import REGRESSIONS, Call, FunctionChange, category, frame_of, in_order, under_their_rows
from .verdict.suspects import BETWEEN_RUNS, LEVEL, LaunchChange, per_launch
from .verdict.verdict import Calibration, CategoryTime, Verdict

if TYPE_CHECKING:
    from ..overview.overview import Overview

SAID = 0.1  # A category is named if its change is at least this share of the sum of all changes.
Key = tuple[str, str | None]  # Function and device.
_Item = TypeVar("_Item")
_Often = Callable[[_Item], tuple[float, str | None]]
Sums = dict[Key, tuple[int, int, str | None]]  # (function, device) → total ns, launches and kind.
_NO_STATISTICS = "Only aggregates were recorded: differences, no statistics are possible."


def aggregates(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """The difference of step breakdowns and of kernel totals. Raises CannotAnswer if a run has neither."""
    steps = breakdowns(runs, options)
    result = [kernels_of(run) for run in runs]
    if (result[0] is None or result[1] is None) and steps is None:
        lacking = [run.info.label for run, side in zip(runs, result, strict=True) if side is None]
        holds = "holds" if len(lacking) == 1 else "hold"
        operators = "; ops compares their operators" if all(run.has("host.kind=op") for run in runs) else ""
        raise CannotAnswer(
            f"{' and '.join(lacking)} {holds} neither launches nor sums of kernels to compare{operators}.")
    names = [side.frame["device"].cast(pl.String).to_list() if side is not None else [] for side in result]
    apart = not devices.together(*names)
    a, b = (sums_of(side.frame, apart) if side is not None else {} for side in result)
    only, moved = (devices.only_device(*names), devices.mapped(*names)) if apart else (None, {})
    a = {(name, device or only): sums for (name, device), sums in a.items()}
    b = {(name, moved.get(device or "", device or only)): sums for (name, device), sums in b.items()}
    sides = a, under_the_same_names(a, b, lambda sums: (sums[1], sums[2]))
    rows = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        (a_ns, n_a, kind_a), (b_ns, n_b, kind_b) = (side.get(key, (0, 0, None)) for side in sides)
        us_a, us_b = (total / count / 1e3 if count else None for total, count in ((a_ns, n_a), (b_ns, n_b)))
        kind = kind_a or kind_b
        rows.append(FunctionChange(
            key[0], key[1], kind, category(kind, key[1]), launches_a=float(n_a), launches_b=float(n_b),
            launch_us_a=us_a, launch_us_b=us_b, ratio=us_b / us_a if us_a and us_b else None, a_ms=a_ns / 1e6,
            b_ms=b_ns / 1e6, delta_ms=(b_ns - a_ns) / 1e6,
            verdict="new" if not n_a else "gone" if not n_b else "too few cycles",
        ))
    comparability = comparability_of_sums(runs, options, sides)
    step = step_sentence(*steps) if steps else None
    verdict = Verdict(
        comparability, f"{step}. {_NO_STATISTICS}" if step else _NO_STATISTICS, "aggregates", work=work_of_sums(rows),
        breakdown=_categories(*steps) if steps else (),
    )
    reasons = "; ".join(comparability.reasons) or "comparable"
    lines = [
        *([line("Step", step)] if step else []), *([total_line(rows, False)] if rows else []),
        line("Data", f"{reasons}; aggregates only, no statistics are possible"),
    ]
    return Answer(in_order(frame_of(rows)).lazy(), verdict.facts(), tuple(lines), (_NO_STATISTICS,))


def breakdowns(runs: tuple[Trace, Trace], options: Options) -> tuple[Overview, Overview] | None:
    """The step breakdown of both runs by category; None if one has none recorded."""
    if not all(run.has("breakdown") for run in runs):
        return None
    from ..overview.sources import overview_of  # imports every rule of the findings: only recorded breakdowns need it

    return overview_of(runs[0], options, "a"), overview_of(runs[1], options, "b")


def _categories(a: Overview, b: Overview) -> tuple[CategoryTime, ...]:
    """Every category of either run, largest change first."""
    names = dict.fromkeys([*a.times, *b.times])
    result = [CategoryTime(name, a.times.get(name, 0.0) / 1e6, b.times.get(name, 0.0) / 1e6) for name in names]
    return tuple(sorted(result, key=lambda one: -abs(one.delta_ms)))


def step_sentence(a: Overview, b: Overview) -> str | None:
    """'6.29 s → 1.07 s per step (−83.0%): Runtime 4.83 s → 114.4 ms (−4.71 s), CPU Exec …'."""
    if not a.window_ns or not b.window_ns:
        return None
    changes = _categories(a, b)
    moved = sum(abs(one.delta_ms) for one in changes)
    named = [
        f"{one.category} {units.duration(one.a_ms * 1e6)} → {units.duration(one.b_ms * 1e6)}"
        f" ({units.duration(one.delta_ms * 1e6, signed=True)})"
        for place, one in enumerate(changes) if one.delta_ms and (place == 0 or abs(one.delta_ms) >= SAID * moved)
    ]
    percent = units.percent(100 * (b.window_ns - a.window_ns) / a.window_ns, signed=True)
    text = f"{units.duration(a.window_ns)} → {units.duration(b.window_ns)} per step ({percent})"
    return f"{text}: {', '.join(named)}" if named else text


def sums_of(frame: pl.DataFrame, by_device: bool = True) -> Sums:
    """Totals of the functions in a kernel table; without ``by_device`` summed over devices, with device None."""
    columns = frame.select(pl.col("name", "device", "kind").cast(pl.String), "total_ns", "count")
    result: Sums = {}
    for name, device, kind, total, count in columns.rows():
        key = name, device if by_device else None
        before = result.get(key, (0, 0, kind))
        result[key] = before[0] + (total or 0), before[1] + (count or 0), kind
    return result


def under_the_same_names(a: Mapping[Key, _Item], b: Mapping[Key, _Item], often: _Often[_Item]) -> dict[Key, _Item]:
    """B's items under A's names of the same functions; ``often`` gives an item's launches and kind."""
    sides: list[dict[Function, float]] = [
        {(name, (device, kind)): count for (name, device), one in side.items() for count, kind in [often(one)]}
        for side in (a, b)
    ]
    same = same_functions(*sides)
    return {(same.get((name, (device, often(one)[1])), name), device): one for (name, device), one in b.items()}


def comparability_of_sums(runs: tuple[Trace, Trace], options: Options, sides: Sequence[Sums]) -> Comparability:
    """Comparability by the operators, else by the devices and the share of time in functions both runs have."""
    totals = [sum(total for total, _, _ in side.values()) for side in sides]
    both = [key for key in sides[0] if key in sides[1] and sides[0][key][1] and sides[1][key][1]]
    common = [sum(side[key][0] for key in both) for side in sides]
    shared = min((part / whole for part, whole in zip(common, totals, strict=True) if whole), default=1.0)
    reasons = different_devices(runs)
    replayed = replay_reasons((replays(runs[0]), replays(runs[1])))
    if (judged := by_operators(runs, options, [*reasons, *replayed], shared)) is not None:
        return judged
    comparable = not reasons and shared >= LEAST_SHARED
    if shared < LEAST_SHARED:
        reasons.append(f"different workloads: only {shared:.0%} of the time is in functions both runs have")
    reasons += replayed
    every = len({*sides[0], *sides[1]})
    if lone := every - len(both):
        reasons.append(f"{units.count(lone)} of {units.count(every)} functions have no partner in the other run")
    return Comparability(comparable, round(shared, 4), tuple(reasons), shared)


def work_of_sums(rows: Sequence[FunctionChange], cycles: CycleTime | None = None) -> tuple[DeviceWork, ...]:
    """Device time per device, summed over its functions, and its idle share of the mean cycle if that is known."""
    sums: dict[tuple[str | None, int | None, int | None], tuple[float, float]] = {}
    for row in rows:
        if row.device != HOST:
            key = row.device, row.pid_a, row.pid_b
            a, b = sums.get(key, (0.0, 0.0))
            sums[key] = a + (row.a_ms or 0.0), b + (row.b_ms or 0.0)

    def idle(busy_ms: float, cycle_ms: float | None) -> float | None:
        return 1 - busy_ms / cycle_ms if cycle_ms and 0 <= busy_ms <= cycle_ms else None

    mean_a, mean_b = (cycles.mean_a_ms, cycles.mean_b_ms) if cycles else (None, None)
    return tuple(DeviceWork(*key, a, b, idle_a=idle(a, mean_a), idle_b=idle(b, mean_b)) for key, (a, b) in sums.items())


def total_line(rows: Sequence[FunctionChange], same_work: bool | None, by_step: bool = False) -> str:
    """One line with the device time of both runs, ``by_step`` of what was launched in one; ``same_work`` if it was
    scaled to the same amount of work, None if the runs do different work.
    """
    a, b = sum(row.a_ms or 0.0 for row in rows), sum(row.b_ms or 0.0 for row in rows)
    if not_timed := [
        run for run, side in (("A", "a_ms"), ("B", "b_ms")) if all(getattr(row, side) is None for row in rows)
    ]:
        return line("GPU", f"durations are not recorded in {' and '.join(not_timed)}")
    text = f"{units.amount(a, b)} of device time{' launched per step' if by_step else ''}"
    text += " for the same work" if same_work else ""
    if a and same_work is not None:
        text += f" ({units.percent(100 * (b / a - 1), signed=True)})"
    return line("GPU", text)


LEAST_LAUNCHES = 4  # With fewer launches on a side there is no significance test.
MATERIAL = 1e-4  # Share of the run's device time below which a change is not flagged.
Launches = tuple[Floats, str | None]  # Durations in ms in recorded order (NaN where none was recorded), and the kind.
Scales = tuple[float, float]  # Divisors of the totals of A and B.


def by_launch(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """Every function of both runs, with launches as samples. Raises CannotAnswer without any device activity."""
    if not all(run.has("kernels") for run in runs):
        return aggregates(runs, options)
    runs, moved = under_the_same_devices(runs)
    work, comparability = judged_work(runs, options)
    scales = (work.per_a, work.per_b) if work else (1.0, 1.0)
    by_step = work is not None and work.unit is None
    kernels = [in_marked_steps(run, options) if by_step else run.kernels for run in runs]
    sides = [_launches(frame) for frame in kernels]
    recorded = sides[1]
    sides[1] = under_the_same_names(sides[0], recorded, lambda one: (float(len(one[0])), one[1]))
    total = (float(sum(np.nansum(times) for times, _ in sides[0].values())) or 1.0) / scales[0]
    rows = [_row(key, sides[0].get(key), sides[1].get(key), scales) for key in dict.fromkeys([*sides[0], *sides[1]])]
    whole = list(rows)
    shown = {key: key for key in sides[0]}, dict(zip(recorded, sides[1], strict=True))
    theirs = {own: name for (name, _), own in shown[1].items() if own[0] != name}
    for row in rows:
        row.renamed = theirs.get((row.function, row.device))
    rows += _operators(rows, swapped_calls(
        runs, (kernels[0], kernels[1]), shown,
        {(row.function, row.device): (row.launches_a or 0.0, row.launches_b or 0.0) for row in rows}, scales), scales)
    for row, q in zip(rows, q_values([row.p for row in rows]), strict=True):
        row.q = q
        row.verdict = _verdict(row, total)
    changes = per_launch(whole) if comparability.by_launch else ()
    regressions = sum(row.verdict in REGRESSIONS and row.part_of is None for row in rows)
    verdict = Verdict(
        comparability, _explanation(comparability, regressions, changes), "launches", work.time if work else None,
        work_of_sums(whole), calibration=Calibration("none: launches are the samples"),
        unit_of_work=work.unit if work else None, per_launch=changes,
    )
    lines = [] if work is None else [line("Cycle" if by_step else "Work", work_sentence(work))]
    why = "" if shared_kinds(runs, options) else why_per_recording(runs, options)
    cycles = "no common cycles" if why else "too few cycles"
    resources = f"{cycles} to relate readings to functions" if all(run.has("metrics") for run in runs) else (
        f"no clock, power or utilisation readings {'in the window' if is_window(runs[0]) else 'in both runs'}")
    same_work = work is not None if comparability.comparable else None
    lines += [total_line(whole, same_work, by_step), line("Cause", resources)]
    reasons = comparability.why or "comparable" if comparability.comparable else f"NOT comparable: {comparability.why}"
    samples = "too few steps to estimate noise from them" if by_step else cycles
    data = line("Data", f"{reasons}; {samples}: each launch is a sample")
    ordered = [*lines, data] if comparability.comparable else [data, *lines]
    notes = [*devices.note(moved), *replay_notes((replays(runs[0]), replays(runs[1]))),
             _scale_note(work, is_window(runs[0]), why), *(launched_earlier(runs) if by_step else ())]
    if any(run.info.serialised for run in runs):
        notes.append("Launches were replayed one by one: totals are not wall time.")
    rows += _idle_rows(runs, options) if by_step else []
    table = under_their_rows(in_order(frame_of(rows)))
    return Answer(table.lazy(), verdict.facts(), tuple(ordered), tuple(notes))


def _operators(
    rows: Sequence[FunctionChange], swapped: Mapping[Key, SwappedCalls], scales: Scales
) -> list[FunctionChange]:
    """A row per operator whose kernels were swapped; the rows of these kernels become parts of it."""
    by_key, result = {(row.function, row.device): row for row in rows}, []
    for key, calls in swapped.items():
        row = _row(key, (calls.a, SWAPPED), (calls.b, SWAPPED), scales)
        row.parts = len(calls.kernels)
        for kernel in calls.kernels:
            by_key[kernel].part_of, by_key[kernel].part_on = key
        result.append(row)
    return result


def _idle_rows(runs: tuple[Trace, Trace], options: Options) -> list[FunctionChange]:
    """Idle time per step, by device and cause; with so few steps no verdict is given."""
    a, b = (mean_idle_time(run, options) for run in runs)
    return [] if not a or not b else [
        FunctionChange(
            idle_name(cause), device, IDLE, "idle", a_ms=a.get((device, cause), 0.0), b_ms=b.get((device, cause), 0.0),
            delta_ms=b.get((device, cause), 0.0) - a.get((device, cause), 0.0), verdict="too few cycles",
        ) for device, cause in dict.fromkeys([*a, *b])
    ]


def judged_work(runs: tuple[Trace, Trace], options: Options) -> tuple[WorkTime | None, Comparability]:
    """The unit of work and the comparability; if the runs do different work, neither is called faster or slower."""
    work = unit_of_work(runs, options)
    by_step = work is not None and work.unit is None
    result = [kernels_of(run.with_tables(kernels=in_marked_steps(run, options)) if by_step else run) for run in runs]
    sides = [sums_of(side.frame) if side is not None else {} for side in result]
    comparability = comparability_of_sums(runs, options, sides)
    if work is not None and not comparability.comparable:
        work = replace(work, time=work.time.of_other_work)
    return work, comparability


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


def _scale_note(work: WorkTime | None, window: bool, why: str) -> str:
    if window:
        return "Launches and ms are of the whole window: it holds fewer than two whole cycles of at least one run."
    if work is not None and work.unit is None:
        return "Launches and ms are per recorded step; what lies outside of the steps is left out."
    if work is not None and work.unit is not None and abs(work.per_b - 1) > BETWEEN_RUNS:
        return f"Launches and ms of B are scaled by {1 / work.per_b:.3f} to A's amount of work ({work.unit.what})."
    return f"Launches and ms are per run: {why or 'at least one run has fewer than two timed cycles'}."


def _launches(kernels: pl.LazyFrame) -> dict[tuple[str, str | None], Launches]:
    """Launches by (function, device)."""
    frame = (
        kernels.filter(pl.col("kind") != "sync").select(
            pl.col("name", "device", "kind").cast(pl.String), pl.col("dur_ns") / 1e6, "index"
        ).sort("index").collect(engine="streaming")
    )
    groups = frame.group_by("name", "device", maintain_order=True)
    return {
        (str(key[0]), key[1]): (group["dur_ns"].fill_null(np.nan).to_numpy(), group["kind"][0]) for key, group in groups
    }


def _row(key: tuple[str, str | None], a: Launches | None, b: Launches | None, scales: Scales) -> FunctionChange:
    function, device = key
    kind = (a or b or (None, None))[1]
    times_a, times_b = (side[0] if side else np.empty(0) for side in (a, b))
    a_ms, b_ms = (_total(side, scale) for side, scale in zip((times_a, times_b), scales, strict=True))
    us_a, us_b = (float(np.nanmean(side)) * 1e3 if np.isfinite(side).any() else None for side in (times_a, times_b))
    p, margin = _test(times_a, times_b, scales)
    delta = None if a_ms is None or b_ms is None else b_ms - a_ms
    return FunctionChange(
        function, device, kind, category(kind, device), launches_a=len(times_a) / scales[0],
        launches_b=len(times_b) / scales[1], launch_us_a=us_a, launch_us_b=us_b,
        ratio=us_b / us_a if us_a and us_b else None, a_ms=a_ms, b_ms=b_ms, delta_ms=delta,
        ci_low_ms=None if delta is None or margin is None else delta - margin,
        ci_high_ms=None if delta is None or margin is None else delta + margin,
        p=p, metric="latency" if us_a and us_b else None, mu_a=us_a, mu_b=us_b, unit="µs",
        sure_ms=_sure(delta, margin, in_both=bool(a and b)),
    )


def _total(times: Floats, scale: float) -> float | None:
    """Total ms of the launches, those without a duration at the mean of the others; None if none has a duration."""
    if not len(times):
        return 0.0
    return float(np.nanmean(times)) * len(times) / scale if np.isfinite(times).any() else None


def _sure(delta: float | None, margin: float | None, in_both: bool) -> float:
    """The smallest change within the 95% CI, ms, unsigned; the change itself if only one run has the function."""
    if delta is None or (in_both and margin is None):
        return 0.0
    return max(0.0, abs(delta) - (margin or 0.0))


def _test(a: Floats, b: Floats, scales: Scales) -> tuple[float | None, float | None]:
    """The p-value of the time per launch, and half the width of the 95% CI of the change in total ms."""
    from scipy.special import stdtr, stdtrit

    launches, paired = (len(a), len(b)), len(a) == len(b)
    known_a, known_b = np.isfinite(a), np.isfinite(b)
    a, b = (a[known_a & known_b], b[known_a & known_b]) if paired else (a[known_a], b[known_b])
    if min(len(a), len(b)) < LEAST_LAUNCHES or min(a.min(), b.min()) <= 0:
        return None, None
    if paired:
        logs, direct = np.log(b / a), b / scales[1] - a / scales[0]
        error, freedom = float(logs.std(ddof=1)) / np.sqrt(len(logs)), len(logs) - 1
        delta, spread = float(logs.mean()), float(direct.std(ddof=1)) * launches[0] / np.sqrt(len(direct))
    else:
        la, lb = np.log(a), np.log(b)
        variances = float(la.var(ddof=1)) / len(a), float(lb.var(ddof=1)) / len(b)
        error, freedom = float(np.sqrt(sum(variances))), min(len(a), len(b)) - 1
        delta = float(lb.mean() - la.mean())
        spread = float(np.hypot(
            a.std(ddof=1) * launches[0] / np.sqrt(len(a)) / scales[0],
            b.std(ddof=1) * launches[1] / np.sqrt(len(b)) / scales[1],
        ))
    error = max(error, 0.001)
    return float(2 * stdtr(freedom, -abs(delta) / error)), float(stdtrit(freedom, 0.975)) * spread


def _verdict(row: FunctionChange, total_ms: float) -> Call:
    """The verdict by q, CI and size of the change. New and gone mean not launched in one run; 0 ms is neither."""
    launches_a, launches_b = row.launches_a or 0.0, row.launches_b or 0.0
    a_ms, b_ms, delta = row.a_ms or 0.0, row.b_ms or 0.0, row.delta_ms or 0.0
    if not launches_a or not launches_b:
        return "new" if launches_b else "gone"
    if row.q is None:
        return "too few cycles"
    beyond = abs(delta) >= BETWEEN_RUNS * max(a_ms, b_ms)
    if row.q <= LEVEL and beyond and row.sure_ms > 0 and max(a_ms, b_ms) >= MATERIAL * total_ms:
        return "slower" if delta > 0 else "faster"
    return "~"


def _explanation(comparability: Comparability, regressions: int, changes: Sequence[LaunchChange]) -> str:
    if not comparability.comparable:
        return not_comparable(comparability, changes)
    count = f"{some(regressions).capitalize()} function{'' if regressions == 1 else 's'}"
    return f"{count} significantly slower per launch; without cycles and readings of the machine no cause can be named."
