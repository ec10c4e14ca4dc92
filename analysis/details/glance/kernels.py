"""Beside the kernels: how the latencies of the one under the cursor are distributed, and who launched it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options
from ...contract.sections import Section
from ...core import units
from ...core.distribution import sorted_histogram
from ...core.quantiles import Ints
from ...cycles.scope import scoped
from ...kernels.launch_index import LaunchIndex, launch_index
from .callers import callers_section

TITLES = ("launches", "p50", "p90", "p99", "max")


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
