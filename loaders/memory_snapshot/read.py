"""Converts a snapshot's containers to columns: allocations with stacks, allocated and reserved memory over time.

The allocator's history is a window that ends with the snapshot and begins at an arbitrary point. The state at the end
is known, so sums are computed backwards from it; a block freed but not allocated in the window existed before it. Event
sizes are requested sizes, as recorded; block sizes, rounded up by the allocator, are known only from the final state.
Keys are those of ``torch/cuda/_memory_viz.py`` and of the allocator's snapshot; any of them may be missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct, field

from .. import schema
from ..recording.faults import OUT_OF_RANGE, Faults
from ..recording.values import number
from ..schema_limits import LATEST_NS
from ..trace import Device, Info, Trace
from .plain_pickle import NotPlain

_GROWS, _SHRINKS = ("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")
_FREED = ("free_requested", "free_completed", "free")
_PYTHON = re.compile(r"\.py(?::\d+)? ")
_OUTER = 64  # Maximum frames kept per stack, the innermost first.
_LONGEST = 400  # Maximum characters of a frame's file name and function name.
_ADDRESSES = 1 << 63
_MOST_BYTES = 1 << 50  # No device has as much memory, and sums of such sizes stay whole numbers.
_PARTS = 24  # Equal parts of a segment for which the share in use is kept.
_MOST_SEGMENTS, _MOST_FAILURES = 64, 8  # The facts list the largest segments and the last failed allocations.
_SAMPLES = {"ts_ns": pl.Int64, "metric": pl.String, "device": pl.String, "value": pl.Float64, "unit": pl.String}


class Allocation(Struct):
    """One allocation: start and end (None: before or after the history), size and stack. ``size`` is the requested size
    if known, ``block_size`` the size of its block on the device."""

    device: int
    address: int
    size: int
    block_size: int | None
    stream: int | None
    stack: str | None
    start_us: int | None = None
    end_us: int | None = None


class AllocatorState(Struct):
    """Final state of a device's allocator: bytes held, segments, and failed allocations (out of memory). ``is_whole``:
    every size is known, else ``reserved`` says nothing."""

    allocated: int = 0
    requested: int = 0
    reserved: int = 0
    free: int = 0
    largest_free: int = 0
    is_whole: bool = True
    segments: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)


class Snapshot(Struct):
    """A whole snapshot: blocks, final state per device, and changes (time µs, allocated, reserved) per device."""

    blocks: list[Allocation] = field(default_factory=list)
    states: dict[int, AllocatorState] = field(default_factory=dict)
    changes: dict[int, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    events: int = 0
    stray: int = 0
    tables: list[tuple[str, int, bool]] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)


class _Reader:
    """Reads the containers. Rows shared by several lists are read for each, at most as many as the file has bytes."""

    def __init__(self, budget: int) -> None:
        self.snapshot, self._budget = Snapshot(), budget
        self._stacks: dict[int, str | None] = {}

    def rows(self, value: Any) -> list[dict[Any, Any]]:
        """The dicts in a list; other elements count as stray. Raises NotPlain if rows are repeated excessively."""
        if not isinstance(value, list):
            return []
        self._budget -= len(value)
        if self._budget < 0:
            raise NotPlain("refers to the same rows over and over")
        records = [row for row in value if isinstance(row, dict)]
        self.snapshot.stray += len(value) - len(records)
        return records

    def state(self, device: int) -> AllocatorState:
        """The allocator state of a device, created when first used."""
        return self.snapshot.states.setdefault(device, AllocatorState())

    def stack(self, row: dict[Any, Any]) -> str | None:
        """The stack of a row, one line per frame, innermost first; None if none was recorded."""
        frames = row.get("frames")
        if frames is None and isinstance(row.get("history"), list) and row["history"]:
            first = row["history"][0]
            frames = first.get("frames") if isinstance(first, dict) else None
        if not isinstance(frames, list) or not frames:
            return None
        key = id(frames)
        if key not in self._stacks:
            self._stacks[key] = "\n".join(_outer([_frame(one) for one in self.rows(frames)])) or None
        return self._stacks[key]


def read(content: Any, size: int) -> Snapshot:
    """Read the content of a snapshot; ``size`` is its size in bytes. Raises NotPlain if it is not a snapshot."""
    if isinstance(content, list):
        content = {"segments": content}
    if not isinstance(content, dict) or not {"segments", "device_traces"} & content.keys():
        raise NotPlain("is a pickle, but not a memory snapshot: it has no segments")
    reader = _Reader(size)
    alive = _segments(reader, content.get("segments"))
    traces = content.get("device_traces")
    reader.snapshot.tables = [
        (str(key), sum(isinstance(one, list) and len(one) for one in rows) if key == "device_traces" else len(rows),
         key in ("segments", "device_traces"))
        for key, rows in content.items() if isinstance(rows, list) and rows
    ]
    for device, events in enumerate(traces if isinstance(traces, list) else []):
        if rows := reader.rows(events):
            _events(reader, device, rows, alive.pop(device, {}))
    for blocks in alive.values():
        reader.snapshot.blocks += blocks.values()
    if not reader.snapshot.blocks and not reader.snapshot.changes:
        raise NotPlain("is a memory snapshot without a single block or event")
    return reader.snapshot


def _number(row: dict[Any, Any], key: str) -> int | None:
    value = row.get(key)
    return value if type(value) is int and 0 <= value < _ADDRESSES else None


def _bytes(reader: _Reader, row: dict[Any, Any], key: str, table: str) -> int | None:
    """A size; what is none is counted under ``table``."""
    recorded = row.get(key)
    if type(recorded) is int and 0 <= recorded < _MOST_BYTES:
        return recorded
    value, reason = number(recorded, "count")
    if value is not None and value >= _MOST_BYTES:
        value, reason = None, OUT_OF_RANGE
    if reason is not None:
        reader.snapshot.faults.wrong(table, key, reason)
    return None if value is None else int(value)


def _outer(frames: list[str]) -> list[str]:
    """At most ``_OUTER`` frames, the innermost first: C++ frames give way to the Python frames behind them."""
    if len(frames) <= _OUTER:
        return frames
    python = {at for at, frame in enumerate(frames) if _PYTHON.search(frame)}
    python = set(sorted(python)[: _OUTER // 2])
    others = [at for at in range(len(frames)) if at not in python][: _OUTER - len(python)]
    return [frames[at] for at in sorted({*python, *others})]


def _frame(row: dict[Any, Any]) -> str:
    """One frame as 'file:line function'."""
    name, line, function = row.get("filename"), row.get("line"), row.get("name")
    place = _text(name) if isinstance(name, str) else "??"
    where = f"{place}:{line}" if type(line) is int and 0 < line < 1 << 31 else place
    return f"{where} {_text(function)}".strip() if isinstance(function, str) else where


def _text(value: str) -> str:
    plain = value.encode("utf-8", "replace").decode().replace("\n", " ")
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST // 2] + "…" + plain[-_LONGEST // 2 :]


def _segments(reader: _Reader, value: Any) -> dict[int, dict[int, Allocation]]:
    """The blocks alive at the end, by device and address; also sums up the allocator states."""
    alive: dict[int, dict[int, Allocation]] = defaultdict(dict)
    for segment in reader.rows(value):
        device = _number(segment, "device") or 0
        state_at_end, place = reader.state(device), _number(segment, "address")
        total = _bytes(reader, segment, "total_size", "segments")
        state_at_end.is_whole &= total is not None
        state_at_end.reserved += total or 0
        before = state_at_end.allocated, state_at_end.free
        free: list[tuple[int, int]] = []  # (offset in the segment, bytes)
        for row in reader.rows(segment.get("blocks")):
            held = _bytes(reader, row, "size", "segments")
            state_at_end.is_whole &= held is not None
            size = held or 0
            address = _number(row, "address")
            address = place if address is None else address
            place = None if address is None else address + size
            state = row.get("state")
            if state == "inactive":
                free.append(((address or 0) - (_number(segment, "address") or 0), size))
                state_at_end.free += size
                state_at_end.largest_free = max(state_at_end.largest_free, size)
            elif address is not None and state in ("active_allocated", "active_awaiting_free", "active_pending_free"):
                requested = _bytes(reader, row, "requested_size", "segments") or size
                if state == "active_allocated":
                    state_at_end.allocated += size
                    state_at_end.requested += requested
                alive[device][address] = Allocation(
                    device, address, requested, size, _number(segment, "stream"), reader.stack(row)
                )
            else:
                reader.snapshot.stray += 1
        state_at_end.segments.append(_segment(segment, total or 0, free, state_at_end.allocated - before[0]))
    return alive


def _segment(segment: dict[Any, Any], size: int, free: list[tuple[int, int]], allocated: int) -> dict[str, Any]:
    """One segment for ``info.facts``: sizes in bytes, and ``map``, a digit per part: the eighths of it in use."""
    kind = segment.get("segment_type")
    edges = np.linspace(0, size, _PARTS + 1)
    unused = np.zeros(_PARTS)
    for at, length in free:
        unused += np.clip(np.minimum(edges[1:], at + length) - np.maximum(edges[:-1], at), 0, None)
    used = np.ceil(8 * (1 - unused / (size / _PARTS)) - 1e-6).clip(0, 8).astype(int) if size else np.zeros(_PARTS, int)
    return {
        "bytes": size, "kind": kind if isinstance(kind, str) else None, "stream": _number(segment, "stream"),
        "expandable": segment.get("is_expandable") is True, "allocated_bytes": allocated,
        "free_bytes": sum(length for _, length in free), "largest_free_bytes": max((one for _, one in free), default=0),
        "free_blocks": len(free), "map": "".join(map(str, used)),
    }


def _events(reader: _Reader, device: int, events: list[dict[Any, Any]], alive: dict[int, Allocation]) -> None:
    """Process the history of one device's allocator in order; ``alive`` are its blocks at the end."""
    snapshot, changes = reader.snapshot, reader.snapshot.changes[device]
    open_blocks: dict[int, Allocation] = {}
    time = next((moment for row in events if (moment := _moment(row)) is not None), 0)
    for row in events:
        action, address = row.get("action"), _number(row, "addr")
        size = _bytes(reader, row, "size", "device_traces")
        moment = _moment(row)
        time = time if moment is None else moment  # an event without a time takes that of the previous one
        snapshot.events += 1
        if action == "alloc" and address is not None and size is not None:
            _overwritten(snapshot, open_blocks.get(address), time)
            changes.append((time, size, 0))
            stream, stack = _number(row, "stream"), reader.stack(row)
            open_blocks[address] = Allocation(device, address, size, None, stream, stack, time)
        elif action in _FREED and address is not None and size is not None:
            freed = Allocation(device, address, size, None, _number(row, "stream"), None)
            _freed(snapshot, open_blocks, freed, action, time)
        elif action in _GROWS or action in _SHRINKS:
            reader.state(device).is_whole &= size is not None
            changes.append((time, 0, (size or 0) * (1 if action in _GROWS else -1)))
        elif action == "oom":
            reader.state(device).failures.append({
                "at_us": time, "asked_bytes": size, "device_free_bytes": _number(row, "device_free"),
                "stack": reader.stack(row)})
        elif action not in ("snapshot", "workspace_snapshot"):
            snapshot.stray += 1
    for address, block in open_blocks.items():
        last = alive.pop(address, None)
        if block.end_us is None:
            block.block_size = last.block_size if last is not None else None
            snapshot.blocks.append(block)
    snapshot.blocks += alive.values()


