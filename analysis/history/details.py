"""The details beside a row of a history: a series with its steps, or a run with what was unusual in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract.sections import MOST, Section
from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from .answer import OFF, JudgedHistory
from .sentences import step_sentence
from .steps import COMMON


def sections(row: dict[str, Any], one: JudgedHistory) -> list[Section]:
    """The steps of a series with their evidence, and its time in the last runs."""
    history, judged = one.history, one.judged
    key = str(row["kind"]), str(row["name"])
    keys = list(zip(judged.series.kinds, judged.series.names, strict=True))
    at = -1 if key[0] == COMMON else keys.index(key)
    result = []
    for step in judged.of_series(at):
        low, high = (units.percent(100 * value, signed=True) for value in (step.low, step.high))
        rows = [("", step_sentence(history, judged, step)), ("95% CI", f"{low} … {high}"),
                ("q", f"{units.number(step.q)} (false-alarm rate over the history)")]
        if step.last > step.first:
            rows.append(("it came with", f"one of the runs {step.first + 1}–{step.last + 1}"))
        if step.share and at >= 0:
            rows.append(("common factor", f"follows {units.number(step.share)} of it, taken out"))
        result.append(Section(f"Step at run {step.index + 1}", tuple(rows)))
    if at >= 0:
        last = history.runs[-MOST:]
        result.append(Section("Last runs", tuple(
            (str(run.index + 1), display(run.run.label, 32), _time(history.shown[at, run.index])) for run in last
        ), ("#", "run", _per(one))))
    return result


def run_sections(index: int, one: JudgedHistory) -> list[Section]:
    """The properties of a run, the steps that came with it, and the series furthest from their level in it."""
    history, judged = one.history, one.judged
    run = history.runs[index]
    about = [("file", display(run.run.source)), ("recorded", run.run.recorded or "not known"),
             ("hardware", display(", ".join(run.run.hardware)) or "not recorded"),
             ("cycles", f"{run.part.cycles} ({run.run.cycle_source})" if run.part and run.run.cycle_source else "none")]
    if run.not_tested:
        about.append(("not tested", display(run.not_tested)))
    if judged.common.removed:
        about.append(("common factor", units.percent(100 * float(np.expm1(judged.common.factor[index])), signed=True)))
    result = [Section(f"Run {index + 1}", tuple(about))]
    steps = [(fit_name(one.key_of(step.series)[1], 48), units.percent(100 * step.change, signed=True))
             for step in judged.steps if step.index == index]
    if steps:
        result.append(Section("Steps that came with it", tuple(steps)))
    apart = judged.deviations[:, index]
    order = [row for row in np.argsort(-np.nan_to_num(np.abs(apart))) if abs(apart[row]) > OFF][:MOST]
    if not run.not_tested:
        result.append(Section("Off their level in this run", tuple(
            (fit_name(judged.series.names[row], 48), _time(history.shown[row, index]), f"{apart[row]:+.0f} σ")
            for row in order
        ), ("series", _per(one), "from its level")) if order else Section(
            "Off their level in this run", (("", f"No series is more than {OFF:g} standard deviations off."),)))
    if run.run.warnings:
        result.append(Section("Warnings", tuple(("", display(one)) for one in run.run.warnings[:MOST])))
    return result


def _per(one: JudgedHistory) -> str:
    """What the times are of: a cycle, or a recording where no run has cycles."""
    return "time per cycle" if any(run.run.cycle_source for run in one.history.runs) else "time"


def _time(value: float) -> str:
    return units.duration(value) if np.isfinite(value) else units.MISSING
