"""Peak memory of each device: size, time, and the code that allocated it.

It is computed from allocations if they were recorded; an allocation without a stack is attributed to the slices open on
its thread. If only totals were recorded (counter ``memory allocated``): the peak's time and size and the host activity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import Ints
from .allocators import BEFORE, UNKNOWN, allocators_of, user_frame

ALLOCATED, RESERVED, CHANGE = "memory allocated", "memory reserved", "memory change"
SCHEMA: dict[str, Any] = {
    "device": NAME, "rank": pl.Int64, "frame": pl.String, "bytes": pl.Int64, "share": pl.Float64,
    "block_bytes": pl.Int64, "most_bytes": pl.Int64, "held": pl.List(pl.Int64), "count": pl.Int64,
    "largest_bytes": pl.Int64, "during": pl.String, "stack": pl.String,
}
_MOMENTS = 24  # Parts of the recording for which held bytes are listed.
_MANY = 200_000  # Up to this many allocations of a device, all are attributed, not just those at the peak.
_NEVER = np.iinfo(np.int64).max
Owner = tuple[str | None, int | None]  # Device and rank.


class Peak(Struct, frozen=True):
    """The peak of one device: bytes and time (ns; None if unknown), most bytes reserved, and the host slice ``during``
    it. ``held`` is the allocator's own state at the end, as in ``info.facts["memory"]``. ``until_ns``: the end
    of what the rows' ``held`` divides, from 0; None where they have none."""

    device: str | None
    rank: int | None
    bytes: int
    at_ns: int | None
    reserved_bytes: int | None
    during: str | None
    held: dict[str, Any]
    until_ns: int | None = None

    @property
    def segments(self) -> list[dict[str, Any]]:
        """The largest segments at the end, as given by the loader."""
        largest: list[dict[str, Any]] = self.held.get("largest_segments", [])
        return largest


class Peaks(Struct, frozen=True):
    """Peaks, most memory first; ``rows`` in ``SCHEMA`` with what held them; whether any stacks were recorded; and how
    many of how many allocations have no size: they are in no sum."""

    peaks: tuple[Peak, ...]
    rows: pl.DataFrame
    stacks: bool
    sizeless: tuple[int, int]


def memory_of(run: Trace) -> Peaks:
    """The peaks of every device in the run; none if no memory was recorded."""
    allocators = {held.get("device"): held for held in run.info.facts.get("memory", ()) if isinstance(held, dict)}
    peaks: list[Peak] = []
    parts: list[pl.DataFrame] = []
    reserved, sums = _highest(run, RESERVED), _highest(run, ALLOCATED)
    owned = _by_owner(run)
    sizeless = sum(blocks["bytes"].null_count() for _, blocks in owned), sum(blocks.height for _, blocks in owned)
    for owner, blocks in owned:
        if blocks["bytes"].null_count() == blocks.height:  # nothing to sum: not 0
            continue
        total, moment = _most(blocks)
        at = moment if moment >= 0 else None
        summed, when = sums.get(owner, (None, None))
        if summed is not None and when is not None and summed > total:  # more was allocated than the record has
            total, at, moment = summed, when, when
        alive = blocks.filter(_held_at(blocks, moment))
        during = None if at is None else _during(run, at, owner[1])
        most = reserved.get(owner, (None, None))[0]
        named = _named(run, alive if len(blocks) > _MANY else blocks)
        rows, until = _rows(owner, named.filter(_held_at(named, moment)), total, during), None
        if len(blocks) <= _MANY:
            rows, until = _over_time(rows, named)
        peaks.append(Peak(*owner, total, at, most, during, allocators.get(owner[0], {}), until))
        parts.append(rows)
    for owner, (summed, when) in sums.items():
        if owner not in {(peak.device, peak.rank) for peak in peaks} and summed is not None:
            during = None if when is None else _during(run, when, owner[1])
            most = reserved.get(owner, (None, None))[0]
            peaks.append(Peak(*owner, summed, when, most, during, allocators.get(owner[0], {})))
            row = {"device": owner[0], "rank": owner[1], "frame": None, "bytes": summed, "share": None, "count": None,
                   "largest_bytes": None, "during": during, "stack": None, "block_bytes": None, "most_bytes": None,
                   "held": None}  # fmt: skip
            frame = pl.DataFrame([row], schema={**SCHEMA, "device": pl.String})
            parts.append(frame.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()))
    rows = pl.concat(parts).sort("bytes", "frame", descending=[True, False], nulls_last=True) if parts else (
        pl.DataFrame(schema=SCHEMA))
    ordered = tuple(sorted(peaks, key=lambda one: (-one.bytes, one.device or "")))
    return Peaks(ordered, rows, bool((~rows["frame"].is_in([UNKNOWN, BEFORE])).any()), sizeless)