def _moment(row: dict[Any, Any]) -> int | None:
    """Time of an event, µs since 1970; None if not recorded or implausible."""
    time = _number(row, "time_us")
    return None if time is None or time * 1000 >= LATEST_NS else time


def _overwritten(snapshot: Snapshot, block: Allocation | None, time: int) -> None:
    """End a block at whose address another was allocated: its free is missing from the history."""
    if block is not None and block.end_us is None:
        block.end_us = time
        snapshot.changes[block.device].append((time, -block.size, 0))
        snapshot.blocks.append(block)
        snapshot.stray += 1


def _freed(snapshot: Snapshot, open_blocks: dict[int, Allocation], freed: Allocation, action: Any, time: int) -> None:
    """End a block. Memory counts as freed at ``free_requested``; a later ``free_completed`` is ignored."""
    block = open_blocks.get(freed.address)
    if block is not None and block.end_us is not None:
        if action == "free_completed":
            del open_blocks[freed.address]
            return
        block = None
    if block is None:
        if action == "free_completed" and freed.address in open_blocks:
            return
        block = freed  # allocated before the window
    block.end_us = time
    snapshot.changes[freed.device].append((time, -block.size, 0))
    snapshot.blocks.append(block)
    if action == "free_requested":
        open_blocks[freed.address] = block
    else:
        open_blocks.pop(freed.address, None)


