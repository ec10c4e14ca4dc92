"""The diff of runs without cycles enough to compare: launches are the samples.

Two kernel tables or two ncu files hold one replay of each launch: a function's launches are its samples, in pairs (the
first with the first) where both runs launch it equally often, since one name may stand for several problem sizes. So it
is with two ranks of which one recorded step each is known: the steps are compared as they are, and launches say which
kernels differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import Answer
from ..core import device_pairs as devices
from ..core.names.same_function import Function, same_functions
from ..kernels.sources import kernels_of
from .aggregates import aggregates, comparability_of_sums, sums_of, total_line, work_of_sums
from .prepare.stratify import replay_notes, replays
from .present.causes import not_comparable
from .present.sentences import line, some
from .stats.fdr import q_values
from .stats.robust_location import Floats
from .unit_of_work import WorkTime, in_marked_steps, unit_of_work, work_sentence
from .verdict.comparability import Comparability
from .verdict.function_change import REGRESSIONS, Call, FunctionChange, category, frame_of, in_order
from .verdict.per_launch import LaunchChange, per_launch
from .verdict.suspects import BETWEEN_RUNS, LEVEL
from .verdict.verdict import Calibration, Verdict

LEAST_LAUNCHES = 4
"""Fewer launches than this on a side say nothing about chance."""
MATERIAL = 1e-4
"""Share of the run's device time below which a change is no news."""
Launches = tuple[Floats, str | None]
"""Durations in ms in recorded order, NaN where none was recorded, and the kind."""
Scales = tuple[float, float]
"""What sums of each run are divided by."""


