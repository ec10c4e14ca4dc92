"""Kernels: which device activities take the time, how their latencies spread, and what holds them back.

One row per (name, kind, device). Copies and sets are activities too; a ``sync`` only waits and is not one. ``share``
is of the summed activity time, which counts overlapping streams twice; it is not the share of the wall time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
from msgspec.structs import replace

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.options import SIDES, Options, Side
from ..contract.sections import Section
from ..contract.view import Answer, Runs, View
from ..core import units
from ..core.device_pairs import together
from ..core.quantiles import on_one_axis
from ..cycles.paired import OneRun, paired
from ..kernels.by_name import coverage, facts_of, notes_of, sentence, several_ranks, table
from ..kernels.columns import COLUMNS, EXTREMES, PAIR_COLUMNS
from ..kernels.family import family_sums
from ..kernels.sources import Grain


def build(runs: Runs, options: Options) -> Answer:
    """Kernels of one run by total time, or of two runs side by side, largest change first."""
    if len(runs) == 1:
        return _one(runs[0], options, "a", "rank").answer()
    jobs = all(several_ranks(run) for run in runs)  # a one-rank run is compared with the sum over a job's ranks
    devices = (table(run, options, side)[0]["device"].cast(pl.String) for run, side in zip(runs, SIDES, strict=True))
    grain: Grain = "name" if together(*devices) else "rank" if jobs else "device"
    return _on_one_axis(paired(runs, options, COLUMNS, partial(_one, grain=grain)))


def _on_one_axis(answer: Answer) -> Answer:
    """The latency histograms of both runs on one axis, so that their shapes can be compared."""
    frame = answer.frame.collect()
    trends: dict[str, pl.Series] = {}
    for within, unit in (("", "_ns"), ("_in_cycles", "_in_cycles_ns")):
        names = [f"trend{within}_{side}" for side in SIDES]
        ends = [f"{end}{unit}_{side}" for side in SIDES for end in ("min", "max")]
        pairs = [on_one_axis(a, b, *spans) for a, b, *spans in frame.select(*names, *ends).iter_rows()]
        lists = pl.List(pl.Int64)
        trends |= {name: pl.Series([pair[at] for pair in pairs], dtype=lists) for at, name in enumerate(names)}
    return replace(answer, frame=frame.with_columns(**trends).lazy())


def _one(run: Trace, options: Options, side: Side, grain: Grain) -> OneRun:
    frame, kernels = table(run, options, side, grain)
    facts = facts_of(frame) | {
        "coverage": coverage(run, options, frame, side), "families": family_sums(frame),
    }
    return OneRun(frame, facts, notes=notes_of(run, kernels), sums=(sentence(run, facts),))


def build_by_name(runs: Runs, options: Options) -> Answer:
    """One row per kernel, summed over devices; with a single device the answer of ``build``."""
    counts = [table(run, options, side)[0].select("device", "rank").n_unique()
              for run, side in zip(runs, SIDES, strict=False)]
    if len(runs) == 2:
        return build(runs, options) if max(counts) < 2 else _on_one_axis(
            paired(runs, options, COLUMNS, partial(_one, grain="name")))
    if counts[0] < 2:
        answer = build(runs, options)
        return replace(answer, frame=answer.frame.with_columns(pl.lit(None).alias(column.name) for column in EXTREMES))
    one = _one(runs[0], options, "a", "name")
    note = f"Each kernel is summed over {units.count(counts[0])} devices; the kernels view has a row for each."
    frame = one.frame.join(_extremes(table(runs[0], options)[0]), on=["name", "kind"], how="left", nulls_equal=True,
                           maintain_order="left")
    return OneRun(frame, one.facts, notes=(note, *one.notes), sums=one.sums).answer()


def _extremes(frame: pl.DataFrame) -> pl.DataFrame:
    """Per name and kind: number of devices it ran on, and the devices with the most and the least time."""
    rank, device = pl.format("rank {}", "rank"), pl.col("device").cast(pl.String)
    one_each = frame.select("device", "rank").n_unique() == frame["rank"].n_unique()  # a rank has one device
    where = rank if one_each else pl.concat_str(rank, device, separator=" ", ignore_nulls=True)
    ordered = frame.with_columns(where=where).sort(
        "total_ns", "rank", device, descending=[True, False, False], nulls_last=True)
    timed = pl.col("total_ns").is_not_null()
    return ordered.group_by("name", "kind", maintain_order=True).agg(
        devices=pl.len().cast(pl.Int64),
        most_ns=pl.col("total_ns").filter(timed).first(), most_on=pl.col("where").filter(timed).first().cast(NAME),
        least_ns=pl.col("total_ns").filter(timed).last(), least_on=pl.col("where").filter(timed).last().cast(NAME),
    )


def _details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    from ..details.row_details import kernel_sections  # needed only when a row is opened

    return kernel_sections(row, runs, options)


def _glance(runs: Runs, options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    from ..details.glances import kernel_glance  # needed only in the app

    return kernel_glance(runs, options)


VIEW = View(
    "kernels", COLUMNS, build, pair_columns=PAIR_COLUMNS, scopes_itself=True, noun="kernels", details=_details,
    glance=_glance,
)
BY_NAME = replace(VIEW, columns=(*COLUMNS, *EXTREMES), build=build_by_name, other=VIEW)  # Summed over devices.


def in_overview(runs: Runs) -> View:
    """The kernels view for the screen and the overview: summed by name where there are several devices or ranks."""
    one_device = all(len(run.info.ranks) < 2 and len(run.info.devices) == 1 for run in runs)
    return VIEW if one_device else BY_NAME
