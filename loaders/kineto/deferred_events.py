"""Events whose meaning depends on the rest of the file: written to a scratch file and interpreted at the end.

Metadata may follow the events it describes, and counters and slices without category are interpreted by their process.
So metadata, counters, profiler ranges, slices without category and begin/end pairs are written to a scratch file as
they are found, and reread when the whole file has been scanned. That bounds memory and lets both readers share the
interpretation. Memory instants, which are numerous and self-contained, are processed at once.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import dialect
from .columns import INSTANT_INTS, NULL, Ints, Number, Rows, integer, nanoseconds
from .document import decode
from .samples import Samples
from .tables import Tables

_HEAD = struct.Struct("<qi")
_BATCH = 50_000
_PHASES = {
    "i": "instants", "I": "instants", "R": "marks", "n": "instants of asynchronous events", "c": "clock marks",
    "N": "objects", "O": "objects", "D": "objects", "P": "samples", "v": "memory dumps", "V": "memory dumps",
    "E": "ends without a begin",
}
"""Chrome trace phase → name of events that no table holds."""
_MEMORY = b'"[memory]"'
ASCEND = "NPU"  # Prefix of Ascend device names.


class DeferredEvents:
    """The scratch file, and the processes, threads and counts read back from it."""

    def __init__(self, workspace: Path, tables: Tables) -> None:
        self._tables, self._samples = tables, Samples(tables)
        self._path = workspace / ".deferred"
        self._file = self._path.open("w+b")
        self.repaired = self.broken = self.broken_bytes = 0
        self.processes: dict[Any, dict[str, str]] = {}
        self.threads: dict[tuple[Any, Any], str] = {}
        self.ignored: Counter[str] = Counter()
        self.xla = False

    def add(self, raw: bytes, offset: int) -> None:
        """Add one event's text and its offset in the source. Must be called in file order."""
        if _MEMORY in raw and self._memory(raw):
            return
        self._file.write(_HEAD.pack(offset, len(raw)))
        self._file.write(raw)

    def add_all(self, texts: Sequence[tuple[int, bytes]], instants: Sequence[Ints]) -> None:
        """Add a block's events as (offset, text), and its memory instants as arrays of rows ``INSTANT_INTS``."""
        numbers = np.concatenate(instants, axis=1) if instants else np.empty((len(INSTANT_INTS), 0), np.int64)
        offsets, position = numbers[INSTANT_INTS.index("offset")], 0
        for offset, raw in texts:
            if _MEMORY in raw:  # keep the samples in file order
                before = int(np.searchsorted(offsets, offset))
                self._samples.instants(numbers[:, position:before])
                position = before
            self.add(raw, offset)
        self._samples.instants(numbers[:, position:])

    def _memory(self, raw: bytes) -> bool:
        """Process the event if it is a memory instant; returns whether it was."""
        try:
            event, repaired = decode(raw)
        except ValueError:
            return False
        if repaired or not isinstance(event, dict) or event.get("name") != "[memory]":
            return False
        if event.get("ph") not in ("i", "I"):
            return False
        self._samples.memory(event)
        return True

    def close(self) -> None:
        """Remove the scratch file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _events(self) -> Iterator[tuple[bytes, int]]:
        self._file.seek(0)
        while head := self._file.read(_HEAD.size):
            offset, size = _HEAD.unpack(head)
            yield self._file.read(size), offset

    def resolve(self) -> None:
        """Reread all events and add them to the tables."""
        tables = self._tables
        self._file.flush()
        for raw, _ in self._events():
            if b'"M"' in raw and (event := self._decoded(raw)) and event.get("ph") == "M":
                self._metadata(event)
        self.repaired = self.broken = self.broken_bytes = 0
        roles = Roles(self.processes, self.threads)
        tables.texts.device_word = roles.word or tables.texts.device_word
        self.xla = roles.xla
        self._samples.flush()
        rows, starts = Rows(tables.strings), dict[Any, list[tuple[dict[str, Any], int]]]()
        for raw, offset in self._events():
            event = self._decoded(raw)
            if event is None or event.get("ph") == "M":
                continue
            self._resolve_one(event, offset, len(raw), roles, rows, starts)
            if len(rows) >= _BATCH:
                tables.add(tables.rows_of(rows.block(0)))
                rows = Rows(tables.strings)
        tables.add(tables.rows_of(rows.block(0)))
        self._samples.flush()
        self.ignored["begins without an end"] += sum(map(len, starts.values()))

    def _decoded(self, raw: bytes) -> dict[str, Any] | None:
        try:
            value, repaired = decode(raw)
        except ValueError:
            self.broken += 1
            self.broken_bytes += len(raw)
            return None
        self.repaired += repaired
        return value if isinstance(value, dict) else None

    def _metadata(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            return
        pid, name = _key(event.get("pid")), event.get("name")
        if name == "process_name":
            self.processes.setdefault(pid, {})["name"] = str(args.get("name", ""))
        elif name == "process_labels":
            self.processes.setdefault(pid, {})["labels"] = str(args.get("labels", ""))
        elif name == "thread_name":
            self.threads[pid, _key(event.get("tid"))] = str(args.get("name", ""))

    def _resolve_one(
        self, event: dict[str, Any], offset: int, size: int, roles: Roles, rows: Rows,
        starts: dict[Any, list[tuple[dict[str, Any], int]]],
    ) -> None:  # fmt: skip
        phase, recorded = event.get("ph"), event.get("args")
        args = recorded if isinstance(recorded, dict) else {}
        lane = (_key(event.get("pid")), _key(event.get("tid")))
        if phase == "C":
            self._samples.add(event, dialect.counter(event, roles.devices))
        elif event.get("name") == "[memory]" and phase in ("i", "I"):
            self._samples.memory(event)
        elif phase == "X" and str(event.get("cat")).lower() == "cuda_profiler_range":
            self._samples.add(event, dialect.counter({**event, "name": ""}, roles.devices))
        elif phase == "X":
            self._slice(roles.placed(event, args), offset, size, rows)
        elif phase == "B":
            starts.setdefault(lane, []).append((event, offset))
        elif phase == "E" and starts.get(lane):
            opening, offset = starts[lane].pop()
            first, last = nanoseconds(opening.get("ts")), nanoseconds(event.get("ts"))
            if NULL not in (first, last):
                opening["dur"] = Number(f"{(last - first) // 1000}.{(last - first) % 1000:03d}")
                begun_args = opening.get("args")
                opening_args = begun_args if isinstance(begun_args, dict) else {}
                self._slice(opening if opening.get("cat") else roles.placed(opening, opening_args), offset, size, rows)
        else:
            self.ignored[_PHASES.get(str(phase), f"events of phase {phase}")] += 1

    def _slice(self, event: dict[str, Any] | None, offset: int, size: int, rows: Rows) -> None:
        if event is None:
            self.ignored["slices on lanes derived from others"] += 1
        elif event.get("cat") == "step":
            start, dur = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
            if start != NULL and dur >= 0:
                self._tables.cycle(str(event.get("name")), start, dur)
        else:
            rows.add(event, offset, offset + size)


class Roles:
    """The role of each process by its metadata: a device, a host process, or lanes derived from others. ``devices``
    maps pids to device names; ``word`` is the prefix of device names, None for GPUs."""

    _XLA_DEVICE = re.compile(r"/device:(\w+):(\d+)")
    _RPD_DEVICE = re.compile(r"GPU(\d{1,4})")
    _DERIVED = ("XLA Modules", "XLA Ops", "Framework", "TensorFlow", "Source", "Async XLA")

    def __init__(self, processes: dict[Any, dict[str, str]], threads: dict[tuple[Any, Any], str]) -> None:
        self.devices: dict[int, str] = {}
        self.word: str | None = None
        self._threads = threads
        self._ascend: dict[Any, int] = {}
        self._ascend_links: dict[Any, int] = {}
        self._xla: dict[Any, int] = {}
        self._derived: set[Any] = set()
        self._rpd: dict[Any, int] = {}
        self.xla = False
        for pid, process in processes.items():
            name, labels = process.get("name", ""), process.get("labels", "")
            if match := self._XLA_DEVICE.search(name):
                self._xla[pid] = int(match[2])
                self.xla = True
                self.word = match[1]
            elif name == "Ascend Hardware":
                self._ascend[pid] = len(self._ascend)
                self.word = ASCEND
            elif name in ("HCCL", "Communication"):
                self._ascend_links[pid] = len(self._ascend_links)
            elif name == "Overlap Analysis":
                self._derived.add(pid)
            elif type(pid) is int and re.fullmatch(r"GPU \d+", labels.strip()):
                self.devices[pid] = labels.strip()
            elif (rpd := self._RPD_DEVICE.fullmatch(name)) and pid == int(rpd[1]):
                self._rpd[pid] = pid
                self.devices[pid] = f"GPU {pid}"
        self._streams = {pid for (pid, _), name in threads.items() if pid in self._xla and name.startswith("Stream")}

    def placed(self, event: dict[str, Any], args: dict[str, Any]) -> dict[str, Any] | None:
        """The slice with the category and arguments that its process and thread imply; None if it duplicates others."""
        pid, tid, name = _key(event.get("pid")), _key(event.get("tid")), event.get("name")
        name = name if isinstance(name, str) else ""
        if pid in self._derived:
            return None
        if pid in self._ascend:
            if self._ascend_links and args.get("Task Type") in _ASCEND_STEPS:
                return None
            return {**event, "cat": _ascend_category(args, name), "args": {
                "device": self._ascend[pid], "stream": event.get("tid"), "correlation": args.get("connection_id"),
                "bytes": args.get("data size(Byte)"),
            }}  # fmt: skip
        if pid in self._ascend_links:  # "Group" lanes hold whole collectives; "Plane" lanes their steps, device tasks
            if not self._threads.get((pid, tid), "").startswith("Group"):
                return None
            return {**event, "cat": "collective_comm", "args": {
                "device": self._ascend_links[pid], "stream": tid, "correlation": args.get("connection_id"),
            }}  # fmt: skip
        if pid in self._rpd:
            category = _rpd_category(str(args.get("desc", "")))
            return category and {**event, "cat": category, "args": {"device": pid, "stream": event.get("tid")}}
        if pid in self._xla:
            return self._on_xla_device(event, args, pid, self._threads.get((pid, tid), ""), name)
        link = args.get("connection_id", args.get("correlation_id"))
        event_args = args if link is None or "correlation" in args else {**args, "correlation": link}
        return {**event, "cat": dialect.category_without(name), "args": event_args}

    def _on_xla_device(
        self, event: dict[str, Any], args: dict[str, Any], pid: Any, lane: str, name: str
    ) -> dict[str, Any] | None:
        if lane == "Steps":
            return {**event, "cat": "step"}
        operations = lane.startswith("Stream") if pid in self._streams else lane == "XLA Ops"
        if not operations:
            return None
        details = str(args.get("kernel_details", ""))
        kind = "gpu_memcpy" if re.match(r"memcpy", name, re.I) else "kernel"
        kind = "gpu_memset" if re.match(r"memset", name, re.I) else kind
        match = re.search(r"#(\d+)", lane)
        return {**event, "cat": kind, "args": {
            "device": self._xla[pid], "stream": int(match[1]) if match else event.get("tid"),
            "correlation": args.get("correlation_id"), "grid": _detail(details, "grid"),
            "block": _detail(details, "block"), "registers per thread": _single(details, "regs"),
            "est. achieved occupancy %": _single(details, "occ_pct") or None,
        }}  # fmt: skip


def _key(value: Any) -> Any:
    """A pid or tid as dictionary key: 7 and '7' are the same."""
    number = integer(value)
    return number if number != NULL else str(value)


_ASCEND_STEPS = ("SDMA", "RDMA", "Write Value", "Notify Wait", "Notify Record", "Reduce_Inline")
"""Task types that are steps of a collective; ignored if collectives have their own slices."""
_ASCEND_COPY = re.compile(r"MEMCPY|SDMA|PCIE_DMA|RDMA")
_ASCEND_WAIT = re.compile(
    r"EVENT|NOTIFY|.*[ _]WAIT\b|PLACE_HOLDER|PROFILING|WRITE[ _]VALUE|STREAM_|MODEL_EXECUTE|PROFILER|CMO|.*RECORD\b"
)


def _ascend_category(args: dict[str, Any], name: str) -> str:
    """The category of an NPU task; tasks that only synchronise streams or record something are not kernels."""
    task, name = str(args.get("Task Type", "")).upper(), name.upper()
    if name.startswith("HCOM"):
        return "collective_comm"
    if _ASCEND_COPY.match(task) or _ASCEND_COPY.match(name):
        return "gpu_memcpy"
    if task.startswith("MEMSET") or name.startswith("MEMSET"):
        return "gpu_memset"
    return "cuda_sync" if _ASCEND_WAIT.match(task) or _ASCEND_WAIT.match(name) else "kernel"


def _rpd_category(operation: str) -> Any:
    """The category of a device operation as ROCm's rpd2tracing writes it; None for its mirrored ranges."""
    if operation.startswith("UserMarker frame"):
        return None
    if operation.startswith("Copy"):
        return "gpu_memcpy"
    if operation.startswith(("Fill", "Memset")):
        return "gpu_memset"
    return "cuda_sync" if operation.startswith(("Barrier", "Marker")) else "kernel"


def _detail(details: str, key: str) -> list[int] | None:
    match = re.search(rf"\b{key}:(\d+),(\d+),(\d+)", details)
    return [int(size) for size in match.groups()] if match else None


def _single(details: str, key: str) -> int | None:
    match = re.search(rf"\b{key}:(\d{{1,9}})\b", details)
    return int(match[1]) if match else None