def by_launch(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """Every function of both runs with its launches as the samples. Raises CannotAnswer without any device activity."""
    if not all(run.has("kernels") for run in runs):
        return aggregates(runs, options)
    runs, moved = under_the_same_devices(runs)
    work, comparability = judged_work(runs, options)
    scales = (work.per_a, work.per_b) if work else (1.0, 1.0)
    by_step = work is not None and work.unit is None
    sides = [_launches(in_marked_steps(run, options) if by_step else run.kernels) for run in runs]
    sides[1] = _under_the_same_names(*sides)
    total = (float(sum(np.nansum(times) for times, _ in sides[0].values())) or 1.0) / scales[0]
    rows = [_row(key, sides[0].get(key), sides[1].get(key), scales) for key in dict.fromkeys([*sides[0], *sides[1]])]
    for row, q in zip(rows, q_values([row.p for row in rows]), strict=True):
        row.q = q
        row.verdict = _verdict(row, total)
    changes = () if comparability.comparable else per_launch(rows)
    regressions = sum(row.verdict in REGRESSIONS for row in rows)
    verdict = Verdict(
        comparability, _explanation(comparability, regressions, changes), "launches", work.time if work else None,
        work_of_sums(rows), calibration=Calibration("none: launches are the samples"),
        unit_of_work=work.unit if work else None, per_launch=changes,
    )
    same_work = work is not None if comparability.comparable else None
    lines = [*_work_lines(work), total_line(rows, same_work), line("Cause", _no_resources(runs))]
    data = _data_line(comparability, by_step)
    ordered = [*lines, data] if comparability.comparable else [data, *lines]
    notes = [*devices.note(moved), *replay_notes((replays(runs[0]), replays(runs[1]))), *_scale_notes(work)]
    if any(run.info.serialised for run in runs):
        notes.append("Launches were replayed one by one: totals are not wall time.")
    return Answer(in_order(frame_of(rows)).lazy(), verdict.facts(), tuple(ordered), tuple(notes))


def judged_work(
    runs: tuple[Trace, Trace], options: Options
) -> tuple[WorkTime | None, Comparability]:
    """The unit of work, and whether the runs do the same; no run is called faster or slower where they do not."""
    work = unit_of_work(runs, options)
    by_step = work is not None and work.unit is None
    found = [
        kernels_of(run.with_tables(kernels=in_marked_steps(run, options)) if by_step else run) for run in runs
    ]
    sides = [sums_of(side.frame) if side is not None else {} for side in found]
    comparability = comparability_of_sums(runs, options, sides)
    if work is not None and not comparability.comparable:
        work = replace(work, time=work.time.of_other_work)
    return work, comparability


def under_the_same_devices(runs: tuple[Trace, Trace]) -> tuple[tuple[Trace, Trace], dict[str, str]]:
    """The runs with B's devices under the names of A's where they used different ones, and those that were renamed."""
    names = [run.kernels.select(pl.col("device").unique().cast(pl.String)).collect()["device"] for run in runs]
    if (only := devices.only_device(*names)) is not None:
        named = [run.with_tables(kernels=run.kernels.with_columns(pl.col("device").fill_null(only))) for run in runs]
        return (named[0], named[1]), {}
    moved = devices.mapped(*names)
    if not moved:
        return runs, moved
    return (runs[0], runs[1].with_tables(kernels=runs[1].kernels.with_columns(devices.under(moved)))), moved


def _work_lines(work: WorkTime | None) -> list[str]:
    return [] if work is None else [line("Cycle" if work.unit is None else "Work", work_sentence(work))]


def _data_line(comparability: Comparability, by_step: bool) -> str:
    reasons = "; ".join(comparability.reasons)
    told = reasons or "comparable" if comparability.comparable else f"NOT comparable: {reasons}"
    samples = "too few steps to tell chance by them" if by_step else "no cycles"
    return line("Data", f"{told}; {samples}: each launch is a sample")


def _scale_notes(work: WorkTime | None) -> list[str]:
    if work is not None and work.unit is None:
        return ["Launches and ms are per recorded step; what lies outside of the steps is left out."]
    if work is not None and work.unit is not None and abs(work.per_b - 1) > BETWEEN_RUNS:
        scale = f"{1 / work.per_b:.3f} to A's amount of work ({work.unit.what})"
        return [f"Launches and ms of B are scaled by {scale}."]
    return ["Launches and ms are per run: no cycles were found in one run at least."]


def _launches(kernels: pl.LazyFrame) -> dict[tuple[str, str | None], Launches]:
    """(function, device) → its launches."""
    frame = (
        kernels.filter(pl.col("kind") != "sync").select(
            pl.col("name", "device", "kind").cast(pl.String), pl.col("dur_ns") / 1e6, "index"
        ).sort("index").collect(engine="streaming")
    )
    groups = frame.group_by("name", "device", maintain_order=True)
    return {
        (str(key[0]), key[1]): (group["dur_ns"].fill_null(np.nan).to_numpy(), group["kind"][0]) for key, group in groups
    }


def _under_the_same_names(
    a: dict[tuple[str, str | None], Launches], b: dict[tuple[str, str | None], Launches]
) -> dict[tuple[str, str | None], Launches]:
    """B's launches under the names A has for the same functions."""
    often: list[dict[Function, float]] = [
        {(name, (device, kind)): float(len(times)) for (name, device), (times, kind) in side.items()} for side in (a, b)
    ]
    names = same_functions(*often)
    return {
        (names.get((name, (device, side[1])), name), device): side for (name, device), side in b.items()
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
    """What the launches took together in ms, those without a duration as the others; None where none has one."""
    if not len(times):
        return 0.0
    return float(np.nanmean(times)) * len(times) / scale if np.isfinite(times).any() else None


def _sure(delta: float | None, margin: float | None, in_both: bool) -> float:
    """The near end of the change's interval, ms; all of it where only one run has the function."""
    if delta is None or (in_both and margin is None):
        return 0.0
    return max(0.0, abs(delta) - (margin or 0.0))


def _test(a: Floats, b: Floats, scales: Scales) -> tuple[float | None, float | None]:
    """p-value of the time per launch, and half the width of the 95% interval of the total's change in ms."""
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
    """By q alone. Launched in one run only is new or gone; zero time is not."""
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


def _no_resources(runs: tuple[Trace, Trace]) -> str:
    if all(run.has("metrics") for run in runs):
        return "readings cannot be tied to the work without cycles"
    return "no readings of the machine were recorded"
