"""When most memory of a device was allocated, and what held it then, by the line that asked for it.

From the allocations themselves where they were recorded. Where only sums were (``memory allocated`` as a counter), the
moment and the size of the peak are known, and what the host was doing then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import Ints
from .asked_in import asked_in
from .frames import BEFORE, UNKNOWN, asking

ALLOCATED, RESERVED = "memory allocated", "memory reserved"
SCHEMA: dict[str, Any] = {
    "device": NAME, "rank": pl.Int64, "frame": pl.String, "bytes": pl.Int64, "share": pl.Float64, "count": pl.Int64,
    "largest_bytes": pl.Int64, "during": pl.String, "stack": pl.String,
}
_NEVER = np.iinfo(np.int64).max
Owner = tuple[str | None, int | None]
"""Device and rank."""


class Peak(Struct, frozen=True):
    """The peak of one device: bytes and when (ns; None where nothing says), the most that was reserved, and then what.

    ``held`` is what the allocator said of itself at the end, as ``info.facts["memory"]`` has it.
    """

    device: str | None
    rank: int | None
    bytes: int
    at_ns: int | None
    reserved_bytes: int | None
    during: str | None
    held: dict[str, Any]


class Peaks(Struct, frozen=True):
    """Peaks, most memory first, and ``rows`` of what held them in ``SCHEMA``; whether stacks were recorded at all."""

    peaks: tuple[Peak, ...]
    rows: pl.DataFrame
    stacks: bool


def memory_of(run: Trace) -> Peaks:
    """The peaks of every device of the run; none where no memory was recorded."""
    known = {held.get("device"): held for held in run.info.facts.get("memory", ()) if isinstance(held, dict)}
    peaks: list[Peak] = []
    parts: list[pl.DataFrame] = []
    reserved, sums = _highest(run, RESERVED), _highest(run, ALLOCATED)
    for owner, blocks in _by_owner(run):
        total, at, alive = _most(blocks)
        summed, when = sums.get(owner, (None, None))
        if summed is not None and when is not None and summed > total:  # more was there than is recorded of
            total, at, alive = summed, when, _alive(blocks, when)
        during = None if at is None else _during(run, at, owner[1])
        most = reserved.get(owner, (None, None))[0]
        peaks.append(Peak(*owner, total, at, most, during, known.get(owner[0], {})))
        parts.append(_rows(run, owner, alive, total, during))
    for owner, (summed, when) in sums.items():
        if owner not in {(peak.device, peak.rank) for peak in peaks} and summed is not None:
            during = None if when is None else _during(run, when, owner[1])
            most = reserved.get(owner, (None, None))[0]
            peaks.append(Peak(*owner, summed, when, most, during, known.get(owner[0], {})))
            parts.append(_sum_row(owner, summed, during))
    rows = pl.concat(parts).sort("bytes", "frame", descending=[True, False], nulls_last=True) if parts else (
        pl.DataFrame(schema=SCHEMA))
    ordered = tuple(sorted(peaks, key=lambda one: (-one.bytes, one.device or "")))
    return Peaks(ordered, rows, bool((~rows["frame"].is_in([UNKNOWN, BEFORE])).any()))


def _by_owner(run: Trace) -> list[tuple[Owner, pl.DataFrame]]:
    frame = run.allocations.select(
        pl.col("device").cast(pl.String), "rank", "start_ns", "dur_ns", "bytes", "pid", "tid",
        pl.col("stack").cast(pl.String),
    ).collect(engine="streaming")
    groups = frame.group_by("device", "rank", maintain_order=True)
    return [((None if device is None else str(device), rank), blocks) for (device, rank), blocks in groups]


def _most(blocks: pl.DataFrame) -> tuple[int, int | None, pl.DataFrame]:
    """The largest sum of blocks that were there together, when (None from before the record on), and those blocks."""
    start, end = _lasting(blocks)
    sizes = blocks["bytes"].fill_null(0).to_numpy()
    lasting = end > start
    times = np.concatenate((end[lasting], start[lasting]))
    changes = np.concatenate((-sizes[lasting], sizes[lasting]))
    order = np.argsort(times, kind="stable")  # at one moment what ends goes before what begins
    sums = np.cumsum(changes[order])
    if not len(sums):
        return 0, None, blocks.head(0)
    at = int(sums.argmax())
    moment = int(times[order][at])
    return int(sums[at]), moment if moment >= 0 else None, _alive(blocks, moment)


def _lasting(blocks: pl.DataFrame) -> tuple[Ints, Ints]:
    """When each block begins, -1 before the record, and when it ends."""
    start, length = blocks["start_ns"].fill_null(-1).to_numpy(), blocks["dur_ns"]
    ends = np.maximum(start, 0) + length.fill_null(0).to_numpy()
    return start, np.where(length.is_null().to_numpy(), _NEVER, ends)


def _alive(blocks: pl.DataFrame, moment: int) -> pl.DataFrame:
    start, end = _lasting(blocks)
    return blocks.filter(pl.Series((start <= moment) & (end > moment)))


def _rows(run: Trace, owner: Owner, alive: pl.DataFrame, total: int, during: str | None) -> pl.DataFrame:
    """What held the peak, by who asked for it; what was there before the recording began has a row of its own."""
    frames = {stack: asking(stack) for stack in alive["stack"].unique().to_list()}
    named = alive.with_columns(frame=pl.col("stack").replace_strict(frames, return_dtype=pl.String))
    slices = named.filter(pl.col("stack").is_null(), pl.col("tid").is_not_null())
    if slices.height:
        told = pl.DataFrame(asked_in(run, slices), schema={"frame": pl.String, "stack": pl.String}, orient="row")
        rest = named.filter(pl.col("stack").is_not_null() | pl.col("tid").is_null())
        named = pl.concat([rest, slices.with_columns(told)])
    older = pl.col("start_ns").is_null() & pl.col("stack").is_null()
    named = named.with_columns(frame=pl.when(older).then(pl.lit(BEFORE)).otherwise("frame"), block=pl.lit(True))
    if (unseen := total - int(named["bytes"].sum())) > 0:
        named = pl.concat([named, pl.DataFrame({"bytes": [unseen], "frame": [BEFORE]})], how="diagonal")
    counted = pl.col("block").is_not_null().all()
    return named.group_by("frame").agg(
        pl.col("bytes").sum(),
        pl.when(counted).then(pl.len().cast(pl.Int64)).alias("count"),
        pl.when(counted).then(pl.col("bytes").max()).alias("largest_bytes"),
        pl.col("stack").sort_by("bytes", descending=True).first(),
    ).select(
        pl.lit(owner[0], pl.String).cast(NAME).alias("device"), pl.lit(owner[1], pl.Int64).alias("rank"), "frame",
        "bytes", (pl.col("bytes") / total if total else pl.lit(None, pl.Float64)).alias("share"), "count",
        "largest_bytes", pl.lit(during, pl.String).alias("during"), "stack",
    ).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _sum_row(owner: Owner, total: int, during: str | None) -> pl.DataFrame:
    row = {"device": owner[0], "rank": owner[1], "frame": None, "bytes": total, "share": None, "count": None,
           "largest_bytes": None, "during": during, "stack": None}  # fmt: skip
    frame = pl.DataFrame([row], schema={**SCHEMA, "device": pl.String})
    return frame.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _highest(run: Trace, metric: str) -> dict[Owner, tuple[int | None, int | None]]:
    """Of each device and rank the largest sample of a counter, bytes, and when it was first reached, ns."""
    rows = run.metrics.filter(pl.col("metric").cast(pl.String) == metric, pl.col("value").is_finite()).sort(
        "ts_ns", nulls_last=True
    ).group_by(pl.col("device").cast(pl.String), "rank").agg(
        pl.col("value").max(), at=pl.col("ts_ns").sort_by("value", descending=True, maintain_order=True).first()
    ).collect().rows()
    return {(device, rank): (None if value is None else int(value), at) for device, rank, value, at in rows}


def _during(run: Trace, moment: int, rank: int | None) -> str | None:
    """The host slice that began last of those that were open at the moment: operators before anything else."""
    here = (pl.col("start_ns") <= moment) & (pl.col("start_ns") + pl.col("dur_ns") > moment)
    if rank is not None:
        here &= pl.col("rank").is_null() | (pl.col("rank") == rank)
    found = run.host.filter(here).select("start_ns", pl.col("name", "kind").cast(pl.String)).collect(engine="streaming")
    ordered = found.sort(pl.col("kind") != "op", -pl.col("start_ns"))
    return None if ordered.is_empty() else str(ordered["name"][0])
