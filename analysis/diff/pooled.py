"""Repeated runs: ``--baseline A1 A2 A3 --candidate B1 B2``, so that what runs differ by themselves counts.

Within one run cycles are alike; from run to run clocks, placement and neighbours change, and no number of cycles shows
that. So the sample is a run: the centre of its cycles. A row is called only where its change beats what runs of the
same side differ by, which needs at least two on either side, and three on one of them to be worth much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core.options import Options
from ..table.rows import Rows
from ..table.table import Table, sources
from ..table.view import CannotAnswer
from .prepare.samples import HOST, Side, match, work_of
from .present.arrows import arrows
from .present.columns import COLUMNS
from .present.sentences import line, ms
from .stats.fdr import control
from .stats.robust_location import Floats, centre
from .verdict.suspects import LEVEL, MATERIAL, in_order, kind_class

LEAST_RUNS = 2
COLUMN_NAMES = [column.name for column in COLUMNS]
Function = tuple[str, str | None, str | None]
"""Name, device ('Host' or 'GPU') and kind."""
Run = tuple[float, dict[Function, tuple[float, float]]]
"""The cycle in ms, and launches and ms per cycle of each function."""


def pooled(baseline: Sequence[Trace], candidate: Sequence[Trace], options: Options | None = None) -> Table:
    """The diff of repeated runs, in the columns of the view. Raises CannotAnswer for fewer than two runs a side."""
    chosen = options or Options()
    if min(len(baseline), len(candidate)) < LEAST_RUNS:
        raise CannotAnswer("Pooling needs at least two runs of the baseline and two of the candidate.")
    sides = [[_run(run, chosen) for run in side] for side in (baseline, candidate)]
    lengths = [np.array([length for length, _ in side]) for side in sides]
    keys: dict[tuple[str, str | None, str | None], None] = {}
    for side in sides:
        for _, functions in side:
            keys |= dict.fromkeys(functions)
    rows = [_row(key, sides, float(np.median(lengths[0]))) for key in keys]
    control(rows)
    _call(rows)
    frame = in_order(_frame(rows))
    regressions = frame.filter(pl.col("verdict").is_in(["slower", "new"])).height
    cycle = _compared(lengths[0], lengths[1])
    lines = (
        line("Cycle", f"{_verdict(cycle, None)}: {ms(cycle['a'])} → {ms(cycle['b'])} ms over {len(baseline)} and "
             f"{len(candidate)} runs, {ms(cycle['delta'], signed=True)} ± {ms(cycle['margin'])}"),
        line("Rows", f"{regressions} of {frame.height} functions surely slower, by what runs differ by themselves"),
    )
    facts = {"cycle_time": cycle, "samples": "runs", "runs_a": len(baseline), "runs_b": len(candidate),
             "comparability": {"comparable": True, "score": None, "reasons": []}}
    return Table(
        view="diff", columns=COLUMNS, rows=Rows(arrows(frame).select(COLUMN_NAMES)), total_rows=frame.height,
        facts=facts, summary=lines, notes=("Each run is one sample: the centre of its cycles.",),
        sources=sources((*baseline, *candidate)),
    )


def _run(run: Trace, options: Options) -> Run:
    """The run's cycle in ms, and per function (name, device, kind) launches and ms per cycle, over its processes."""
    work = work_of(run, options)
    if work.rows.is_empty():
        raise CannotAnswer(f"{run.info.label} has no cycles; repeated runs are compared by theirs.")
    found: dict[Function, list[tuple[float, float]]] = {}
    lengths = []
    for one in match(work, work, options):
        if one.pair.a != one.pair.b:
            continue
        side: Side = one.a
        lengths.append(float(np.median(side.cycle_ms)))
        for row, key in enumerate(one.functions.rows()):
            known = side.seen[row]
            if known.any():
                values = float(centre(side.launches[row, known])), float(centre(side.ms[row, known]))
                found.setdefault((key[0], key[1] if key[1] == HOST else _any_device(key[1]), key[2]), []).append(values)
    means = {key: (float(np.mean([n for n, _ in values])), float(np.mean([t for _, t in values])))
             for key, values in found.items()}
    return float(np.mean(lengths)), means


