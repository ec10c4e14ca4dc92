"""Memory: the most that was allocated on each device, what held it then, and what was free and of no use.

From the allocations where they were recorded; an allocation without a stack is attributed to the slices open on its
thread. Where only sums were recorded (counter ``memory allocated``), the peak's moment and size and what the host did.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.column import Column, side_by_side
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View, lettered
from ..core import units
from ..core.batches import batches
from ..core.call_tree import Ints, pack
from ..core.device_pairs import mapped, note, under
from ..core.text import display
from ..table.sides import paired_rows

COLUMNS = (
    Column("device", "device", "text", "device", width=7, order=0, role="where", pairs="key"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=6, role="where", pairs="key"),
    Column("frame", "asked for by", "text", "the line that asked for it: the innermost of the stack that is no "
           "library's; without one the operator the program called; empty where only sums were recorded", width=40,
           order=0, elastic=True, pinned=True, role="label", pairs="key"),
    Column("bytes", "at peak", "bytes", "held at the device's peak", width=10, order=0, role="value", pairs="sum"),
    Column("share", "share", "fraction", "of the device's peak", width=8, order=2, role="share", bar="share",
           pairs="sum"),
    Column("count", "blocks", "count", "allocations it was in", width=7, order=3),
    Column("largest_bytes", "largest", "bytes", "the largest of them", width=10, order=4),
    Column("during", "during", "text", "host slice that was open at the peak, the innermost operator first", width=24,
           order=5, role="label"),
    Column("stack", "stack", "text", "stack of the largest, one line per frame, innermost first", width=40, order=None,
           role="label"),
)
_NONE = "a memory snapshot (torch.cuda.memory._dump_snapshot) or a trace with profile_memory=True has it"


def build(runs: Runs, options: Options) -> Answer:
    """What held the peak of each device of one run, most first; of two by the size of the change."""
    peaks = [memory_of(run) for run in runs]
    if not any(one.peaks for one in peaks):
        names = " and ".join(run.info.label for run in runs)
        raise CannotAnswer(f"{names} {'says' if len(runs) == 1 else 'say'} nothing of memory; {_NONE}.")
    if len(runs) == 1:
        memory = peaks[0]
        return Answer(memory.rows.lazy(), facts_of(memory), _summary(memory), _notes(memory))
    a, b = peaks
    moved = mapped(*([peak.device for peak in one.peaks] for one in peaks))
    summary, notes = (lettered([lines(one) for one in peaks]) for lines in (_summary, _notes))
    return Answer(
        paired_rows(a.rows, b.rows.with_columns(under(moved)), COLUMNS).lazy(), {"a": facts_of(a), "b": facts_of(b)},
        (*_difference(a, b, moved), *summary), (*notes, *note(moved)),
    )


def facts_of(memory: Peaks) -> dict[str, Any]:
    """``devices``: the peak of each, and what its allocator held at the end, bytes and ns."""
    return {"devices": [
        {
            "device": peak.device, "rank": peak.rank, "peak_bytes": peak.bytes, "peak_ns": peak.at_ns,
            "peak_reserved_bytes": peak.reserved_bytes, "during": peak.during,
            **{key: value for key, value in peak.held.items() if key != "device"},
        }
        for peak in memory.peaks
    ]}


def _name(peak: Peak) -> str:
    return " ".join(filter(None, (None if peak.rank is None else f"rank {peak.rank}", peak.device or "device")))


def _summary(memory: Peaks) -> tuple[str, ...]:
    lines = []
    for peak in memory.peaks:
        when = "" if peak.at_ns is None else f" at {units.duration(peak.at_ns)}"
        reserved = "" if peak.reserved_bytes is None else f", at most {units.size(peak.reserved_bytes)} reserved"
        lines.append(f"{_name(peak)}: peak {units.size(peak.bytes)} allocated{when}{reserved}")
        if free := _fragmented(peak):
            lines.append(f"{_name(peak)}: {free}")
    return tuple(lines)


def _fragmented(peak: Peak) -> str:
    """What was free at the end against what was asked for."""
    held = peak.held
    if not held.get("free_bytes"):
        return ""
    segments = units.counted(held["segments"], "segment", "segments")
    largest = units.size(held["largest_free_bytes"])
    text = f"{units.size(held['free_bytes'])} free in {segments} at the end, the largest block {largest}"
    asked = held.get("asked_bytes")
    if not asked:
        return text
    verdict = "fits" if asked <= held["largest_free_bytes"] else (
        "does not fit, though that much is free" if asked <= held["free_bytes"] else "does not fit")
    return f"{text}; out of memory when {units.size(asked)} were asked for, which {verdict}"


def _difference(a: Peaks, b: Peaks, moved: dict[str, str]) -> list[str]:
    """The peaks of the devices both runs have, against one another."""
    before = {(peak.device, peak.rank): peak for peak in a.peaks}
    lines = []
    for peak in b.peaks:
        old = before.get((moved.get(peak.device or "", peak.device), peak.rank))
        if old is not None:
            change = peak.bytes - old.bytes
            share = f", {units.percent(100 * change / old.bytes, signed=True)}" if old.bytes else ""
            lines.append(f"{_name(old)}: peak {units.size(old.bytes)} → {units.size(peak.bytes)} "
                         f"({units.size(change, signed=True)}{share})")
    return lines


def _notes(memory: Peaks) -> tuple[str, ...]:
    if memory.stacks:
        return ()
    return ("No allocation is tied to what asked for it: what held the peak is not known, at most what ran then.",)


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The stack of the largest allocation, one line per frame."""
    frames = str(row.get("stack") or row.get("stack_b") or row.get("stack_a") or "").split("\n")
    listed = [(f"{number}", display(frame, 400)) for number, frame in enumerate(filter(None, frames))]
    return [Section("Stack, innermost first", tuple(listed))] if listed else []


