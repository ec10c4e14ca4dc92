"""The answer of the view ``history``: one row per series with its noise and steps, and the facts of all runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.view import CannotAnswer
from ..core import units
from ..core.names.display_names import ShortNames, speaking_of
from ..core.names.short_name import fit_name
from .runs import History, history_of, is_history
from .sentences import sentences, steps_text
from .steps import ALARMS, COMMON, CYCLE, FEWEST_AFTER, KERNEL, Judged, LevelStep, drifts, judge

COLUMNS: dict[str, Any] = {
    "kind": pl.String, "name": pl.String, "runs": pl.Int64, "mean_ns": pl.Int64, "noise": pl.Float64,
    "change": pl.Float64, "cost_ns": pl.Int64, "trend": pl.List(pl.Float64), "steps": pl.String, "at": pl.Int64,
    "share": pl.Float64,
}


class JudgedHistory(Struct, frozen=True):
    """A history and the steps found in it."""

    history: History
    judged: Judged

    def key_of(self, series: int) -> tuple[str, str]:
        """Kind and name of a series by its row in the matrix; -1 is the common factor."""
        return (COMMON, COMMON) if series < 0 else (
            self.judged.series.kinds[series], self.judged.series.names[series])

    def speaking(self) -> AbstractContextManager[None]:
        """Within this context sentences name the series as the list does: no two alike."""
        return speaking_of(ShortNames(lambda: sorted(set(self.judged.series.names))))


def judged_history(run: Trace) -> JudgedHistory:
    """The history of a Trace with its steps; cached. Raises CannotAnswer for a single recording."""
    if not is_history(run):
        raise CannotAnswer("A history takes three runs or more: warplens history RUN RUN RUN…")

    def compute() -> JudgedHistory:
        history = history_of(run)
        return JudgedHistory(history, judge(history.tested))

    return run.remember("history", (), compute)


def frame_of(one: JudgedHistory) -> pl.DataFrame:
    """The rows: the cycle and the common factor, series with steps (costliest first), the rest by time; series that no
    compared run has come last. Times are of the compared runs only: those of another model would hide what moved."""
    history, judged = one.history, one.judged
    rows = []
    for at, (kind, name) in enumerate(zip(judged.series.kinds, judged.series.names, strict=True)):
        values, everywhere = judged.series.per_cycle[at], history.shown[at]
        values = values if np.isfinite(values).any() else everywhere
        there = values[np.isfinite(values)]
        rows.append(_row(
            (kind, name), int(np.isfinite(everywhere).sum()), round(float(there.mean())) if len(there) else None,
            float(judged.noise[at]),
            judged.of_series(at), values, float(judged.common.share[at]) if judged.common.removed else None))
    if judged.common.removed:
        factor = np.exp(judged.common.factor)
        rows.append(_row((COMMON, COMMON), len(factor), None, judged.spread or np.nan, judged.of_series(-1), factor))
    order = {CYCLE: 0, COMMON: 1}
    elsewhere = {one.key_of(int(at)) for at in np.flatnonzero(~(judged.series.per_cycle > 0).any(axis=1))}
    rows.sort(key=lambda row: (
        (row["kind"], row["name"]) in elsewhere, order.get(row["kind"], 2),
        not row["steps"], -(row["cost_ns"] or 0.0), -(row["mean_ns"] or 0.0), row["name"]))
    return pl.DataFrame(rows, schema=COLUMNS)


def _row(
    key: tuple[str, str], runs: int, mean_ns: int | None, noise: float, steps: tuple[LevelStep, ...], values: Any,
    share: float | None = None,
) -> dict[str, Any]:
    places = 4 if key[0] == COMMON else 0
    return {
        "kind": key[0], "name": key[1], "runs": runs, "mean_ns": mean_ns, "noise": _finite(noise),
        "change": float(np.expm1(sum(np.log1p(step.change) for step in steps))) if steps else None,
        "cost_ns": round(sum(step.cost_ns for step in steps)) if steps else None,
        "trend": [_finite(round(float(value), places)) for value in values], "steps": steps_text(steps),
        "at": steps[-1].index if steps else None, "share": share,
    }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def facts_of(one: JudgedHistory) -> dict[str, Any]:
    """``runs steps drifts unconfirmed common tested``, as docs/history.md describes them."""
    history, judged = one.history, one.judged
    tested = int(judged.tested.sum())
    return {
        "runs": [run.facts for run in history.runs],
        "steps": [step_facts(one, step) for step in judged.steps],
        "drifts": [
            {"kind": key[0], "name": key[1], "per_run": drift.per_run, "change": drift.change, "q": drift.q}
            for drift in drifts(judged.series) for key in (one.key_of(drift.series),)
        ],
        "unconfirmed": [
            {"kind": key[0], "name": key[1], "index": last.index, "run": history.runs[last.index].run.label,
             "change": last.change, "runs": last.runs}
            for last in judged.unconfirmed for key in (one.key_of(last.series),)
        ],
        "common": {"removed": judged.common.removed, "series": _carrying(judged), "spread": judged.spread},
        "tested": {
            "series": tested, "runs": history.compared, "too_short": len(judged.noise) - tested, "alarms": ALARMS,
            "fewest_after": FEWEST_AFTER,
        },
        "per": "recording" if history.cycle_kind == "recording" else "cycle", "cycle_kind": history.cycle_kind,
    }


def _carrying(judged: Judged) -> int:
    """The number of kernels whose share in the common factor is at least half."""
    kernels = judged.series.of_kind(KERNEL)
    return int((judged.common.share[kernels] >= 0.5).sum()) if judged.common.removed else 0


def step_facts(one: JudgedHistory, step: LevelStep) -> dict[str, Any]:
    """A step in ``facts.steps``."""
    kind, name = one.key_of(step.series)
    result = {
        "kind": kind, "name": name, "index": step.index, "run": one.history.runs[step.index].run.label,
        "before_ns": step.before_ns, "after_ns": step.after_ns, "change": step.change, "q": step.q,
        "low": step.low, "high": step.high, "first": step.first, "last": step.last, "runs_after": step.runs_after,
        "share": step.share,
    }
    return result | ({"series": step.carries} if step.carries is not None else {})


def summary_of(one: JudgedHistory) -> tuple[str, ...]:
    """The sentences above the rows."""
    with one.speaking():
        said = sentences(one.history, one.judged)
    drifting = drifts(one.judged.series)
    if not drifting:
        return said
    kind, name = one.key_of(drifting[0].series)
    per_run, change = (units.percent(100 * value, signed=True) for value in (
        drifting[0].per_run, drifting[0].change))
    more = f"; {units.counted(len(drifting) - 1, 'more series drifts', 'more series drift')}" if drifting[1:] else ""
    over = f"{change} over {one.history.compared} runs"
    return (*said, f"{kind} {fit_name(name, 40)} drifts {per_run} a run, {over}{more}.")


OFF = 5.0
"""A series more than this many standard deviations from its level counts as off in that run."""
_RUN_COLUMNS: dict[str, Any] = {
    "number": pl.Int64, "run": pl.String, "time": pl.String, "cycles": pl.Int64, "cycle_ns": pl.Int64,
    "busy_ns": pl.Int64, "idle_ns": pl.Int64, "factor": pl.Float64, "off": pl.Int64, "not_tested": pl.String,
    "flops": pl.Float64, "index": pl.Int64,
}


def run_frame(one: JudgedHistory) -> pl.DataFrame:
    """One row per run, in the order of the runs."""
    off = (np.abs(one.judged.deviations) > OFF).sum(axis=0)
    factor = one.judged.common.factor
    rows = [
        {**run.facts, "number": run.index + 1,
         "factor": float(np.expm1(factor[run.index])) if one.judged.common.removed else None,
         "off": None if run.not_tested else int(off[run.index])}
        for run in one.history.runs
    ]
    return pl.DataFrame([{name: row[name] for name in _RUN_COLUMNS} for row in rows], schema=_RUN_COLUMNS)
