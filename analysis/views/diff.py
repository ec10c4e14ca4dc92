"""View ``diff``: what changed between two runs, how sure that is, what it costs, and which resource explains it.

The order of work: can the runs be compared; what did each function take per cycle; did the cycle change; which
functions changed beyond chance; which resources changed; what do these explain. Each step is a file beside this one.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..core.distribution import histogram
from ..core.names.short_name import fit_name
from ..core.options import Options
from ..details.suspects import suspect_sections
from ..diff import without_cycles
from ..diff.finished import finished
from ..diff.prepare.collectives import Waits
from ..diff.prepare.prepared import Prepared, prepared
from ..diff.prepare.samples import Matched, Work, work_of
from ..diff.prepare.stratify import replay_notes, replays
from ..diff.present.arrows import arrows
from ..diff.present.columns import COLUMNS
from ..diff.present.sentences import changed_line, cycle_line, data_line, device_lines
from ..diff.verdict.comparability import comparability
from ..diff.verdict.cycle_time import cycle_time
from ..diff.verdict.device_work import device_work
from ..diff.verdict.explanation import explains, explanation
from ..diff.verdict.exposure import paths
from ..diff.verdict.key_metric import scored_metrics, with_metrics
from ..diff.verdict.resources import resources
from ..diff.verdict.suspects import in_order, suspects
from ..table.view import Answer, Runs, View

REGRESSIONS = ("slower", "new")
LEAST_TO_COMPARE = 2
"""Cycles each run must have; with fewer, launches are the samples."""


def build(runs: Runs, options: Options) -> Answer:
    """The ranking and the verdict over two runs. Raises CannotAnswer where they hold nothing to compare."""
    answer = _asked(runs, options)
    return replace(answer, frame=arrows(answer.frame.collect()).lazy())


def _asked(runs: Runs, options: Options) -> Answer:
    run_a, run_b = runs
    if run_a.has("comparison"):
        return finished(runs)
    works = work_of(run_a, options), work_of(run_b, options)
    if min(_cycles(work) for work in works) < LEAST_TO_COMPARE or not all(_timed(run) for run in runs):
        return without_cycles.by_launch((run_a, run_b), options)
    return _answer((run_a, run_b), prepared(*works, options), options)


def _cycles(work: Work) -> int:
    return 0 if work.rows.is_empty() else int(work.rows["cycle"].n_unique())


def _timed(run: Trace) -> bool:
    """Whether cycles are of time: launches without timestamps have patterns, but no cycle anybody waits for."""
    if not run.has("kernels"):
        return True
    return not run.kernels.filter(pl.col("start_ns").is_not_null()).head(1).collect().is_empty()


def _answer(runs: tuple[Trace, Trace], ready: Prepared, options: Options) -> Answer:
    works, matched, names = ready.works, ready.matched, ready.names
    cycles = cycle_time(matched)
    work = device_work(matched, cycles)
    for row in work:
        row["waits"] = bool(ready.told)
    table = suspects(matched)
    slowed = set(table.filter(pl.col("verdict").is_in(REGRESSIONS)).select("function", "device").rows())
    ratio = cycles["median_b_ms"] / cycles["median_a_ms"] if cycles["median_a_ms"] else 1.0
    pids = [(one.pair.a, one.pair.b) for one in matched]
    units = _units(runs)
    changed = resources(*works, pids, units, slowed, ratio)
    scored = scored_metrics(works, table, units)
    table = _with_path(_with_waits(table, matched, ready.waits), work)
    table = with_metrics(_by_exposure(table, ready, options), scored, changed)
    table = table.with_columns(_renamed(table, names))
    comparable, calibration = comparability(runs, matched, options), _calibration(table)
    top = next((row for row in changed if row["role"] == "capacity" and row["loss"] > 0), None)
    facts = {
        "comparability": comparable, "cycle_time": cycles, "work": work, "resources": [_public(row) for row in changed],
        "explanation": explanation(top, cycles, work, len(slowed), comparable), "calibration": calibration,
        "collectives": ready.told, "samples": "cycles",
        "histogram": histogram(matched[0].a.cycle_ms * 1e6, matched[0].b.cycle_ms * 1e6),
    }
    short = {name: fit_name(name, 40) for name in table["function"].unique()}
    lines = [
        cycle_line(cycles), *device_lines(work, ready.told, short, cycles["median_a_ms"]),
        changed_line(changed, explains(top, cycles, work)),
    ]
    data = data_line(comparable, matched, calibration)
    lines = [data, *lines] if not comparable["comparable"] else [*lines, data]
    notes = [*ready.notes, *replay_notes((replays(runs[0]), replays(runs[1]))), *_notes(matched, table, names)]
    return Answer(in_order(table).lazy(), facts, tuple(lines), tuple(notes))


def _units(runs: tuple[Trace, Trace]) -> dict[str, str]:
    found: dict[str, str] = {}
    for run in runs:
        pairs = run.metrics.select(pl.col("metric", "unit").cast(pl.String)).unique().collect(engine="streaming")
        found |= {metric: unit for metric, unit in pairs.rows() if metric and unit}
    return found


def _calibration(table: pl.DataFrame) -> dict[str, Any]:
    """What the baseline's own halves differ by: at most per class in ms per cycle, and per function."""
    known = table.filter(pl.col("noise_ms").is_not_null())
    most = known.group_by("class").agg(pl.col("noise_ms").max()).sort("class")
    per_class = {str(name): float(value) for name, value in most.rows()}
    functions = [
        {"function": f, "device": d, "pid_a": p, "noise_ms": n}
        for f, d, p, n in known.select("function", "device", "pid_a", "noise_ms").rows()
    ]
    return {
        "method": "two random halves of the baseline's cycles, 95 of 100 halvings",
        "row_ms": per_class.get("device", per_class.get("host")), "classes": per_class, "functions": functions,
    }


