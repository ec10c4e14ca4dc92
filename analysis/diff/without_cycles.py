"""The diff of runs without cycles: launches as samples, aggregates without statistics, a comparison already finished.

Two kernel tables or two ncu files hold one replay of each launch: a function's launches are its samples, in pairs (the
first with the first) where both runs launch it equally often, since one name may stand for several problem sizes. What
is known only as sums can be subtracted and nothing more, and the verdict says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..core import device_pairs as devices
from ..core.options import Options
from ..kernels.sources import kernels_of
from ..table.view import Answer, CannotAnswer
from .prepare.stratify import replay_notes, replay_reasons, replays
from .present.columns import COLUMNS
from .present.sentences import line, ms, some
from .stats.fdr import control
from .stats.robust_location import Floats
from .unit_of_work import per_unit, unit_of_work
from .verdict.comparability import LEAST_SHARED, different_devices
from .verdict.suspects import BETWEEN_RUNS, LEVEL, in_order, kind_class

LEAST_LAUNCHES = 4
"""Fewer launches than this on a side say nothing about chance."""
MATERIAL = 1e-4
"""Share of the run's device time below which a change is no news."""


def by_launch(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """Every function of both runs with its launches as the samples. Raises CannotAnswer without any device activity."""
    if not all(run.has("kernels") for run in runs):
        return aggregates(runs)
    moved = devices.mapped(*(run.kernels.select(pl.col("device").unique().cast(pl.String)).collect()["device"]
                             for run in runs))
    runs = (runs[0], runs[1].with_tables(kernels=_renumbered(runs[1].kernels, moved)))
    sides = [_launches(run) for run in runs]
    unit = unit_of_work(runs)
    factor = unit["ratio"] if unit else 1.0
    total = float(sum(values.sum() for values, _ in sides[0].values())) or 1.0
    rows = [
        _row(key, sides[0].get(key), sides[1].get(key), factor, total) for key in dict.fromkeys([*sides[0], *sides[1]])
    ]
    control(rows)
    for row in rows:
        row["verdict"] = _verdict(row)
    comparability = _comparability(runs, rows)
    regressions = sum(row["verdict"] in ("slower", "new") for row in rows)
    lines = [*_totals(runs, rows, unit), line("Changed", _no_resources(runs))]
    data = line("Data", "; ".join([
        *(["NOT comparable: " + "; ".join(comparability["reasons"])] if not comparability["comparable"] else
          [*(comparability["reasons"] or ["comparable"])]),
        "no cycles: each launch is a sample",
    ]))
    facts = {
        "comparability": comparability, "cycle_time": unit, "work": _work(rows), "resources": [],
        "explanation": _explanation(comparability, regressions),
        "calibration": {"method": "none: launches are the samples", "row_ms": None}, "samples": "launches",
    }
    ordered = [data, *lines] if not comparability["comparable"] else [*lines, data]
    notes = ["Launches and ms are per run: no cycles were found in one run at least."]
    if unit and abs(factor - 1) > BETWEEN_RUNS:
        notes = [f"Launches and ms of B are scaled by {1 / factor:.3f} to A's amount of work ({unit['what']})."]
    notes = [*devices.note(moved), *replay_notes((replays(runs[0]), replays(runs[1]))), *notes]
    if any(run.info.serialised for run in runs):
        notes.append("Launches were replayed one by one: totals are not wall time.")
    return Answer(in_order(_frame(rows)).lazy(), facts, tuple(ordered), tuple(notes))


def _renumbered(kernels: pl.LazyFrame, moved: dict[str, str]) -> pl.LazyFrame:
    return kernels.with_columns(pl.col("device").cast(pl.String).replace(moved)) if moved else kernels


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    types = {"text": pl.String(), "count": pl.Int64()}
    schema: dict[str, Any] = {column.name: types.get(column.unit, pl.Float64()) for column in COLUMNS}
    schema |= {"pid_a": pl.Int64(), "pid_b": pl.Int64(), "class": pl.String()}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema, strict=False)


Launches = tuple[Floats, str | None]


def _launches(run: Trace) -> dict[tuple[str, str | None], Launches]:
    """(function, device) → durations in ms in recorded order, and the kind."""
    frame = (
        run.kernels.filter(pl.col("kind") != "sync").select(
            pl.col("name", "device", "kind").cast(pl.String), pl.col("dur_ns") / 1e6, "index"
        ).sort("index").collect(engine="streaming")
    )
    groups = frame.group_by("name", "device", maintain_order=True)
    return {(str(key[0]), key[1]): (group["dur_ns"].to_numpy(), group["kind"][0]) for key, group in groups}


