"""Memory: peak allocation of each device, what held it at the peak and over time, and free but unusable memory."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from ..contract.column import Column, side_by_side
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..contract.view import Answer, CannotAnswer, Runs, View, lettered
from ..core import units
from ..core.device_pairs import mapped, note, renamed_devices
from ..core.text import display
from ..memory.allocators import BEFORE, UNKNOWN
from ..memory.findings import memory_findings
from ..memory.peaks import CHANGE, Peak, Peaks, memory_of
from ..table.sides import paired_rows

COLUMNS = (
    Column("device", "device", "text", "device", width=7, order=0, role="where", pairs="key"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=6, role="where", pairs="key"),
    Column("frame", "allocated by", "text", "the line that allocated it: the innermost stack frame outside "
           "libraries; without a stack the operator the program called; empty if only totals were recorded", width=40,
           order=0, elastic=True, pinned=True, role="frame", pairs="key"),
    Column("bytes", "at peak", "bytes", "held at the device's peak", width=10, order=0, role="value", pairs="sum"),
    Column("share", "of peak", "fraction", "of the device's peak", width=8, order=2, role="share", bar="share",
           pairs="sum", of="of the device's peak"),
    Column("block_bytes", "takes", "bytes", "their size on the device, rounded up by the allocator; empty unless "
           "recorded for all of them", width=10, order=4, pairs="sum"),
    Column("held", "over time", "trend", "the most it held in each part of the recording", width=24, order=2),
    Column("most_bytes", "own peak", "bytes", "the most it held at any time", width=10, order=4, pairs="sum"),
    Column("count", "blocks", "count", "number of allocations", width=7, order=3),
    Column("largest_bytes", "largest", "bytes", "the largest of them", width=10, order=4),
    Column("during", "during", "text", "host slice that was open at the peak, the innermost operator first", width=24,
           order=5, role="label"),
    Column("stack", "stack", "text", "stack of the largest, one line per frame, innermost first", width=40, order=None,
           role="label"),
)
_EIGHTHS = "·▁▂▃▄▅▆▇█"
_OF_MEMORY = ("MEMORY_USAGE", "MEM_USAGE", "MEMORY_POOL", "PAGE_FAULT")
_NONE = "a memory snapshot (torch.cuda.memory._dump_snapshot) or a trace with profile_memory=True has it"


def build(runs: Runs, options: Options) -> Answer:
    """Allocating lines at the peak of each device of one run, largest first; for two runs the largest change first."""
    peaks = [memory_of(run) for run in runs]
    if not any(one.peaks for one in peaks):
        changes = [run.info.label for run in runs if run.has(f"metrics.metric={CHANGE}")]
        if changes:
            raise CannotAnswer(f"{' and '.join(changes)} {'holds' if len(changes) == 1 else 'hold'} changes of memory "
                               "without addresses or totals, as older PyTorch records them: the peak is unknown.")
        names = " and ".join(run.info.label for run in runs)
        unread = "".join(f"; {table}" for run in runs for table in run.unread(*_OF_MEMORY))
        raise CannotAnswer(f"{names} {'holds' if len(runs) == 1 else 'hold'} no memory records{unread}; {_NONE}.")
    if len(runs) == 1:
        memory = peaks[0]
        notes = (*_notes(memory), *runs[0].unread(*_OF_MEMORY))
        return Answer(memory.rows.lazy(), facts_of(memory), _summary(memory), notes)
    a, b = peaks
    moved = mapped(*([peak.device for peak in one.peaks] for one in peaks))
    summary, notes = (lettered([lines(one) for one in peaks]) for lines in (_summary, _notes))
    ranks = [{peak.rank for peak in one.peaks} for one in peaks]
    places = {} if a.peaks else {"device": ()}, {} if b.peaks else {"device": ()}  # not recorded is not 0
    same = _as_rank(b, ranks[0].pop()) if [len(side) for side in ranks] == [1, 1] else b
    return Answer(
        paired_rows(a.rows, same.rows.with_columns(renamed_devices(moved)), COLUMNS, places).lazy(),
        {"a": facts_of(a), "b": facts_of(b)},
        (*_difference(a, same, moved), *summary), (*notes, *note(moved)),
    )


def _as_rank(memory: Peaks, rank: int | None) -> Peaks:
    """The memory of the only rank of B under the number of A's only rank, with which it is compared."""
    return replace(memory, peaks=tuple(replace(peak, rank=rank) for peak in memory.peaks),
                   rows=memory.rows.with_columns(pl.lit(rank, memory.rows.schema["rank"]).alias("rank")))


