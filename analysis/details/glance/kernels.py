"""Beside the kernels: how the latencies of the one under the cursor are distributed, and who launched it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import polars as pl

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options
from ...contract.sections import MOST, Section
from ...core import units
from ...core.distribution import sorted_histogram
from ...core.names.short_name import fit_name
from ...core.quantiles import Ints
from ...core.text import display
from ...cycles.scope import scoped
from ...kernels.launch_index import LaunchIndex, launch_index

TITLES = ("launches", "p50", "p90", "p99", "max")
CALLER_TITLES = ("operator", "from", "count", "total")


def callers_section(found: pl.DataFrame, tail: str = "") -> list[Section]:
    """The operators and the Python lines (else modules) they came from, most time first. ``found`` has ``op op_forward
    module frame count total_ns``; nothing where it has no rows."""
    if found.is_empty():
        return []
    ways = found.group_by("op", "op_forward", pl.coalesce("frame", "module").alias("where"), maintain_order=True).agg(
        pl.col("count").sum(), pl.col("total_ns").sum()
    ).sort("total_ns", "count", descending=True, maintain_order=True)
    rows = tuple(
        (units.MISSING if op is None else display(op if forward is None else f"{op} ← {forward}", 60),
         units.MISSING if where is None else fit_name(where, 60), units.count(count), units.duration(total))
        for op, forward, where, count, total in ways.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(ways.height)} ways" if ways.height > MOST else ""
    return [Section(f"Launched by{tail}{capped}", rows, CALLER_TITLES)]


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """What gives the sections of a row of the kernels view, of one run or two."""
    indexes = [launch_index(run, scoped(run, options, side)) for run, side in zip(runs, SIDES, strict=False)]

    def of(row: dict[str, Any]) -> list[Section]:
        found = [groups_of(index, row) for index in indexes]
        spans = [index.durations(groups) for index, groups in zip(indexes, found, strict=True)]
        if not any(len(one) for one in spans):
            return []
        sections = [latency_section(spans)]
        for side, (index, groups) in zip("AB", zip(indexes, found, strict=True), strict=False):
            sections += callers_section(index.callers(groups), f" in {side}" if len(runs) > 1 else "")
        return sections

    return of


def groups_of(index: LaunchIndex, row: dict[str, Any]) -> list[int]:
    """The launches behind a row. A run whose devices have other names than the row's is asked for the kernel alone."""
    name, kind = str(row.get("name")), row.get("kind")
    there = index.groups(name, kind=kind, device=row.get("device"), rank=row.get("rank"))
    return there or index.groups(name, kind=kind, rank=row.get("rank"))


def latency_section(spans: list[Ints]) -> Section:
    """The distribution of one run, or of both over each other, and what it comes to (durations in order, ns)."""
    rows = [(side, units.count(len(one)), *(_percentile(one, p) for p in (50, 90, 99, 100)))
            for side, one in zip("AB", spans, strict=False) if len(one)]
    shape = sorted_histogram(*spans)
    if len(spans) > 1:
        return Section("Latency", tuple(rows), ("", *TITLES), shape=shape)
    return Section("Latency", tuple(row[1:] for row in rows), TITLES, shape=shape)


def _percentile(ordered: Ints, percent: int) -> str:
    """The nearest rank."""
    return units.duration(int(ordered[ceil(percent / 100 * len(ordered)) - 1]))
