"""Pane beside the lists of kernels, launches and operators: launchers and durations of the row under the cursor.

One pass over the whole run, then any row in about a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import SIDES, Options
from ..contract.sections import Section
from ..core import units
from ..core.distribution import sorted_histogram
from ..core.names.short_name import fit_name, short_name
from ..core.quantiles import Ints
from ..core.text import display
from ..cycles.scope import scoped
from ..kernels.launch_index import LaunchIndex, launch_index, with_callers
from .listed import Row, Runs, brief_caller_section, row_section, span, tail, text

Place = tuple[int | None, str | None]
"""Rank and device."""
Glances = Callable[[Row], list[Section]]
_TITLES = ("launches", "p50", "p90", "p99", "max")
_SHAPE = ("grid", "block", "stream", "cycle", "correlation")


def kernel_glance(runs: Runs, options: Options) -> Glances:
    """The sections of a row of the kernels view, of one run or two."""
    indexes = [launch_index(run, scoped(run, options, side)) for run, side in zip(runs, SIDES, strict=False)]

    def of(row: Row) -> list[Section]:
        groups = [_groups(index, row) if row.get(f"count_{side}", True) else []
                  for index, side in zip(indexes, SIDES, strict=False)]
        spans = [index.durations(some) for index, some in zip(indexes, groups, strict=True)]
        if not any(map(len, spans)):
            return []
        sections = [latency_section(spans)]
        for number, (index, some) in enumerate(zip(indexes, groups, strict=True)):
            own = dict(index.kernels.get(str(row.get("name")), ()))
            devices: dict[Place, list[int]] = {}
            for one in some:
                devices.setdefault((own[one]["rank"], own[one]["device"]), []).append(one)
            ending = tail(number, runs)
            sections += device_section({at: index.durations(ours) for at, ours in devices.items()}, ending)
            sections += brief_caller_section(index.callers(some), ending)
        return sections

    return of


def _groups(index: LaunchIndex, row: Row) -> list[int]:
    """The launch groups behind a row; on any device if the run has none by the row's device name."""
    name, kind = str(row.get("name")), row.get("kind")
    there = index.groups(name, kind=kind, device=row.get("device"), rank=row.get("rank"))
    return there or index.groups(name, kind=kind, rank=row.get("rank"))


def device_section(spans: dict[Place, Ints], tail: str) -> list[Section]:
    """Launches and time per device (``spans``: sorted durations, ns), most time first; empty for a single device."""
    if len(spans) < 2:
        return []
    rows = [(" · ".join(filter(None, ("" if rank is None else f"rank {rank}", device or ""))), len(some),
             int(some.sum(dtype=np.int64)), int(some[(len(some) - 1) // 2])) for (rank, device), some in spans.items()]
    frame = pl.DataFrame(rows, schema=["device", "launches", "total", "p50"], orient="row")
    return row_section(f"By device{tail}", frame.sort("total", "device", descending=[True, False]),
                  (text, units.count, span, span), tuple(frame.columns))


def latency_section(spans: list[Ints]) -> Section:
    """Histogram and percentiles of one run, or of both on one axis (``spans``: sorted durations per run, ns)."""
    rows = [(side, units.count(len(one)), *(_percentile(one, p) for p in (50, 90, 99, 100)))
            for side, one in zip("AB", spans, strict=False) if len(one)]
    shape = sorted_histogram(*spans)
    if len(spans) > 1:
        return Section("Latency", tuple(rows), ("", *_TITLES), shape=shape)
    return Section("Latency", tuple(row[1:] for row in rows), _TITLES, shape=shape)


def _percentile(ordered: Ints, percent: int) -> str:
    """Percentile of sorted durations by nearest rank, as text."""
    return units.duration(int(ordered[ceil(percent / 100 * len(ordered)) - 1]))


def launch_glance(runs: Runs, options: Options) -> Glances:
    """The sections of a row of the launches view."""
    index = launch_index(runs[0], scoped(runs[0], options), with_ways=False)
    return lambda row: [_launched_by(row), *_among_its_like(index, row)]


def _launched_by(row: Row) -> Section:
    rows = [("duration", span(row["dur_ns"]))]
    for label, name in (("operator", "op"), ("of forward", "op_forward"), ("module", "module")):
        if row[name] is not None:
            rows.append((label, display(str(row[name]), 200)))
    if row["frame"] is not None:
        rows.append(("Python line", fit_name(str(row["frame"]), 200)))
    if row["launch_ns"] is not None and row["start_ns"] is not None:
        rows.append(("launched", f"{units.duration(row['start_ns'] - row['launch_ns'])} before it began"))
    rows += [(name, display(str(row[name]))) for name in _SHAPE if row[name] is not None]
    return Section("This launch", tuple(rows))


def _among_its_like(index: LaunchIndex, row: Row) -> list[Section]:
    same = index.durations(index.groups(str(row["name"]), kind=row["kind"], device=row["device"], rank=row["rank"]))
    if len(same) < 2 or row["dur_ns"] is None:
        return []
    longer = len(same) - int(np.searchsorted(same, row["dur_ns"], side="right"))
    middle = float(same[len(same) // 2])
    against = f"{row['dur_ns'] / middle:.2f}× the median, " if middle else ""
    place = "the longest" if not longer else f"{units.count(longer)} of {units.count(len(same))} are longer"
    return [Section("Among the launches of its kernel", (("", f"{against}{place}"),)), latency_section([same])]


Grouped = dict[tuple[Any, ...], pl.DataFrame]


def operator_glance(runs: Runs, options: Options) -> Glances:
    """The sections of a row of the operators, of one run or two."""
    groups = [_by_operator(run, scoped(run, options, side)) for run, side in zip(runs, SIDES, strict=False)]
    nothing = pl.DataFrame()

    def of(row: Row) -> list[Section]:
        result = []
        for number, (kernels, lines) in enumerate(groups):
            operator, ending = (str(row.get("op") or row["name"]),), tail(number, runs)
            result += summed_kernels(f"Kernels it launched{ending}", kernels.get(operator, nothing))
            result += row_section(f"Called from{ending}", lines.get(operator, nothing),
                           (lambda line: text(short_name(line)), units.count, span), ("from", "count", "total"))
        return result

    return of


def summed_kernels(title: str, rows: pl.DataFrame) -> list[Section]:
    """Section of kernels with launches and time (rows ``name count total_ns`` in order); empty without rows."""
    cells = (lambda name: text(fit_name(name, 60)), units.count, span)
    return row_section(title, rows, cells, ("kernel", "count", "total"))


def _by_operator(run: Trace, scope: Trace) -> tuple[Grouped, Grouped]:
    """Per operator: its kernels, and the Python lines (else modules) it was called from, with sums."""
    work = scope.kernels.filter(is_work())
    rows = with_callers(run, work, "name", "dur_ns") if scope.has("kernels") else None
    if rows is None:
        return {}, {}
    rows = rows.with_columns(pl.coalesce(pl.col("frame", "module").cast(pl.String)).alias("where"))
    return _summed(rows, "name"), _summed(rows.drop_nulls("where"), "where")


def _summed(rows: pl.DataFrame, key: str) -> Grouped:
    sums = rows.drop_nulls("op").group_by("op", key).agg(
        count=pl.len(), total_ns=pl.col("dur_ns").sum()
    ).with_columns(pl.col("op", key).cast(pl.String)).sort(
        "total_ns", "count", key, descending=[True, True, False])
    return sums.partition_by("op", as_dict=True, include_key=False, maintain_order=True)