def facts_of(memory: Peaks) -> dict[str, Any]:
    """``devices``: the peak of each (bytes, ns) and the state of its allocator at the end."""
    return {"devices": [
        {
            "device": peak.device, "rank": peak.rank, "peak_bytes": peak.bytes, "peak_ns": peak.at_ns,
            "until_ns": peak.until_ns,
            "peak_reserved_bytes": peak.reserved_bytes, "during": peak.during,
            **{key: value for key, value in peak.held.items() if key != "device"},  # in the loader's names
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
    most = (_holders(memory),) if len(memory.peaks) == 1 and memory.rows.height > 1 else ()
    return (*lines, *(one.sentence for one in memory_findings(memory)), *most)


def _holders(memory: Peaks) -> str:
    """The two places that hold most of the peak: 'Most is held by transformer.py:22 forward, 1.3 of 18.0 GiB, …'."""
    whole, rows = memory.peaks[0].bytes, memory.rows.sort("bytes", descending=True, nulls_last=True)
    words = {BEFORE: "blocks from before the recording", UNKNOWN: "places without a stack"}
    named = [f"{words.get(frame or UNKNOWN) or display(str(frame).rpartition('/')[2], 60)} ({units.size(held)})"
             for frame, held in rows.select("frame", "bytes").head(2).iter_rows() if held]
    return f"Of the {units.size(whole)} most is held by {' and '.join(named)}."


def _difference(a: Peaks, b: Peaks, moved: dict[str, str]) -> list[str]:
    """Peak A → peak B for every device that both runs have."""
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
    if not memory.peaks:
        return ("No memory was recorded.",)
    few, every = memory.sizeless
    sizeless = (f"{few:,} of {every:,} allocations have no size: they are in no sum.",) if few else ()
    if memory.stacks:
        return sizeless
    return (*sizeless, "Allocations were recorded without a stack: who held the peak is unknown, only what ran at that "
            "time.")


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The stack of the largest allocation, one line per frame, and the segments of the device."""
    frames = str(row.get("stack") or row.get("stack_b") or row.get("stack_a") or "").split("\n")
    listed = [(f"{number}", display(frame, 400)) for number, frame in enumerate(filter(None, frames))]
    result = [Section("Stack, innermost first", tuple(listed))] if listed else []
    return result + [_segments(peak) for peak in memory_of(runs[0]).peaks
                   if len(runs) == 1 and (peak.device, peak.rank) == (row["device"], row["rank"]) and peak.segments]


def _segments(peak: Peak) -> Section:
    """The largest segments of the device at the end: a map of the memory in use, and how much is free."""
    rows = tuple(
        (units.size(one["bytes"]), "".join(_EIGHTHS[int(part)] for part in one["map"]),
         units.size(one["allocated_bytes"]), units.size(one["free_bytes"]), units.size(one["largest_free_bytes"]))
        for one in peak.segments[:MOST])
    more = f", the largest {MOST} of {units.count(peak.held['segments'])}" if peak.held["segments"] > MOST else ""
    return Section(f"Segments of {peak.device}{more}", rows,
                   ("segment", "in use, by address", "allocated", "free", "largest free"))


VIEW = View("memory", COLUMNS, build, side_by_side(COLUMNS), noun="places", details=details)
