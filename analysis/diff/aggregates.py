"""The diff of runs of which only sums are known: a step breakdown and totals per kernel, subtracted.

No statistics are possible, and the verdict says so. The breakdown comes first: where a step took five seconds longer in
runtime calls, totals of kernels that agree to a percent are not the news.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer
from ..core import device_pairs as devices
from ..core import units
from ..core.names.same_function import Function, same_functions
from ..kernels.sources import kernels_of
from .prepare.stratify import replay_reasons, replays
from .present.sentences import line
from .verdict.comparability import LEAST_SHARED, Comparability, by_operators, different_devices
from .verdict.device_work import DeviceWork
from .verdict.function_change import FunctionChange, category, frame_of, in_order
from .verdict.verdict import CategoryTime, Verdict

if TYPE_CHECKING:
    from ..overview.overview import Overview

SAID = 0.1
"""A category is named where its change makes up this share of all change."""
Sums = dict[tuple[str, str | None], tuple[int, int, str | None]]
"""(function, device) → its time in ns, its launches and its kind."""
_NO_STATISTICS = "Only aggregates were recorded: differences, no statistics are possible."


def aggregates(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """Breakdowns and sums of kernels subtracted. Raises CannotAnswer where a run holds neither."""
    steps = breakdowns(runs, options)
    found = [kernels_of(run) for run in runs]
    if (found[0] is None or found[1] is None) and steps is None:
        lacking = [run.info.label for run, side in zip(runs, found, strict=True) if side is None]
        raise CannotAnswer(f"{' and '.join(lacking)} hold neither cycles nor launches nor sums of kernels to compare.")
    sides = _under_the_same_names(*(sums_of(side.frame) if side is not None else {} for side in found))
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
    """The step of both runs by category; None where one has no recorded breakdown."""
    if not all(run.has("breakdown") for run in runs):
        return None
    from ..overview.sources import overview_of  # with every rule of the findings: for recorded breakdowns only

    return overview_of(runs[0], options, "a"), overview_of(runs[1], options, "b")


def _categories(a: Overview, b: Overview) -> tuple[CategoryTime, ...]:
    """Every category of either run, the one that changed most first."""
    names = dict.fromkeys([*a.times, *b.times])
    made = [CategoryTime(name, a.times.get(name, 0.0) / 1e6, b.times.get(name, 0.0) / 1e6) for name in names]
    return tuple(sorted(made, key=lambda one: -abs(one.delta_ms)))


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


def sums_of(frame: pl.DataFrame) -> Sums:
    """The functions of a kernel table."""
    columns = frame.select(pl.col("name", "device", "kind").cast(pl.String), "total_ns", "count")
    made: Sums = {}
    for name, device, kind, total, count in columns.rows():
        before = made.get((name, device), (0, 0, kind))
        made[name, device] = (before[0] + (total or 0), before[1] + (count or 0), kind)
    return made


def _under_the_same_names(a: Sums, b: Sums) -> tuple[Sums, Sums]:
    """The sums with B's devices and functions under the names that A has for them."""
    names = [device for _, device in a], [device for _, device in b]
    only, moved = devices.only_device(*names), devices.mapped(*names)
    a = {(name, device or only): sums for (name, device), sums in a.items()}
    b = {(name, moved.get(device or "", device or only)): sums for (name, device), sums in b.items()}
    often: list[dict[Function, float]] = [
        {(name, (device, sums[2])): sums[1] for (name, device), sums in side.items()} for side in (a, b)
    ]
    same = same_functions(*often)
    return a, {(same.get((name, (device, sums[2])), name), device): sums for (name, device), sums in b.items()}


def comparability_of_sums(
    runs: tuple[Trace, Trace], options: Options, sides: Sequence[Sums]
) -> Comparability:
    """Judged by the operators, else by the devices and by the share of time in functions both runs have."""
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


def work_of_sums(rows: Sequence[FunctionChange]) -> tuple[DeviceWork, ...]:
    """Device time per device, over all its functions."""
    sums: dict[str | None, tuple[float, float]] = {}
    for row in rows:
        a, b = sums.get(row.device, (0.0, 0.0))
        sums[row.device] = a + (row.a_ms or 0.0), b + (row.b_ms or 0.0)
    return tuple(DeviceWork(device, None, None, a, b) for device, (a, b) in sums.items())


def total_line(rows: Sequence[FunctionChange], same_work: bool | None) -> str:
    """Device time of both runs in a line; ``same_work`` where it was brought to the same amount of work, None where
    the runs do different work.
    """
    a, b = sum(row.a_ms or 0.0 for row in rows), sum(row.b_ms or 0.0 for row in rows)
    text = f"{units.amount(a, b)} of device time{' for the same work' if same_work else ''}"
    if a and same_work is not None:
        text += f" ({100 * (b / a - 1):+.1f}%)".replace("-", "−")
    return line("GPU", text)
