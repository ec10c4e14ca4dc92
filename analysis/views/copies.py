"""Copies: bytes moved between host and devices and within devices, their rates, and the kind of memory.

Direction and kind of memory are parsed from the recorded name of a copy, which each profiler spells its own way. A rate
is the bytes of one copy over its duration; null without bytes or for a duration of 0.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import CannotAnswer, Runs, View
from ..core import units
from ..core.copies import direction, memory
from ..core.covered import COMPUTES, covered, timed
from ..cycles.paired import OneRun, answered_by
from ..details.listed import Row, caller_section, launch, row_section, sides, span, sums_by, text

COLUMNS = (
    Column("kind", "kind", "text", "memcpy or memset", width=7, order=0, pinned=True, role="where", pairs="key"),
    Column("direction", "direction", "text", "H2D, D2H, D2D (within a device), P2P (between devices) or H2H; empty for "
           "memsets and where not recorded", width=9, order=0, pinned=True, role="label", pairs="key"),
    Column("memory", "memory", "text", "pageable, pinned or managed, where recorded for either side", width=9, order=1,
           role="where", pairs="key"),
    Column("device", "device", "text", "device as recorded", width=8, order=3, role="where", pairs="key"),
    Column("count", "count", "count", "copies or memsets", width=8, order=1, role="count", pairs="sum"),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0, role="time", pairs="sum"),
    Column("exposed_ns", "exposed", "ns", "time with no kernel running on the same device", width=10, order=2,
           pairs="sum"),
    Column("bytes", "bytes", "bytes", "summed size (empty where not recorded)", width=9, order=1, pairs="sum"),
    Column("mean_bytes", "mean size", "bytes", "mean size", width=9, order=5, pairs="single"),
    Column("rate", "rate", "rate", "bytes / summed duration", width=10, order=2, pairs="single"),
    Column("rate_p50", "median", "rate", "median rate of single copies", width=10, order=3, pairs="single"),
    Column("rate_max", "best", "rate", "highest rate of a single copy", width=10, order=3, pairs="single"),
    Column("p50_ns", "p50", "ns", "median duration", width=9, order=5, pairs="single"),
    Column("max_ns", "max", "ns", "longest duration", width=9, order=6, pairs="single"),
)


def table(run: Trace, options: Options, side: Side) -> OneRun:
    """The copies of one run and their totals. Raises CannotAnswer."""
    frame = copies_of(run)
    if frame is None:
        raise CannotAnswer(f"{run.info.label} holds no copies or sets of memory.")
    sizes, timed = frame["bytes"].drop_nulls(), frame["total_ns"].drop_nulls()
    facts = {"count": int(frame["count"].sum()), "total_ns": int(timed.sum()) if len(timed) else None,
             "bytes": int(sizes.sum()) if len(sizes) else None}
    return OneRun(frame.select(column.name for column in COLUMNS), facts, sums=(_sentence(facts),))


def _sentence(facts: dict[str, Any]) -> str:
    size = f" · {units.size(facts['bytes'])}" if facts["bytes"] is not None else " · sizes not recorded"
    return (f"{units.counted(facts['count'], 'copy or set', 'copies and sets')} · "
            f"{'durations not recorded' if facts['total_ns'] is None else units.duration(facts['total_ns'])}{size}")



KINDS = ("memcpy", "memset")
KEYS = ("kind", "direction", "memory", "device")


def copies_of(run: Trace) -> pl.DataFrame | None:
    """One row per kind, direction, memory and device, longest total first; None where no copy or set was recorded. For
    a report that holds only sums, total bytes over total time is the only rate."""
    if not run.has("kernels") and run.has("kernel_stats"):
        return _from_sums(run)
    rows = run.kernels.filter(pl.col("kind").is_in(KINDS)).select(
        "name", "kind", "device", "rank", "start_ns", "dur_ns", "bytes"
    ).collect(engine="streaming")
    if rows.is_empty():
        return None
    rows = with_meanings(rows).with_columns(dur_ns=pl.col("dur_ns").clip(lower_bound=0))
    measured = (pl.col("dur_ns") > 0) & pl.col("bytes").is_not_null()
    rows = rows.with_columns(rate=pl.when(measured).then(pl.col("bytes") * 1e9 / pl.col("dur_ns")))
    spent = pl.col("dur_ns").filter(measured).sum()
    frame = rows.group_by(KEYS).agg(
        count=pl.len().cast(pl.Int64), total_ns=_sum("dur_ns"), bytes=_sum("bytes"),
        mean_bytes=pl.col("bytes").mean(),
        rate=pl.when(spent > 0).then(pl.col("bytes").filter(measured).sum() * 1e9 / spent),
        rate_p50=pl.col("rate").median(), rate_max=pl.col("rate").max(),
        p50_ns=pl.col("dur_ns").quantile(0.5, "lower").cast(pl.Int64), max_ns=pl.col("dur_ns").max(),
    )
    hidden_by = timed(run, COMPUTES | (pl.col("kind") == "collective"))
    exposed = covered(rows.drop_nulls("start_ns"), KEYS, hidden_by, "exposed_ns")
    return _ordered(frame.join(exposed, on=KEYS, how="left", nulls_equal=True))


def _from_sums(run: Trace) -> pl.DataFrame | None:
    rows = run.kernel_stats.filter(pl.col("kind").is_in(KINDS)).collect()
    if rows.is_empty():
        return None
    both = pl.col("bytes").is_not_null() & pl.col("total_ns").is_not_null()
    timed = pl.col("total_ns").filter(both).sum()
    alone = pl.len() == 1
    return _ordered(with_meanings(rows).group_by(KEYS).agg(
        count=pl.col("count").sum(), total_ns=_sum("total_ns"), bytes=_sum("bytes"),
        mean_bytes=pl.col("bytes").sum() / pl.col("count").filter(pl.col("bytes").is_not_null()).sum(),
        rate=pl.when(timed > 0).then(pl.col("bytes").filter(both).sum() * 1e9 / timed),
        rate_p50=pl.lit(None, pl.Float64), rate_max=pl.lit(None, pl.Float64),
        p50_ns=pl.when(alone).then(pl.col("p50_ns").first()), max_ns=pl.col("max_ns").max(),
        exposed_ns=pl.lit(None, pl.Int64),
    ).with_columns(mean_bytes=pl.col("mean_bytes").fill_nan(None)))


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """Longest total first, ties by ``KEYS``."""
    texts = [pl.col(key).cast(pl.String) for key in KEYS]
    return frame.sort(pl.col("total_ns"), *texts, descending=[True] + [False] * len(texts), nulls_last=True)


def _sum(name: str) -> pl.Expr:
    """The sum, null where nothing was recorded."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum())