def _row(
    key: tuple[str, str | None], a: Launches | None, b: Launches | None, factor: float, total: float
) -> dict[str, Any]:
    function, device = key
    kind = (a or b or (None, None))[1]
    times_a, times_b = (side[0] if side else np.empty(0) for side in (a, b))
    a_ms, b_ms = float(times_a.sum()), float(times_b.sum()) / factor
    us = [float(side.mean()) * 1e3 if len(side) else None for side in (times_a, times_b)]
    p, margin = _test(times_a, times_b, factor)
    return {
        "function": function, "device": device, "kind": kind, "class": kind_class(kind, device),
        "launches_a": float(len(times_a)), "launches_b": len(times_b) / factor, "launch_us_a": us[0],
        "launch_us_b": us[1], "ratio": us[1] / us[0] if us[0] and us[1] else None, "a_ms": a_ms, "b_ms": b_ms,
        "delta_ms": b_ms - a_ms, "ci_low_ms": None if margin is None else b_ms - a_ms - margin,
        "ci_high_ms": None if margin is None else b_ms - a_ms + margin, "p": p, "q": None,
        "sure_ms": max(0.0, abs(b_ms - a_ms) - margin) if margin is not None else 0.0,
        "verdict": "~", "metric": "latency" if us[0] and us[1] else None, "mu_a": us[0], "mu_b": us[1],
        "unit": "µs", "few": min(len(times_a), len(times_b)) < LEAST_LAUNCHES, "share": max(a_ms, b_ms) / total,
    }


def _test(a: Floats, b: Floats, factor: float) -> tuple[float | None, float | None]:
    """p-value of the time per launch, and half the width of the 95% interval of the total's change in ms."""
    from scipy.special import stdtr, stdtrit

    if min(len(a), len(b)) < LEAST_LAUNCHES or min(a.min(), b.min()) <= 0:
        return None, None
    if len(a) == len(b):
        logs, direct = np.log(b / a), b - a
        error, freedom = float(logs.std(ddof=1)) / np.sqrt(len(logs)), len(logs) - 1
        delta, spread = float(logs.mean()), float(direct.std(ddof=1)) * np.sqrt(len(direct))
    else:
        la, lb = np.log(a), np.log(b)
        variances = float(la.var(ddof=1)) / len(a), float(lb.var(ddof=1)) / len(b)
        error, freedom = float(np.sqrt(sum(variances))), min(len(a), len(b)) - 1
        delta = float(lb.mean() - la.mean())
        spread = float(np.hypot(a.std(ddof=1) * np.sqrt(len(a)), b.std(ddof=1) * np.sqrt(len(b)) / factor))
    error = max(error, 0.001)
    return float(2 * stdtr(freedom, -abs(delta) / error)), float(stdtrit(freedom, 0.975)) * spread


def _verdict(row: dict[str, Any]) -> str:
    if row["a_ms"] == 0 or row["b_ms"] == 0:
        row["sure_ms"] = abs(row["delta_ms"])
        return "new" if row["a_ms"] == 0 else "gone"
    counts = abs(row["launches_b"] / row["launches_a"] - 1)
    if row["few"] and counts < BETWEEN_RUNS:
        return "too few cycles"
    sure = (row["q"] is not None and row["q"] <= LEVEL) or counts >= 10 * BETWEEN_RUNS
    beyond = abs(row["delta_ms"]) >= BETWEEN_RUNS * max(row["a_ms"], row["b_ms"])
    if sure and beyond and row["sure_ms"] > 0 and row["share"] >= MATERIAL:
        return "slower" if row["delta_ms"] > 0 else "faster"
    return "~"


def _comparability(runs: tuple[Trace, Trace], rows: list[dict[str, Any]]) -> dict[str, Any]:
    total = [sum(row[side] for row in rows) or 1.0 for side in ("a_ms", "b_ms")]
    both = [row for row in rows if row["a_ms"] > 0 and row["b_ms"] > 0]
    shared = min(sum(row[side] for row in both) / whole for side, whole in zip(("a_ms", "b_ms"), total, strict=True))
    reasons = different_devices(runs)
    replaying = replay_reasons((replays(runs[0]), replays(runs[1])))
    comparable = not reasons and shared >= LEAST_SHARED
    lone = sum(row["a_ms"] == 0 or row["b_ms"] == 0 for row in rows)
    if shared < LEAST_SHARED:
        reasons.append(f"different workloads: only {shared:.0%} of the time is in functions both runs have")
    reasons += replaying
    if lone:
        reasons.append(f"{lone} of {len(rows)} functions have no partner in the other run")
    return {"comparable": comparable, "score": round(shared, 4), "reasons": reasons, "shared_time": shared}