def _samples(snapshot: Snapshot, zero_us: int) -> pl.DataFrame:
    """Rows of ``metrics``: allocated and reserved memory of each device after every change."""
    frames = []
    for device, changes in sorted(snapshot.changes.items()):
        state = snapshot.states.get(device, AllocatorState())
        times = np.array([time for time, _, _ in changes], np.int64)
        order = np.argsort(times, kind="stable")
        for metric, at, end in (("memory allocated", 1, state.requested), ("memory reserved", 2, state.reserved)):
            if metric == "memory reserved" and not state.is_whole:
                continue
            steps: npt.NDArray[np.int64] = np.array([change[at] for change in changes], np.int64)[order]
            moved = np.flatnonzero(steps)
            after = np.cumsum(steps)[moved]
            begin = max(0, end - int(steps.sum()), -int(after.min(initial=0)))
            frames.append(pl.DataFrame({
                "ts_ns": (times[order][moved] - zero_us) * 1000, "metric": metric, "device": f"GPU {device}",
                "value": (begin + after).astype(np.float64), "unit": "B",
            }, schema=_SAMPLES))
    for device, state in sorted(snapshot.states.items()):
        if not snapshot.changes.get(device):
            frames.append(pl.DataFrame({
                "ts_ns": pl.Series([None, None], dtype=pl.Int64), "metric": ["memory allocated", "memory reserved"],
                "device": f"GPU {device}", "unit": "B",
                "value": [float(state.allocated), float(state.reserved) if state.is_whole else None],
            }, schema=_SAMPLES))
    return pl.concat(frames).sort("ts_ns", maintain_order=True, nulls_last=True)