def with_meanings(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``direction`` and ``memory`` as parsed from their names."""
    names = rows["name"].unique().cast(pl.String).drop_nulls().to_list()
    meanings = pl.DataFrame(
        [(name, direction(name), memory(name)) for name in names],
        schema={"name": pl.String, "direction": NAME, "memory": NAME}, orient="row",
    ).with_columns(pl.col("name").cast(NAME))
    rows = rows.join(meanings, on="name", how="left", maintain_order="left")
    none = pl.lit(None, NAME)
    is_copy = pl.col("kind") == "memcpy"
    return rows.with_columns(direction=pl.when(is_copy).then("direction").otherwise(none))


def _size(count: float | None) -> str:
    return units.MISSING if count is None else units.size(count)


def sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The recorded names in the row, the longest copies, and the operators that launched them."""
    result: list[Section] = []
    for _, run, tail in sides(runs, options):
        rows = run.kernels.filter(pl.col("kind").is_in(KINDS)).select(
            "index", "name", "kind", "device", "rank", "dur_ns", "bytes").collect(engine="streaming")
        same = (pl.col(key).cast(pl.String).eq_missing(pl.lit(row[key], pl.String)) for key in KEYS)
        matching = with_meanings(rows).filter(*same)
        if matching.is_empty():
            continue
        result += row_section(f"As recorded{tail}", sums_by(matching, "name", "bytes"),
                              (text, units.count, span, units.size), ("name", "count", "total", "bytes"))
        longest = matching.sort("dur_ns", "index", descending=[True, False], nulls_last=True).head(5)
        result += row_section(f"Longest{tail}", longest.select("index", "dur_ns", "bytes"), (launch, span, _size),
                       ("launch", "duration", "bytes"))
        result += caller_section(run, matching.drop_nulls("dur_ns").select("index", "dur_ns"), tail)
    return result


VIEW = View(
    "copies", COLUMNS, answered_by(COLUMNS, table), pair_columns(COLUMNS), noun="kinds of copies", details=sections)