def _explanation(comparability: dict[str, Any], regressions: int) -> str:
    if not comparability["comparable"]:
        return f"These runs cannot be compared as one thing changed: {'; '.join(comparability['reasons'])}."
    count = f"{some(regressions).capitalize()} function{'' if regressions == 1 else 's'} surely slower per launch"
    return f"{count}; without cycles and readings of the machine no cause can be told."


def _work(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str | None, dict[str, Any]] = {}
    for row in rows:
        mine = found.setdefault(row["device"], {"device": row["device"], "busy_a_ms": 0.0, "busy_b_ms": 0.0})
        mine["busy_a_ms"] += row["a_ms"]
        mine["busy_b_ms"] += row["b_ms"]
    return list(found.values())


def _totals(runs: tuple[Trace, Trace], rows: list[dict[str, Any]], unit: dict[str, Any] | None) -> list[str]:
    a, b = (sum(row[side] for row in rows) for side in ("a_ms", "b_ms"))
    lines = [line("Work", per_unit(unit))] if unit else []
    text = f"{ms(a)} → {ms(b)} ms of device time{' for the same work' if unit else ''}"
    if a:
        text += f" ({100 * (b / a - 1):+.1f}%)".replace("-", "−")
    return [*lines, line("GPU", text)]


def _no_resources(runs: tuple[Trace, Trace]) -> str:
    if all(run.has("metrics") for run in runs):
        return "readings cannot be tied to the work without cycles"
    return "no readings of the machine were recorded"


def aggregates(runs: tuple[Trace, Trace]) -> Answer:
    """Sums of kernels subtracted; no statistics are possible. Raises CannotAnswer where a run holds none."""
    found = [kernels_of(run) for run in runs]
    if found[0] is None or found[1] is None:
        lacking = [run.info.label for run, side in zip(runs, found, strict=True) if side is None]
        raise CannotAnswer(f"{' and '.join(lacking)} hold neither cycles nor launches nor sums of kernels to compare.")
    sides = [_sums(side.frame) for side in found if side is not None]
    rows = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        (a_ns, n_a, kind_a), (b_ns, n_b, kind_b) = (side.get(key, (0, 0, None)) for side in sides)
        us = [total / count / 1e3 if count else None for total, count in ((a_ns, n_a), (b_ns, n_b))]
        kind = kind_a or kind_b
        rows.append({
            "function": key[0], "device": key[1], "kind": kind, "class": kind_class(kind, key[1]),
            "launches_a": float(n_a), "launches_b": float(n_b), "launch_us_a": us[0], "launch_us_b": us[1],
            "ratio": us[1] / us[0] if us[0] and us[1] else None, "a_ms": a_ns / 1e6, "b_ms": b_ns / 1e6,
            "delta_ms": (b_ns - a_ns) / 1e6, "sure_ms": 0.0,
            "verdict": "new" if not n_a else "gone" if not n_b else "too few cycles",
        })
    comparability = _comparability(runs, rows)
    note = "Only aggregates were recorded: differences, no statistics are possible."
    facts = {
        "comparability": comparability, "cycle_time": None, "work": _work(rows), "resources": [],
        "explanation": note, "calibration": {"method": "none", "row_ms": None}, "samples": "aggregates",
    }
    reasons = "; ".join(comparability["reasons"]) or "comparable"
    data = line("Data", f"{reasons}; aggregates only, no statistics are possible")
    return Answer(in_order(_frame(rows)).lazy(), facts, (*_totals(runs, rows, None), data), (note,))


def _sums(frame: pl.DataFrame) -> dict[tuple[str, str | None], tuple[int, int, str | None]]:
    columns = frame.select(pl.col("name", "device", "kind").cast(pl.String), "total_ns", "count")
    made: dict[tuple[str, str | None], tuple[int, int, str | None]] = {}
    for name, device, kind, total, count in columns.rows():
        before = made.get((name, device), (0, 0, kind))
        made[name, device] = (before[0] + (total or 0), before[1] + (count or 0), kind)
    return made
