"""View ``pairs``: the whole reference comparison, every function with every metric.

Samples are cycles where the runs have them, else launches with the metrics latency, tensor and DRAM; runs with only
aggregates give differences without statistics. A finished comparison is shown as recorded. The scale is that of the
reference (μ is 100 times the natural unit), so that its users recognise their numbers.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.column import Column, Unit
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core.processes import ProcessPair, process_pairs
from ..diff.reference import KEYS, NUMBERS, compare

_PIDS = ("pid_a", "pid_b")
ORDER = (*KEYS, *NUMBERS, *_PIDS)


def build(runs: Runs, options: Options) -> Answer:
    """The reference table of two runs, or the recorded table of a finished comparison."""
    run_a, run_b = runs
    finished = run_a.comparison.collect()
    if not finished.is_empty():
        rows = _picked(finished, options).sort("suspicion", descending=True, maintain_order=True, nulls_last=True)
        return Answer(rows.lazy(), facts={"samples": "a finished comparison"}, notes=("as recorded, not recomputed",))
    profiles = tuple(_profile(run, options) for run in runs)
    if not profiles[0].is_empty() and not profiles[1].is_empty():
        return _by_cycle(profiles[0], profiles[1], options)
    if run_a.has("kernels") and run_b.has("kernels"):
        return _by_launch(run_a, run_b)
    return _aggregates(run_a, run_b)


def _profile(run: Trace, options: Options) -> pl.DataFrame:
    from ..cycles.profile import profile

    columns = ("pid", "cycle", "function", "metric", "device", "beta", "mu")
    measured = pl.col("metric").is_not_null() & (pl.col("metric").cast(pl.String) != "N/A")
    return profile(run, options).filter(measured).select(columns).collect(engine="streaming")


def _by_cycle(a: pl.DataFrame, b: pl.DataFrame, options: Options) -> Answer:
    pairs = process_pairs(a["pid"].unique().to_list(), b["pid"].unique().to_list(), options)
    tables = [
        compare(_of(a, pair.a), _of(b, pair.b)).with_columns(
            pl.lit(pair.a, pl.Int64).alias("pid_a"), pl.lit(pair.b, pl.Int64).alias("pid_b")
        )
        for pair in pairs
    ]
    facts = {
        "samples": "cycles",
        "processes": [{"pid_a": p.a, "pid_b": p.b, "pairing": "strict" if p.strict else "cross"} for p in pairs],
    }
    return Answer(pl.concat(tables).select(ORDER).lazy(), facts=facts, notes=tuple(_cross_note(pairs)))


def _cross_note(pairs: list[ProcessPair]) -> list[str]:
    crossed = [pair for pair in pairs if not pair.strict]
    if not crossed:
        return []
    return [f"{len(crossed)} process pairs are matched without a common pid"] if len(crossed) > 1 else [
        f"process {crossed[0].a} of A is compared with process {crossed[0].b} of B: they have no common pid"
    ]


def _of(rows: pl.DataFrame, pid: int | None) -> pl.DataFrame:
    return rows.filter(pl.col("pid").is_null() if pid is None else pl.col("pid") == pid)


def launch_samples(run: Trace) -> pl.DataFrame:
    """Every launch as a sample of each of its metrics: ``function metric device cycle beta mu``; ``cycle``: its index.
    β is scaled so that its mean over a function's launches is the function's share of device time in percent."""
    total = pl.col("dur_ns").sum()
    beta = pl.when(total > 0).then(pl.col("dur_ns") * pl.len().over("name", "device") / total * 100)
    kernels = run.kernels.filter(is_work()).select(
        pl.col("name").alias("function"), "device", pl.col("index").alias("cycle"), beta.alias("beta"),
        pl.col("dur_ns").cast(pl.Float64).alias("latency"), pl.col("tensor").cast(pl.Float64) * 100,
        pl.col("dram").cast(pl.Float64) * 100,
    )
    return (
        kernels.unpivot(
            on=["latency", "tensor", "dram"], index=["function", "device", "cycle", "beta"],
            variable_name="metric", value_name="mu",
        )
        .filter((pl.col("metric") == "latency") | pl.col("mu").is_not_null())
        .with_columns(pl.col("metric").cast(pl.Categorical))
        .collect(engine="streaming")
    )


def _by_launch(run_a: Trace, run_b: Trace) -> Answer:
    table = compare(launch_samples(run_a), launch_samples(run_b))
    frame = table.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _PIDS).select(ORDER)
    note = "no cycles: each launch is a sample; β is the share of all device time, latency in ns, tensor and dram in %"
    return Answer(frame.lazy(), facts={"samples": "launches"}, notes=(note,))


def _aggregates(run_a: Trace, run_b: Trace) -> Answer:
    """Differences of recorded kernel aggregates; all statistics are null."""
    keys = ["function", "device"]
    sides = (_shares(run, side).with_columns(pl.lit(True).alias(f"there_{side}")) for run, side in (
        (run_a, "a"), (run_b, "b")))
    joined = next(sides).join(next(sides), on=keys, how="full", coalesce=True, nulls_equal=True)
    if joined.is_empty():
        raise CannotAnswer("These two runs hold neither launches nor sums of kernels to compare.")
    filled = joined.with_columns(  # a kernel that one run does not have takes nothing there
        pl.when(f"there_{side}").then(f"beta_{side}").otherwise(0.0).alias(f"beta_{side}") for side in "ab")
    table = filled.with_columns(
        delta_beta=pl.col("beta_b") - pl.col("beta_a"), delta_mu=pl.col("mu_b") - pl.col("mu_a"),
        metric=pl.lit("latency").cast(pl.Categorical),
    ).sort(pl.col("delta_beta").abs(), descending=True, maintain_order=True)
    missing = [name for name in ORDER if name not in table.columns]
    table = table.with_columns(pl.lit(None, pl.Int64 if name in _PIDS else pl.Float64).alias(name) for name in missing)
    note = "only aggregates were recorded: differences, no statistics are possible"
    return Answer(table.select(ORDER).lazy(), facts={"samples": "aggregates"}, notes=(note,))


def _shares(run: Trace, side: str) -> pl.DataFrame:
    total = pl.col("total_ns").sum()
    kernels = run.kernel_stats
    if run.has("kernels"):
        kernels = run.kernels.group_by("name", "device").agg(
            pl.col("dur_ns").sum().alias("total_ns"), pl.col("dur_ns").mean().alias("mean_ns")
        )
    return kernels.select(
        pl.col("name").alias("function"), "device",
        pl.when(total > 0).then(pl.col("total_ns") / total * 100).alias(f"beta_{side}"),
        pl.col("mean_ns").alias(f"mu_{side}"),
    ).collect()


def _picked(rows: pl.DataFrame, options: Options) -> pl.DataFrame:
    for name, wanted in (("pid_a", options.pid_a), ("pid_b", options.pid_b)):
        if wanted is not None and rows[name].null_count() < rows.height:
            rows = rows.filter(pl.col(name) == wanted)
    return rows.select(ORDER)


def _columns() -> tuple[Column, ...]:
    what = {"beta": "share of the cycle", "mu": "mean of the metric while the function ran, times 100"}
    result = [
        Column("function", "function", "text", "function, short form of the name", width=30, order=0, elastic=True,
               pinned=True, role="name"),
        Column("metric", "metric", "text", "metric sampled while the function ran", width=18, order=0, role="where"),
        Column("device", "device", "text", "device", width=6, order=2, role="where"),
        Column("suspicion", "suspicion", "number", "the reference score, |Δβ| · (|Z(β)| + |Z(log μ)|)", order=0),
    ]
    units: dict[str, Unit] = {"beta": "percent", "mu": "number"}
    for key, sign in (("beta", "β"), ("mu", "μ")):
        unit = units[key]
        result += [
            Column(f"{key}_a", f"{sign} A", unit, f"mean {what[key]}, run A", width=9, order=1, side="a"),
            Column(f"{key}_b", f"{sign} B", unit, f"mean {what[key]}, run B", width=9, order=1, side="b"),
            Column(f"delta_{key}", f"Δ{sign}", unit, f"{sign} of B − {sign} of A", width=9, order=2, signed=True),
            Column(f"z_{key}", f"Z({sign})", "number", f"Δ{sign} in sample standard deviations of A", width=8, order=3,
                   signed=True),
        ]
        if key == "mu":
            result.append(Column("z_log_mu", "Z(log μ)", "number", "the same for ln(1 + μ)", width=8, order=3,
                               signed=True))
        result += [
            Column(f"p_{key}", f"p({sign})", "number", f"Welch's t p-value of Δ{sign}", width=8, order=4),
            Column(f"u_{key}", f"U p({sign})", "number", f"two-sided Mann-Whitney p-value of {sign}", width=8, order=4),
        ]
    result += [
        Column(name, name.replace("_", " "), "text", f"process in run {name[-1].upper()}", width=8, order=5,
               role="where", side="a" if name == "pid_a" else "b")
        for name in _PIDS
    ]
    return tuple(result)


VIEW = View("pairs", _columns(), build, one_run=False, noun="pairs")