def _by_owner(run: Trace) -> list[tuple[Owner, pl.DataFrame]]:
    frame = run.allocations.select(
        pl.col("device").cast(pl.String), "rank", "start_ns", "dur_ns", "bytes", "block_bytes", "pid", "tid",
        pl.col("stack").cast(pl.String),
    ).collect(engine="streaming")
    groups = frame.group_by("device", "rank", maintain_order=True)
    return [((None if device is None else str(device), rank), blocks) for (device, rank), blocks in groups]


def _most(blocks: pl.DataFrame) -> tuple[int, int]:
    """The largest total of simultaneously live blocks, and its time: -1 for before the recording."""
    times, _, sums = _changes(blocks)
    if not len(sums):
        return 0, -1
    at = int(sums.argmax())
    return int(sums[at]), int(times[at])


def _changes(blocks: pl.DataFrame) -> tuple[Ints, Ints, Ints]:
    """Times at which blocks begin and end, sorted; the change in bytes held; and the bytes held from then on."""
    blocks = blocks.drop_nulls("bytes")
    start, end = _lasting(blocks)
    sizes = blocks["bytes"].to_numpy()
    lasting = end > start
    times = np.concatenate((end[lasting], start[lasting]))
    changes = np.concatenate((-sizes[lasting], sizes[lasting]))
    order = np.argsort(times, kind="stable")  # at equal times, frees come before allocations
    return times[order], changes[order], np.cumsum(changes[order])


def _lasting(blocks: pl.DataFrame) -> tuple[Ints, Ints]:
    """Start of each block, -1 for before the recording, and its end."""
    start, length = blocks["start_ns"].fill_null(-1).to_numpy(), blocks["dur_ns"]
    ends = np.maximum(start, 0) + length.fill_null(0).to_numpy()
    return start, np.where(length.is_null().to_numpy(), _NEVER, ends)


def _held_at(blocks: pl.DataFrame, moment: int) -> pl.Series:
    """Mask of the blocks that are live at that moment."""
    start, end = _lasting(blocks)
    return pl.Series((start <= moment) & (end > moment))


def _named(run: Trace, blocks: pl.DataFrame) -> pl.DataFrame:
    """The blocks, each with the ``frame`` that allocated it; those from before the recording share one frame."""
    frames = {stack: user_frame(stack) for stack in blocks["stack"].unique().to_list()}
    named = blocks.with_columns(frame=pl.col("stack").replace_strict(frames, return_dtype=pl.String))
    slices = named.filter(pl.col("stack").is_null(), pl.col("tid").is_not_null())
    if slices.height:
        owners = pl.DataFrame(allocators_of(run, slices), schema={"frame": pl.String, "stack": pl.String}, orient="row")
        rest = named.filter(pl.col("stack").is_not_null() | pl.col("tid").is_null())
        named = pl.concat([rest, slices.with_columns(owners)])
    older = pl.col("start_ns").is_null() & pl.col("stack").is_null()
    return named.with_columns(frame=pl.when(older).then(pl.lit(BEFORE)).otherwise("frame"))


