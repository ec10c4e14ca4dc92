"""A history in sentences: each step with its run, size and false-alarm rate, and what is not confirmed yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from ..idle.cause_meanings import LABELS
from .noise import FEWEST_RUNS, medians
from .runs import History
from .steps import ALL, BUSY, COMMON, CYCLE, FEWEST_AFTER, IDLE, KERNEL, OP, Judged, LevelStep, Unconfirmed

MOST = 6
"""Most steps put into sentences; the list has all of them."""


def sentences(history: History, judged: Judged) -> tuple[str, ...]:
    """The summary: steps, costliest first, then what the last runs leave unconfirmed."""
    steps = list(judged.steps)
    distinct = [step for step in steps if not _repeats(step, judged)]
    lines = [step_sentence(history, judged, step) for step in distinct[:MOST]]
    if len(distinct) > MOST:
        lines.append(f"{units.counted(len(distinct) - MOST, 'more step', 'more steps')} in the list.")
    if not steps:
        lines.append(_nothing(history, judged))
    lines += [unconfirmed_sentence(history, judged, one) for one in judged.unconfirmed[:3]]
    if len(judged.unconfirmed) > 3:
        more = units.counted(len(judged.unconfirmed) - 3, "more series was", "more series were")
        lines.append(f"{more} off in the last run or two.")
    return tuple(lines)


def step_sentence(history: History, judged: Judged, step: LevelStep) -> str:
    """gemm_c is 5.1% slower since run 25 (nightly-025): 5.76 → 6.05 ms per cycle, +0.29 ms. Seen in 15 runs; …"""
    apart = step.last - step.first
    place = f"about {history.label(step.index)}, runs {step.first + 1}–{step.last + 1}" if apart > 2 else history.label(
        step.index)
    size = units.percent(100 * abs(step.change))
    times = (f"{units.amount(step.before_ns / 1e6, step.after_ns / 1e6)} per {_unit(history)}, "
             f"{units.amount(step.cost_ns / 1e6, signed=True)}")
    slower = "slower" if step.change > 0 else "faster"
    if step.series == -1:
        kernels = int(judged.series.of_kind(KERNEL).sum())
        return (
            f"Most kernels are about {size} {slower} since {place}, in proportion to how much each follows clock or "
            f"temperature ({step.carries} of {kernels}): the machine, or a change to all of them, not one kernel. "
            f"It is taken out of the rows below. {_evidence(step)}"
        )
    kind, name = judged.series.kinds[step.series], judged.series.names[step.series]
    if kind == IDLE:
        longer = "more" if step.cost_ns > 0 else "less"
        return f"{name_of(kind, name)} takes {longer} time since {place}: {times}. {_evidence(step)}"
    came = _came_and_went(history, judged, step) if kind == CYCLE else ""
    return f"{name_of(kind, name)} is {size} {slower} since {place}: {times}. {came}{_evidence(step)}"


def _came_and_went(history: History, judged: Judged, step: LevelStep) -> str:
    """Kernels that are only in the runs since a step, or only in those before: no steps themselves, but its cause."""
    there = np.isfinite(judged.series.per_cycle)
    compared = np.array([not run.not_tested for run in history.runs], dtype=bool)
    after = np.arange(len(compared)) >= step.index
    result = []
    for word, has, lacks in (("New", after, ~after), ("Gone", ~after, after)):
        only = there[:, has & compared].all(axis=1) & ~there[:, lacks & compared].any(axis=1)
        rows = np.flatnonzero(only & ~judged.series.of_kind(OP))
        time = medians(judged.series.per_cycle[rows])
        names = [f"{fit_name(judged.series.names[rows[at]], 40)}, {units.amount(time[at] / 1e6)}"
                 for at in np.argsort(-time)[:3]]
        if names:
            more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
            result.append(f"{word} since then: {'; '.join(names)}{more}. ")
    return "".join(result)


def _unit(history: History) -> str:
    return "recording" if history.cycle_kind == "recording" else "cycle"


def name_of(kind: str, name: str) -> str:
    """The name of a series in a sentence."""
    if kind == CYCLE:
        return "The cycle"
    if kind == BUSY:
        return "Busy time per cycle"
    if (kind, name) == (IDLE, ALL):
        return "Idle time per cycle"
    if kind == COMMON:
        return "The common factor"
    if kind == IDLE:
        return f"Idle time, {LABELS.get(name, display(name))},"
    return f"{'Operator ' if kind == OP else ''}{fit_name(name, 60)}"


def _evidence(step: LevelStep) -> str:
    """The number of runs that show the step, and how often chance alone does that."""
    seen = f"Seen in {units.counted(step.runs_after, 'run', 'runs')}"
    if step.q < 1e-6:
        return f"{seen}; chance alone does that less than once in a million such histories."
    return f"{seen}; chance alone does that once in {units.number(round(1 / step.q))} such histories."


def _repeats(step: LevelStep, judged: Judged) -> bool:
    """Whether a sum's step repeats that of a part of it, at most one run apart and much the same time: an operator's
    that of a kernel it launches, all busy or idle time that of anything else."""
    if step.series < 0 or (not (whole := _is_sum(step, judged)) and judged.series.kinds[step.series] != OP):
        return False
    return any(
        other.series >= 0 and not _is_sum(other, judged) and abs(other.index - step.index) <= 1
        and (whole or judged.series.kinds[other.series] not in (OP, CYCLE))
        and abs(other.cost_ns - step.cost_ns) <= 0.25 * abs(step.cost_ns)
        for other in judged.steps
    )


def _is_sum(step: LevelStep | Unconfirmed, judged: Judged) -> bool:
    """Whether it is of all busy or all idle time."""
    return step.series >= 0 and (judged.series.kinds[step.series] == BUSY or judged.series.names[step.series] == ALL)


def _nothing(history: History, judged: Judged) -> str:
    tested = int(judged.tested.sum())
    if not tested:
        return (
            f"{units.counted(history.compared, 'comparable run', 'comparable runs')}; finding a step takes "
            f"{FEWEST_RUNS}."
        )
    noise = judged.noise[judged.tested]
    quiet = int((noise <= 0.006).sum())
    return (
        f"No steps over {history.compared} runs in {tested} series. The noise of a run is "
        f"{units.percent(100 * float(np.min(noise)))} to {units.percent(100 * float(np.max(noise)))}; a step of 2% "
        f"shows where it is 0.6% or less: in {quiet} of them."
    )


def unconfirmed_sentence(history: History, judged: Judged, one: Unconfirmed) -> str:
    """softmax was 8% slower in the last run. One run does not tell a step from a bad run: …"""
    kind, name = (
        (COMMON, COMMON) if one.series < 0 else (judged.series.kinds[one.series], judged.series.names[one.series]))
    what = "Most kernels were" if kind == COMMON else f"{name_of(kind, name)} was"
    size = f"{units.percent(100 * abs(one.change))} {'slower' if one.change > 0 else 'faster'}"
    if kind == IDLE:
        size = "longer" if one.change > 0 else "shorter"
    last = "the last run" if one.runs == 1 else "the last two runs"
    few = "One run does" if one.runs == 1 else "Two runs do"
    more = {2: "two more like it", 1: "one more like them"}[FEWEST_AFTER - one.runs]
    return f"{what} {size} in {last}. {few} not tell a step from a bad run: {more}, or run the job again."


def steps_text(steps: Sequence[LevelStep]) -> str:
    """The steps of one series as a list shows them: +5.1% @25, −3.0% @31."""
    return ", ".join(f"{units.percent(100 * step.change, signed=True)} @{step.index + 1}" for step in steps)