def trace(path: Path, format: str, snapshot: Snapshot, size: int) -> Trace:
    """The snapshot as a Trace; its zero is the first recorded event."""
    times = [time for changes in snapshot.changes.values() for time, _, _ in changes if time]
    zero = min(times, default=0)
    blocks = sorted(snapshot.blocks, key=lambda one: (one.start_us or 0, one.device, one.address))
    starts = [None if one.start_us is None else max(0, one.start_us - zero) * 1000 for one in blocks]
    lengths = [None if one.end_us is None else max(0, (one.end_us - (one.start_us or zero)) * 1000) for one in blocks]
    allocations = pl.DataFrame({
        "start_ns": starts, "dur_ns": lengths, "bytes": [one.size for one in blocks],
        "block_bytes": [one.block_size for one in blocks], "device": [f"GPU {one.device}" for one in blocks],
        "stream": [one.stream for one in blocks], "address": [one.address for one in blocks],
        "stack": [one.stack for one in blocks],
    }, schema={
        "start_ns": pl.Int64, "dur_ns": pl.Int64, "bytes": pl.Int64, "block_bytes": pl.Int64, "device": pl.String,
        "stream": pl.Int64, "address": pl.Int64, "stack": pl.String,
    })
    stray = snapshot.stray
    warnings = [*snapshot.faults.warnings(),
                *[f"{stray:,} snapshot entries of unknown kind were left out."] * bool(stray)]
    if not times:
        warnings.append("the snapshot has no history: it shows only what was held at its end (record it with "
                        "torch.cuda.memory._record_memory_history())")
    devices = sorted({one.device for one in blocks} | snapshot.states.keys() | snapshot.changes.keys())
    info = Info(
        source=str(path), label=path.name.split(".")[0] or path.name, format=format, tool="PyTorch", bytes=size,
        devices=tuple(Device(f"GPU {device}") for device in devices), epoch_ns=zero * 1000 or None,
        clock="since 1970, µs" if times else None, warnings=tuple(warnings),
        facts={"clock": "utc" if times else "none", "memory": [_facts(device, snapshot, zero) for device in devices],
               "tables": [table for table in snapshot.tables if table[1]]},
    )
    return Trace(
        info, metrics=schema.conform("metrics", _samples(snapshot, zero).lazy()),
        allocations=schema.conform("allocations", allocations.lazy()),
    )


def _facts(device: int, snapshot: Snapshot, zero: int) -> dict[str, Any]:
    """The final memory state of a device, for ``info.facts``."""
    state = snapshot.states.get(device, AllocatorState())
    last: dict[str, Any] = state.failures[-1] if state.failures else {}
    return {
        "device": f"GPU {device}", "allocated_bytes": state.allocated, "requested_bytes": state.requested,
        "reserved_bytes": state.reserved if state.is_whole else None,
        "free_bytes": state.free, "largest_free_bytes": state.largest_free,
        "segments": len(state.segments), "out_of_memory": len(state.failures), "asked_bytes": last.get("asked_bytes"),
        "device_free_bytes": last.get("device_free_bytes"),
        "failures": [{"at_ns": max(0, one["at_us"] - zero) * 1000, **{key: one[key] for key in one if key != "at_us"}}
                     for one in state.failures[-_MOST_FAILURES:]],
        "largest_segments": sorted(state.segments, key=lambda one: -int(one["bytes"]))[:_MOST_SEGMENTS],
    }
