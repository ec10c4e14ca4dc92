"""Memory: the most that was allocated on each device, what held it then, and what was free and of no use."""

from __future__ import annotations

from typing import Any

from ..contract.column import Column, side_by_side
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.device_pairs import mapped, note, under
from ..core.text import display
from ..memory.peak import Peak, Peaks, memory_of
from ..table.sides import beside

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
    found = [memory_of(run) for run in runs]
    if not any(one.peaks for one in found):
        names = " and ".join(run.info.label for run in runs)
        raise CannotAnswer(f"{names} {'says' if len(runs) == 1 else 'say'} nothing of memory; {_NONE}.")
    if len(runs) == 1:
        memory = found[0]
        return Answer(memory.rows.lazy(), facts_of(memory), _summary(memory), _notes(memory))
    a, b = found
    moved = mapped(*([peak.device for peak in one.peaks] for one in found))
    right = b.rows
    if moved:
        right = right.with_columns(under(moved))
    summary = tuple(f"{side}: {line}" for side, one in zip("AB", found, strict=True) for line in _summary(one))
    notes = [f"{side}: {said}" for side, one in zip("AB", found, strict=True) for said in _notes(one)]
    return Answer(
        beside(a.rows, right, COLUMNS).lazy(), {"a": facts_of(a), "b": facts_of(b)},
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
        if said := _fragmented(peak):
            lines.append(f"{_name(peak)}: {said}")
    return tuple(lines)


def _fragmented(peak: Peak) -> str:
    """What was free at the end against what was asked for."""
    held = peak.held
    if not held.get("free_bytes"):
        return ""
    segments = units.counted(held["segments"], "segment", "segments")
    largest = units.size(held["largest_free_bytes"])
    said = f"{units.size(held['free_bytes'])} free in {segments} at the end, the largest block {largest}"
    asked = held.get("asked_bytes")
    if not asked:
        return said
    verdict = "fits" if asked <= held["largest_free_bytes"] else (
        "does not fit, though that much is free" if asked <= held["free_bytes"] else "does not fit")
    return f"{said}; out of memory when {units.size(asked)} were asked for, which {verdict}"


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


VIEW = View("memory", COLUMNS, build, side_by_side(COLUMNS), noun="places", details=details)