ALLOCATED, RESERVED = "memory allocated", "memory reserved"
SCHEMA: dict[str, Any] = {
    "device": NAME, "rank": pl.Int64, "frame": pl.String, "bytes": pl.Int64, "share": pl.Float64, "count": pl.Int64,
    "largest_bytes": pl.Int64, "during": pl.String, "stack": pl.String,
}
_NEVER = np.iinfo(np.int64).max
Owner = tuple[str | None, int | None]  # Device and rank.


class Peak(Struct, frozen=True):
    """The peak of one device: bytes and when (ns; None where nothing says), the most that was reserved, and then what.
    ``held`` is what the allocator said of itself at the end, as ``info.facts["memory"]`` has it."""

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
    allocators = {held.get("device"): held for held in run.info.facts.get("memory", ()) if isinstance(held, dict)}
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
        peaks.append(Peak(*owner, total, at, most, during, allocators.get(owner[0], {})))
        parts.append(_rows(run, owner, alive, total, during))
    for owner, (summed, when) in sums.items():
        if owner not in {(peak.device, peak.rank) for peak in peaks} and summed is not None:
            during = None if when is None else _during(run, when, owner[1])
            most = reserved.get(owner, (None, None))[0]
            peaks.append(Peak(*owner, summed, when, most, during, allocators.get(owner[0], {})))
            row = {"device": owner[0], "rank": owner[1], "frame": None, "bytes": summed, "share": None, "count": None,
                   "largest_bytes": None, "during": during, "stack": None}  # fmt: skip
            frame = pl.DataFrame([row], schema={**SCHEMA, "device": pl.String})
            parts.append(frame.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()))
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
        askers = pl.DataFrame(asked_in(run, slices), schema={"frame": pl.String, "stack": pl.String}, orient="row")
        rest = named.filter(pl.col("stack").is_not_null() | pl.col("tid").is_null())
        named = pl.concat([rest, slices.with_columns(askers)])
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
    rows = run.host.filter(here).select("start_ns", pl.col("name", "kind").cast(pl.String)).collect(engine="streaming")
    ordered = rows.sort(pl.col("kind") != "op", -pl.col("start_ns"))
    return None if ordered.is_empty() else str(ordered["name"][0])


_THREAD = ("pid", "tid", "rank")
_DEEPEST = 200  # Slices of a stack that are told.


class Asking(NamedTuple):
    """Who asked: the line that stands for it, and all slices that were open, a line each, innermost first."""

    frame: str
    stack: str | None


def asked_in(run: Trace, blocks: pl.DataFrame) -> list[Asking]:
    """Who asked for each block (``start_ns pid tid rank``); ``UNKNOWN`` where its thread has no slice open then."""
    threads = blocks.select(_THREAD).drop_nulls(["pid", "tid"]).unique().with_row_index("thread")
    numbered = blocks.join(threads, on=_THREAD, how="left", nulls_equal=True, maintain_order="left")
    timed = numbered.drop_nulls(["thread", "start_ns"])
    if timed.is_empty():
        return [Asking(UNKNOWN, None)] * blocks.height
    host = _open_then(run, threads, timed)
    open_at = _innermost(host, numbered)
    parent = host["parent"].to_numpy()
    stacks: dict[int, list[int]] = {}
    for row in {*open_at.tolist()} - {-1}:
        stack = stacks[row] = list[int]()
        while row >= 0 and len(stack) < _DEEPEST:
            stack.append(row)
            row = int(parent[row])
    named = sorted({row for stack in stacks.values() for row in stack})
    texts = dict(zip(named, host[named].select(pl.col("name").fill_null(""), "kind").rows(), strict=True))
    askers = {row: _asking_of([texts[one] for one in stack]) for row, stack in stacks.items()}
    return [askers.get(row, Asking(UNKNOWN, None)) for row in open_at.tolist()]


