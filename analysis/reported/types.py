"""Operator types: device time by the operator type that the profiler records for each kernel, as Ascend's OP Type.

A type covers many kernels: TransData is one row here, but one row per shape and place in the kernel list. Collectives
and copies have no type and are left out; ``share`` is of all kernels with a type, as in msprof's op_statistic.
"""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import CannotAnswer, Runs, View
from ..core import units
from ..cycles.paired import OneRun, answered_by
from ..details.listed import Row, kernel, launch, row_section, sides, span, sums_by

COLUMNS = (
    Column("op_type", "type", "text", "type of the operator as recorded", width=30, order=0, elastic=True, pinned=True,
           role="label", pairs="key"),
    Column("core", "core", "text", "core that ran it, as recorded: AI_CORE, AI_VECTOR_CORE, AI_CPU", width=16, order=2,
           role="where", pairs="key"),
    Column("device", "device", "text", "device", width=7, order=4, role="where", pairs="key"),
    Column("count", "count", "count", "launches", width=8, order=1, role="count", pairs="sum"),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0, role="time", pairs="sum"),
    Column("share", "of typed", "fraction", "share of the time of all kernels with a type", width=8, order=1,
           role="share",
           bar="share", of="of the time of kernels with a type"),
    Column("mean_ns", "mean", "ns", "mean duration", width=9, order=3),
    Column("min_ns", "min", "ns", "shortest launch", width=9, order=5),
    Column("p50_ns", "p50", "ns", "median duration (nearest rank)", width=9, order=4),
    Column("max_ns", "max", "ns", "longest launch", width=9, order=4),
    Column("kernels", "kernels", "count", "distinct kernels of the type", width=8, order=2),
    Column("tensor", "tensor", "fraction", "matrix-unit utilisation weighted by duration", width=8, order=3,
           of="of the matrix units' peak"),
)
_KEYS = ("op_type", "core", "device")


def table(run: Trace, options: Options, side: Side) -> OneRun:
    """One row per type, core and device of one run, most time first. Raises CannotAnswer if no types are recorded."""
    rows = run.kernels.filter(pl.col("op_type").is_not_null())
    dur, tensor = pl.col("dur_ns"), pl.col("tensor").cast(pl.Float64)
    weighed = dur.filter(tensor.is_not_null())
    frame = rows.group_by(_KEYS).agg(
        count=pl.len().cast(pl.Int64), total_ns=dur.sum(), mean_ns=dur.mean(), min_ns=dur.min(),
        p50_ns=dur.quantile(0.5, "lower").cast(pl.Int64), max_ns=dur.max(),
        kernels=pl.col("name").n_unique().cast(pl.Int64),
        tensor=pl.when(weighed.sum() > 0).then((tensor * dur).sum() / weighed.sum()),
    ).collect(engine="streaming")
    if frame.is_empty():
        raise CannotAnswer(f"{run.info.label} names no types of operators; Ascend's kernel_details.csv has them.")
    total = int(frame["total_ns"].sum() or 0)
    texts = [pl.col(key).cast(pl.String) for key in _KEYS]
    frame = frame.with_columns(share=pl.when(total > 0).then(pl.col("total_ns") / max(total, 1))).sort(
        pl.col("total_ns"), *texts, descending=[True, False, False, False], nulls_last=True)
    sentence = f"{units.counted(frame['op_type'].n_unique(), 'type', 'types')} · {units.duration(total)} of kernels"
    return OneRun(frame.select(column.name for column in COLUMNS), {"total_ns": total}, sums=(sentence,))


def details(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The kernels of the type, and its longest launches."""
    result: list[Section] = []
    for _, run, tail in sides(runs, options):
        same = [pl.col(key).cast(pl.String).eq_missing(pl.lit(row[key], pl.String)) for key in _KEYS]
        matching = run.kernels.filter(*same).select("index", "name", "dur_ns").collect(engine="streaming")
        result += row_section(f"Kernels{tail}", sums_by(matching, "name"), (kernel, units.count, span),
                       ("kernel", "launches", "total"))
        longest = matching.sort("dur_ns", "index", descending=[True, False], nulls_last=True).head(5)
        result += row_section(
            f"Longest{tail}", longest.select("index", "dur_ns"), (launch, span), ("launch", "duration"))
    return result


VIEW = View("types", COLUMNS, answered_by(COLUMNS, table), pair_columns(COLUMNS), noun="types", details=details)