def _any_device(device: str | None) -> str | None:
    """Repeated runs land on other devices: a function is compared over all of them."""
    return "GPU" if device else None


def _row(key: Function, sides: list[list[Run]], cycle_ms: float) -> dict[str, Any]:
    times = [np.array([functions.get(key, (0.0, 0.0))[1] for _, functions in side]) for side in sides]
    calls = [np.array([functions.get(key, (0.0, 0.0))[0] for _, functions in side]) for side in sides]
    moved = _compared(times[0], times[1])
    us = [1e3 * float(t.mean()) / float(n.mean()) if n.mean() > 0 else None for t, n in zip(times, calls, strict=True)]
    return {
        "function": key[0], "device": key[1], "kind": key[2], "class": kind_class(key[2], key[1]),
        "launches_a": float(calls[0].mean()), "launches_b": float(calls[1].mean()), "launch_us_a": us[0],
        "launch_us_b": us[1], "ratio": us[1] / us[0] if us[0] and us[1] else None, "a_ms": moved["a"],
        "b_ms": moved["b"], "delta_ms": moved["delta"], "ci_low_ms": moved["delta"] - moved["margin"],
        "ci_high_ms": moved["delta"] + moved["margin"], "p": moved["p"], "q": moved["p"], "verdict": "~",
        "noise_ms": moved["noise"], "sure_ms": max(0.0, abs(moved["delta"]) - moved["margin"]),
        "material": max(moved["a"], moved["b"]) >= MATERIAL * cycle_ms, "cycles_a": len(times[0]),
        "cycles_b": len(times[1]),
    }


def _compared(a: Floats, b: Floats) -> dict[str, float]:
    """Means, change, half its 95% interval, p, and what runs of one side differ by; a hundredth at least is assumed."""
    from scipy.special import stdtr, stdtrit

    n_a, n_b = len(a), len(b)
    mean_a, mean_b = float(a.mean()), float(b.mean())
    floor = (0.003 * max(mean_a, mean_b)) ** 2
    variance = (float(a.var()) * n_a + float(b.var()) * n_b) / (n_a + n_b - 2) + floor
    error, freedom = np.sqrt(variance * (1 / n_a + 1 / n_b)), n_a + n_b - 2
    delta = mean_b - mean_a
    p = float(2 * stdtr(freedom, -abs(delta) / error)) if error > 0 else 1.0
    return {
        "a": mean_a, "b": mean_b, "delta": delta, "margin": float(stdtrit(freedom, 0.975) * error), "p": p,
        "noise": float(np.sqrt(variance)),
    }


def _call(rows: list[dict[str, Any]]) -> None:
    """The verdict of each row that takes a share of the cycle worth calling, by q."""
    for row in rows:
        if row["material"] and row["q"] <= LEVEL:
            row["verdict"] = _verdict({"delta": row["delta_ms"], "p": row["q"]}, (row["a_ms"], row["b_ms"]))


def _verdict(moved: dict[str, float], ms_ab: tuple[float, float] | None) -> str:
    if moved["p"] > LEVEL:
        return "unchanged" if ms_ab is None else "~"
    if ms_ab is not None and 0.0 in ms_ab:
        return "new" if ms_ab[0] == 0 else "gone"
    return "slower" if moved["delta"] > 0 else "faster"


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    types = {"text": pl.String(), "count": pl.Int64()}
    schema: dict[str, Any] = {column.name: types.get(column.unit, pl.Float64()) for column in COLUMNS}
    schema |= {"pid_a": pl.Int64(), "pid_b": pl.Int64(), "class": pl.String()}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema, strict=False)