def _rows(owner: Owner, alive: pl.DataFrame, total: int, during: str | None) -> pl.DataFrame:
    """The blocks live at the peak, by allocating frame."""
    named = alive.with_columns(block=pl.lit(True))
    if (unseen := total - int(named["bytes"].sum())) > 0:
        named = pl.concat([named, pl.DataFrame({"bytes": [unseen], "frame": [BEFORE]})], how="diagonal")
    counted = pl.col("block").is_not_null().all()
    return named.group_by("frame").agg(
        pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum()),
        pl.when(pl.col("block_bytes").is_not_null().all()).then(pl.col("block_bytes").sum()),
        pl.when(counted).then(pl.len().cast(pl.Int64)).alias("count"),
        pl.when(counted).then(pl.col("bytes").max()).alias("largest_bytes"),
        pl.col("stack").sort_by("bytes", descending=True).first(),
    ).select(
        pl.lit(owner[0], pl.String).cast(NAME).alias("device"), pl.lit(owner[1], pl.Int64).alias("rank"), "frame",
        "bytes", (pl.col("bytes") / total if total else pl.lit(None, pl.Float64)).alias("share"), "block_bytes",
        pl.lit(None, pl.Int64).alias("most_bytes"), pl.lit(None, pl.List(pl.Int64)).alias("held"), "count",
        "largest_bytes", pl.lit(during, pl.String).alias("during"), "stack",
    ).select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def _over_time(rows: pl.DataFrame, named: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows with the most that each frame held at any time, and in each part of the recording, and its end, ns."""
    start, end = _lasting(named)
    last = max(int(start.max(initial=0)), int(end[end < _NEVER].max(initial=0)))
    edges = np.linspace(0, last + 1, _MOMENTS + 1)
    held: dict[object, tuple[int, list[int]]] = {}
    for (frame,), blocks in named.drop_nulls("bytes").group_by("frame"):
        times, _, sums = _changes(blocks)
        before = np.concatenate(([0], sums))[np.searchsorted(times, edges[:-1], side="right")]
        most = before.copy()
        inside = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, _MOMENTS - 1)
        np.maximum.at(most, inside, sums)
        held[frame] = int(sums.max(initial=0)), most.tolist()
    holdings = [held.get(frame, (None, None)) for frame in rows["frame"]]
    return rows.with_columns(
        pl.Series("most_bytes", [one[0] for one in holdings], pl.Int64),
        pl.Series("held", [one[1] for one in holdings], pl.List(pl.Int64)),
    ), last


def _highest(run: Trace, metric: str) -> dict[Owner, tuple[int | None, int | None]]:
    """Per device and rank: largest sample of a counter, in bytes, and when it was first reached, in ns."""
    rows = run.metrics.filter(pl.col("metric").cast(pl.String) == metric, pl.col("value").is_finite()).sort(
        "ts_ns", nulls_last=True
    ).group_by(pl.col("device").cast(pl.String), "rank").agg(
        pl.col("value").max(), at=pl.col("ts_ns").sort_by("value", descending=True, maintain_order=True).first()
    ).collect().rows()
    return {(device, rank): (None if value is None else int(value), at) for device, rank, value, at in rows}


def _during(run: Trace, moment: int, rank: int | None) -> str | None:
    """The host slice open at that moment that began last; operators before anything else."""
    here = (pl.col("start_ns") <= moment) & (pl.col("start_ns") + pl.col("dur_ns") > moment)
    if rank is not None:
        here &= pl.col("rank").is_null() | (pl.col("rank") == rank)
    rows = run.host.filter(here).select("start_ns", pl.col("name", "kind").cast(pl.String)).collect(engine="streaming")
    ordered = rows.sort(pl.col("kind") != "op", -pl.col("start_ns"))
    return None if ordered.is_empty() else str(ordered["name"][0])