def _with_waits(table: pl.DataFrame, matched: list[Matched], waits: Waits) -> pl.DataFrame:
    """Waiting in collectives, per side; rows of ``suspects`` are in the order of the pairs and their functions."""
    keys = [(index, row) for index, one in enumerate(matched) for row in range(one.functions.height)]
    return table.with_columns(
        pl.Series("wait_a_ms", [waits.a.get(key) for key in keys], pl.Float64),
        pl.Series("wait_b_ms", [waits.b.get(key) for key in keys], pl.Float64),
    )


def _with_path(table: pl.DataFrame, work: list[dict[str, Any]]) -> pl.DataFrame:
    """A device's function is hidden or exposed as the device is; where that is not known, neither is the function."""
    paths = pl.DataFrame(
        [(row["device"], row["pid_a"], row["pid_b"], row["path"]) for row in work],
        schema={"device": pl.String, "pid_a": pl.Int64, "pid_b": pl.Int64, "path": pl.String}, orient="row",
    )
    joined = table.join(paths, on=["device", "pid_a", "pid_b"], how="left", nulls_equal=True, maintain_order="left")
    told = pl.col("verdict").is_in(["slower", "new"])
    return joined.with_columns(pl.when(told).then("path").alias("path"))


def _by_exposure(table: pl.DataFrame, ready: Prepared, options: Options) -> pl.DataFrame:
    """The same from when each function ran, wherever that was recorded."""
    keys = ["function", "device", "pid_a", "pid_b"]
    slowed = table.filter(pl.col("verdict").is_in(REGRESSIONS)).select(*keys, "kind", "delta_ms", "ci_low_ms")
    known = paths(ready, slowed.to_dicts(), options)
    if not known:
        return table
    told = [known.get(row[:4], row[4]) for row in table.select(*keys, "path").rows()]
    return table.with_columns(pl.Series("path", told, pl.String))


def _renamed(table: pl.DataFrame, names: dict[tuple[str, str | None], str]) -> pl.Series:
    return pl.Series("renamed", [names.get(key) for key in table.select("function", "device").rows()], pl.String)


def _public(row: dict[str, Any]) -> dict[str, Any]:
    keys = (
        "metric", "device", "mu_a", "mu_b", "unit", "log_change", "q", "functions", "role", "seen_by", "pid_a", "pid_b",
        "loss", "loss_low", "loss_high",
    )
    return {key: row[key] for key in keys}


def _notes(matched: list[Matched], table: pl.DataFrame, names: dict[tuple[str, str | None], str]) -> list[str]:
    notes = []
    crossed = sum(not one.pair.strict for one in matched)
    if crossed:
        notes.append(f"{crossed} process pair{'' if crossed == 1 else 's'} crossed: their pids occur in one run only.")
    few = int((table["verdict"] == "too few cycles").sum())
    if few:
        notes.append(f"{few} of {table.height} rows have too few cycles for a verdict.")
    if names:
        notes.append(f"{len(names)} functions of B are paired with one of A under another name.")
    if table["wait_a_ms"].null_count() < table.height:
        notes.append("Rows of collectives are about the transfer (the rank that came last); waiting is beside it.")
    notes.append(
        "One run a side cannot show how runs differ by themselves: changes below 2% of a function are not called."
    )
    return notes


VIEW = View("diff", COLUMNS, build, alternates=("suspicion",), one_run=False, details=suspect_sections)