def _open_then(run: Trace, threads: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """The slices that were open at one of the moments on their thread, with parents as rows among them, -1 for none. Of
    millions of slices these are some thousand, and no more than these are kept."""
    moments = np.unique(asked["start_ns"].to_numpy())
    room = len(moments) + 1
    keys = np.sort(_thread(asked) * room + np.searchsorted(moments, asked["start_ns"].to_numpy()))
    columns = ("row", "start_ns", "dur_ns", "parent", "depth", "name", "kind", *_THREAD)
    host = run.host.with_row_index("row").select(columns)
    joined = host.join(threads.lazy(), on=_THREAD, nulls_equal=True, maintain_order="left").drop(_THREAD)
    parts = []
    for some in batches(joined.drop_nulls(["start_ns", "dur_ns", "depth"])):
        start = some["start_ns"].to_numpy()
        first = _thread(some) * room + np.searchsorted(moments, start)
        after = _thread(some) * room + np.searchsorted(moments, start + some["dur_ns"].to_numpy(), side="right")
        parts.append(some.filter(pl.Series(np.searchsorted(keys, after) > np.searchsorted(keys, first))))
    result = pl.concat(parts) if parts else joined.head(0).collect()
    moved = result.select(pl.col("row").cast(pl.Int64).alias("parent")).with_row_index("place")
    rows = result.with_columns(pl.col("parent").cast(pl.Int64))
    return rows.join(moved, on="parent", how="left", maintain_order="left").select(
        "thread", "start_ns", "depth", end_ns=pl.col("start_ns") + pl.col("dur_ns"),
        parent=pl.col("place").cast(pl.Int64).fill_null(-1), name=pl.col("name").cast(pl.String),
        kind=pl.col("kind").cast(pl.String),
    )


def _thread(frame: pl.DataFrame) -> Ints:
    return frame["thread"].cast(pl.Int64).to_numpy()


def _innermost(host: pl.DataFrame, blocks: pl.DataFrame) -> Ints:
    """The row of the innermost slice open on the block's thread when it was asked for, -1 where none is."""
    known = (blocks["thread"].is_not_null() & blocks["start_ns"].is_not_null()).to_numpy()
    result = np.full(blocks.height, -1, np.int64)
    if host.is_empty() or not known.any():
        return result
    some = host.with_row_index("row").sort("thread", "start_ns", "depth")
    timed = blocks.filter(pl.Series(known))
    at, thread = timed["start_ns"].to_numpy(), _thread(host)
    packed = pack(np.concatenate((_thread(some), _thread(timed))), np.concatenate((some["start_ns"].to_numpy(), at)))
    before = np.searchsorted(packed[: some.height], packed[some.height :], side="right") - 1
    rows = some["row"].cast(pl.Int64).to_numpy()[np.maximum(before, 0)]
    end, parent = host["end_ns"].to_numpy(), host["parent"].to_numpy()
    rows[(before < 0) | (thread[rows] != _thread(timed))] = -1
    while (over := (rows >= 0) & (end[rows] < at)).any():  # it ended before: the one around it may still be open
        rows[over] = parent[rows[over]]
    result[known] = rows
    return result


def _asking_of(slices: list[tuple[str, str | None]]) -> Asking:
    """Of slices (name, kind), innermost first: a line of the user's code, else the operator the program called."""
    lines = [name for name, kind in slices if kind == "python" and not is_library(name)]
    operators = [name for name, kind in slices if kind == "op"]
    return Asking((lines or operators[::-1] or [slices[-1][0]])[0], "\n".join(name for name, _ in slices))


_LIBRARY = re.compile(
    r"^\?\?|[/\\]torch[/\\]|[/\\](?:dist|site)-packages[/\\]|^torch[/\\]|^<|[/\\]lib[/\\]python\d|\.(?:cpp|cc|cu|cuh|h|so)\b"
)
UNKNOWN, BEFORE = "(no stack recorded)", "(there before the recording)"


def is_library(frame: str) -> bool:
    """Whether a frame is of a library, or of none."""
    return _LIBRARY.search(frame) is not None


def asking(stack: str | None) -> str:
    """The frame of a stack (a line a frame, innermost first) that is the user's own; the innermost where none is."""
    if not stack:
        return UNKNOWN
    frames = stack.split("\n")
    return next((frame for frame in frames if not is_library(frame)), frames[0])


VIEW = View("memory", COLUMNS, build, side_by_side(COLUMNS), noun="places", details=details)
