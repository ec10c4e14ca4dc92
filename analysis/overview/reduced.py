"""The overview of a reduced dataset: the recorded figures and findings of its ranks.

Rules that only need sums run on the sums of all ranks. Findings that need a recording were made per rank; each is shown
once, in the words of the rank that loses most time, with the number of ranks that have it.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..communication.devices import Communication
from ..contract.options import Options
from ..contract.view import CannotAnswer, ScopeRefused
from ..cycles.detection import counted_cycles
from ..findings.rule import Finding
from ..findings.rules import finding_facts
from .activities import WindowSums
from .overview import CATEGORIES, Overview
from .timed import Figures, RankFigures, overview_from_ranks

NOTE = (
    "A reduced dataset: launches, operators, host slices and samples are in the recordings it was made from, not in it."
)


def reduced_overview(run: Trace, options: Options, cycle: int | None) -> Overview:
    """The overview of the dataset. Raises CannotAnswer for a single cycle (it has no breakdown) and without times."""
    if cycle is not None:
        raise ScopeRefused(f"{run.info.label} is a reduced dataset, which has no breakdown of a single cycle.")
    cycles = counted_cycles(run, options)
    parts = _parts(run)
    if not parts and not options.warm_up:
        raise ScopeRefused(f"{run.info.label} is a reduced dataset, which has no breakdown without warm-up.")
    if not parts:
        raise CannotAnswer(f"{run.info.label} holds no device activities with times, so no overview.")
    result = overview_from_ranks(run, run, options, cycles, parts, None)
    merged = _merged(tuple(one for one in result.findings if one.severity != "unchecked"), _findings(run))
    return replace(result, facts=result.facts | finding_facts(merged), notes=(NOTE, *result.notes), findings=merged)


def _parts(run: Trace) -> list[RankFigures]:
    """The figures of each rank that has windows, in order of rank."""
    ranks = run.rank_sums.sort("rank").collect().to_dicts()
    times = _by_rank(run.breakdown.select("rank", pl.col("category").cast(pl.String), "time_ns"))
    devices = _by_rank(run.device_sums.with_columns(pl.col("device").cast(pl.String)))
    names = {device.id: device.name for device in run.info.devices}
    parts = []
    for row in ranks:
        rank = row["rank"]
        if not row["windows"]:
            continue
        windows = WindowSums(row["windows"], row["windows_ns"], bool(row["whole_run"]))
        each = {one["category"]: one["time_ns"] for one in times.get(rank, ())}
        measured = [one for one in devices.get(rank, ()) if one["steps_ns"]]
        talk = tuple(
            Communication(one["device"], rank, one["steps_comm_ns"], one["steps_exposed_ns"])
            for one in measured if one["steps_comm_ns"] is not None
        )
        parts.append(RankFigures(windows, Figures(
            {name: each[name] for name in CATEGORIES if name in each}, [_gauges(one, names) for one in measured], talk,
            early=row["early"] or 0, launched=row["launched"] or 0,
        ), rank))
    return parts


def _gauges(row: dict[str, Any], names: dict[str, str | None]) -> dict[str, Any]:
    return {
        "device": row["device"], "rank": row["rank"], "name": names.get(row["device"] or ""),
        "utilisation": row["steps_busy_ns"] / row["steps_ns"], "sm_efficiency": row["sm_efficiency"],
        "occupancy": row["occupancy"], "tensor_share": row["tensor_share"], "busy_ns": row["steps_busy_ns"],
        "kernel_ns": row["steps_kernel_ns"], "window_ns": row["steps_ns"],
    }


def _by_rank(table: pl.LazyFrame) -> dict[int | None, list[dict[str, Any]]]:
    result: dict[int | None, list[dict[str, Any]]] = {}
    for row in table.collect(engine="streaming").to_dicts():
        result.setdefault(row["rank"], []).append(row)
    return result


def _findings(run: Trace) -> tuple[Finding, ...]:
    """The findings recorded on the ranks, one per rule, and the rules that no rank could check."""
    rows = run.findings.with_columns(pl.col("rule", "severity", "view").cast(pl.String)).collect(engine="streaming")
    ranks = len(run.info.ranks)
    looked = rows.filter(pl.col("severity") != "unchecked")
    best = looked.sort("cost_ns", "rank", descending=[True, False], nulls_last=True).group_by(
        "rule", maintain_order=True
    ).agg(pl.col("severity", "sentence", "cost_ns", "view", "filter", "rank").first(),
          pl.len().alias("ranks"), pl.col("sentence").n_unique().alias("ways"))
    result = [_of_ranks(row, ranks) for row in best.to_dicts()]
    nowhere = rows.filter(~pl.col("rule").is_in(looked["rule"].unique().implode()))
    left = nowhere.unique("rule", keep="first", maintain_order=True)
    return (*result, *(Finding(rule, "unchecked", why) for rule, why in left.select("rule", "sentence").rows()))


def _merged(reduced: tuple[Finding, ...], recorded: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings from the sums of all ranks, plus those of single ranks whose rule is not among them."""
    rules = {one.rule for one in reduced}
    every = [*reduced, *(one for one in recorded if one.rule not in rules)]
    order = {"problem": 0, "hint": 0, "fact": 1, "unchecked": 2}
    return tuple(sorted(every, key=lambda one: (order[one.severity], -(one.cost_ns or 0.0))))


def _of_ranks(row: dict[str, Any], ranks: int) -> Finding:
    sentence = row["sentence"]
    if row["rank"] is not None and ranks > 1 and (row["ways"] > 1 or row["ranks"] < ranks):
        some = f"All {ranks:,}" if row["ranks"] == ranks else f"{row['ranks']:,} of {ranks:,}"
        most = f", rank {row['rank']} most" if row["cost_ns"] else ""
        only, others = (" only", "") if row["ranks"] == 1 else ("", f" {some} ranks show this{most}.")
        sentence = f"On rank {row['rank']}{only}: {sentence}{others}"
    return Finding(row["rule"], row["severity"], sentence, (), None, row["view"], row["filter"], row["cost_ns"])
