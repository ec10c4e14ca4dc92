"""Device activities and host slices, added up by cycle and function a block at a time.

To group a million events at once takes five times their own memory, and nobody needs the events afterwards. What a
block adds up to is small, and all blocks together give the same groups in the same order of first appearance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders import schema
from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.batches import ids, numbered
from . import assignment
from .detection import Cycles, find_cycles

Integers = np.ndarray[Any, np.dtype[np.int64]]
Rows = np.ndarray[Any, np.dtype[np.uint32]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
GROUPS = ["cycle", "pid", "function", "kind", "device", "rank"]
HOST_KINDS = ("op", "runtime", "driver", "python", "sched", "io", "dataloader", "overhead")
BLOCK = 1 << 18  # Events that are grouped at once.
Timed = Callable[[str, str], bool]  # Whether anybody asks when the functions of a kind and name ran.
_EVENTS: dict[str, pl.DataType] = {
    "cycle": pl.Int64(), "pid": pl.Int64(), "function": schema.NAME, "kind": schema.NAME, "device": schema.NAME,
    "rank": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64(),
}
_BUSY = pl.col("kind").is_in(HOST_KINDS)
_COLUMNS = ("cycle", "pid", pl.col("name").alias("function"), "kind", "device")


class Sums(Struct, frozen=True):
    """``groups`` are ``GROUPS dur_ns instances``, a row each in the order of first appearance. ``row`` says which of
    them every event belongs to whose time was asked for, ``starts`` and ``spans`` (ns) when that was."""

    groups: pl.DataFrame
    row: Rows
    starts: Integers
    spans: Integers


class _Part(Struct, frozen=True):
    """What one block adds up to, and of its timed events the row among these, ``start_ns`` and ``dur_ns``."""

    groups: pl.DataFrame
    events: tuple[Rows, Integers, Integers] | None


def sums(run: Trace, options: Options, on_host: bool = True, timed: Timed | None = None) -> Sums:
    """What the run's functions took in each of its cycles. ``on_host`` False leaves the
    host slices out; ``timed`` asks for the times of the events of some functions."""
    cycles = find_cycles(run, options)
    none = _part(pl.DataFrame(schema=_EVENTS), timed)
    device = [none, *_parts(_activities(run, cycles), timed)]
    host = _parts(_slices(run, cycles), timed) if on_host else []
    processes = (_pids(host) if on_host else _host_pids(run, cycles)).drop_nulls().unique()
    if len(processes) == 1:  # what a device did without saying for whom was for the only process there is
        own = pl.col("pid").fill_null(processes[0])
        device = [_Part(part.groups.with_columns(own), part.events) for part in device]
    return _together([*device, *host])


def _activities(run: Trace, cycles: Cycles) -> Iterator[pl.DataFrame]:
    """What devices ran in cycles, in blocks."""
    for block in assignment.activities_in_cycles(run, cycles.frame, cycles.device_time, pl.col("kind") != "sync"):
        yield block.select(*_COLUMNS, _rank(cycles), "start_ns", "dur_ns")


def _slices(run: Trace, cycles: Cycles) -> Iterator[pl.DataFrame]:
    """What the host did that began in a cycle and is not their anchor, in blocks."""
    device = pl.lit("Host").cast(schema.NAME).alias("device")
    for block in assignment.host_in_cycles(run, cycles.frame, _inside(cycles)):
        yield block.with_columns(device).select(*_COLUMNS, _rank(cycles), "start_ns", "dur_ns")


def _inside(cycles: Cycles) -> pl.Expr:
    anchors = cycles.frame["label"].unique().cast(pl.String).drop_nulls().to_list()
    return _BUSY & ~pl.col("name").is_in(pl.Series(anchors, dtype=schema.NAME).implode())


def _rank(cycles: Cycles) -> pl.Expr:
    """Ranks number their cycles alike; where cycles have no rank, they hold every rank's work."""
    ranks = cycles.frame["rank"].drop_nulls()
    return pl.col("rank").fill_null(ranks[0]) if len(ranks) else pl.lit(None, pl.Int64).alias("rank")


def _pids(parts: list[_Part]) -> pl.Series:
    return pl.concat([part.groups["pid"] for part in parts]) if parts else pl.Series("pid", dtype=pl.Int64)


def _host_pids(run: Trace, cycles: Cycles) -> pl.Series:
    return run.host.filter(_inside(cycles)).select(pl.col("pid").unique()).collect(engine="streaming")["pid"]


def _parts(blocks: Iterable[pl.DataFrame], timed: Timed | None) -> list[_Part]:
    return [_part(some, timed) for block in blocks for some in block.iter_slices(BLOCK)]


def _part(block: pl.DataFrame, timed: Timed | None) -> _Part:
    groups, row = _grouped(block.with_columns(pl.lit(1, pl.Int64).alias("instances")))
    if timed is None:
        return _Part(groups, None)
    there = block["start_ns"].is_not_null() & pl.Series(_timed_groups(groups, timed)[row])
    rows = block.select("start_ns", "dur_ns").filter(there)
    return _Part(groups, (row[there.to_numpy()], rows["start_ns"].to_numpy(), rows["dur_ns"].to_numpy()))


def _timed_groups(groups: pl.DataFrame, timed: Timed) -> Flags:
    """Of which groups the times are asked for: the host has most events, and most counters are of devices."""
    names = groups.select("kind", "function")
    kinds = names.unique()
    wanted = [timed(*pair) for pair in kinds.with_columns(pl.all().cast(pl.String)).rows()]
    rows = names.with_row_index("row").join(
        kinds.filter(pl.Series(wanted, dtype=pl.Boolean)), on=["kind", "function"], how="semi", nulls_equal=True
    )["row"]
    flags: Flags = np.zeros(groups.height, dtype=bool)
    flags[rows.to_numpy()] = True
    return flags


def _together(parts: list[_Part]) -> Sums:
    begins = np.cumsum([0, *(part.groups.height for part in parts)])
    groups, place = _grouped(pl.concat([part.groups for part in parts]))
    timed = [(begin, part.events) for begin, part in zip(begins, parts, strict=False) if part.events is not None]
    if not timed:
        return Sums(groups, np.empty(0, np.uint32), *[np.empty(0, np.int64)] * 2)
    row = [place[begin:][events[0]] for begin, events in timed]
    starts, spans = (np.concatenate([events[column] for _, events in timed]) for column in (1, 2))
    return Sums(groups, np.concatenate(row), starts, spans)


def _grouped(rows: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """``GROUPS dur_ns instances`` in the order of first appearance, and for each row which of them it belongs to. Keys
    are numbered, for a grouping of polars that tells its rows takes 350 MB for a million of them."""
    number = numbered(*(ids(rows[name].to_physical().cast(pl.Int64)) for name in GROUPS))
    count = int(number.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]  # the first of several rows is written last
    order = np.argsort(first)
    place = np.empty(count, np.uint32)
    place[order] = np.arange(count, dtype=np.uint32)
    row: Rows = place[number]
    groups = rows.select(GROUPS)[first[order]]
    for name in ("dur_ns", "instances"):
        total = np.zeros(count, np.int64)
        np.add.at(total, row, rows[name].fill_null(0).to_numpy())
        groups = groups.with_columns(pl.Series(name, total))
    return groups, row
