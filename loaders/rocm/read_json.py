"""rocprofv3's JSON: lists of records, and the tables that name their agents, kernels and operations.

The lists are split without decoding their records (``msgspec.Raw``), which are then decoded in blocks to a fixed type,
so that only the fields used here are built. If a block fails, its records are decoded one by one, and those that do not
fit the type are dropped and counted. A truncated file is closed after its last complete record. The command line in
``metadata`` and the paths in ``config`` belong to the user and are never decoded.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import GenericAlias
from typing import Any

import msgspec
import polars as pl
from msgspec import Raw

from ..errors import Unreadable
from ..ingest import stream
from ..loader import Job
from ..recording import values
from ..recording.database import tables_of
from ..recording.faults import Faults
from ..recording.recording import Recording, size
from ..recording.values import series
from ..trace import Device, Info, Trace
from .json_records import (
    Agent,
    Counted,
    Counter,
    Handle,
    Kind,
    MarkerText,
    Metadata,
    NameTables,
    Process,
    Record,
    RocprofDocument,
    Symbol,
)
from .values import first_passes, kind_of_domain

_BLOCK = 100_000
_GPU = 2
_RECORD = re.compile(rb'\}\s*,\s*(?=\{\s*"size"\s*:)')
_CLOSINGS = (b"]}}]}", b"]}]}", b"]}}}]}")
"""Endings that complete a document truncated inside a list of records: a buffer's, a process's, or one level deeper."""
_APIS = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "marker_api", "ompt", "kfd_events")
_UNUSED = ("pc_sample_host_trap", "pc_sample_stochastic")


def load(job: Job) -> tuple[Trace, ...]:
    """One Trace per process. Raises Unreadable if the text is not JSON, or has no record with a time."""
    text, fault = stream.read_all(job.path)
    total = len(text)
    job.progress(total // 4, total, 0)
    document, coverage = _document(job, text)
    del text
    traces = []
    for number, process in enumerate(document.processes):
        info = Info(
            source=str(job.path), label=_label(job, number, len(document.processes)), format="rocprofv3-json",
            tool="rocprofv3", bytes=job.path.stat().st_size, clock="since boot, ns", coverage=coverage,
        )
        # the workspace belongs to the first trace: the others write to folders of their own
        alone = job if not number else msgspec.structs.replace(
            job, workspace=_sibling_workspace(job, number), first_rows=None)
        with ThreadPoolExecutor(1) as writer:
            trace = _Reader(process, Recording(alone, info, writer), job, total).read()
        if coverage is not None:
            trace = trace.warn(f"truncated: read {coverage:.0%}, the text ends in the middle of a record")
        if fault:
            trace = trace.warn(fault)
        traces.append(trace)
    if not traces:
        raise Unreadable(job.path, "is a rocprofv3 document without processes", "Check that the recording has any.")
    job.progress(total, total, 0)
    return tuple(traces)


def _sibling_workspace(job: Job, number: int) -> Any:
    path = job.workspace.parent / str(number)
    path.mkdir(parents=True, exist_ok=True)
    return path


def _label(job: Job, number: int, of: int) -> str:
    name = job.path.name
    for suffix in (".gz", ".zst", ".json", "_results"):
        name = name.removesuffix(suffix) or name
    return name if of == 1 else f"{name} [{number}]"


def _document(job: Job, text: bytes) -> tuple[RocprofDocument, float | None]:
    """The document, and the fraction of it that was read if it is truncated, else None."""
    decoder = msgspec.json.Decoder(RocprofDocument)
    try:
        return decoder.decode(text), None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        reason = " ".join(str(error).split())[:100]
    cuts = [match.start() + 1 for match in _RECORD.finditer(text)][-1:]
    for cut in cuts:
        for closing in _CLOSINGS:
            try:
                return decoder.decode(text[:cut] + closing), cut / len(text)
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                continue
    repaired = text.decode("utf-8", "replace").encode()
    if repaired != text:
        return _document(job, repaired)
    raise Unreadable(job.path, f"is damaged: it is not a complete JSON document ({reason})", "Write or copy it again.")


def _decoded(raw: Raw, kind: type[Any] | GenericAlias, fallback: Any) -> Any:
    """The value decoded as ``kind``; ``fallback`` if it is of another type."""
    try:
        return msgspec.json.Decoder(kind, float_hook=_real).decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return fallback


def _real(text: str) -> str | float:
    """A number with a point or an exponent; with an exponent as text, for its last digits may be gone."""
    return text if "e" in text or "E" in text else float(text)


def _blocks(raw: Raw | None, kind: type[Any], rows: int) -> Iterator[tuple[list[Any], int]]:
    """A list of records, in blocks decoded as ``kind``, each with the number of records that do not fit it."""
    records: list[Raw] = _decoded(raw, list[Raw], []) if raw is not None else []
    for first in range(0, len(records), rows):
        block = records[first : first + rows]
        decoded = _decoded(Raw(b"[" + b",".join(block) + b"]"), GenericAlias(list, (kind,)), None)
        if decoded is None:
            each = [_decoded(one, kind, None) for one in block]
            decoded = [one for one in each if one is not None]
        yield decoded, len(block) - len(decoded)


def _list(raw: Raw | None, kind: type[Any]) -> tuple[list[Any], int]:
    """The whole list of records and the number that do not fit, for small lists."""
    blocks = list(_blocks(raw, kind, _BLOCK))
    return [one for block, _ in blocks for one in block], sum(lost for _, lost in blocks)


def _id(value: object) -> int | None:
    """An id, a device number or a property; None if it is no whole number."""
    read, _ = values.number(value, "count")
    return None if read is None else int(read)


Columns = Mapping[str, tuple[list[Any], values.Kind | type[pl.String] | type[pl.Boolean]]]
"""Column → its cells, and what they hold."""


class _Reader:
    """Reads one process into a recording."""

    def __init__(self, process: Process, recording: Recording, job: Job, total: int) -> None:
        self._recording, self._job, self._total = recording, job, total
        self._lists: dict[str, Raw] = _decoded(process.buffer_records, dict[str, Raw], {})
        self._callbacks: dict[str, Raw] = _decoded(process.callback_records, dict[str, Raw], {})
        self._read: collections.Counter[str] = collections.Counter()
        self._pid = _id(_decoded(process.metadata, Metadata, Metadata()).pid)
        strings = _decoded(process.strings, NameTables, NameTables())
        self._kinds: list[Kind] = self._few(strings.buffer_records, Kind)
        self._marker_texts = self._messages(strings.marker_api)
        self._symbols = {one.kernel_id: one for one in self._few(process.kernel_symbols, Symbol)}
        self._counters = {_key(one.id): one.name for one in self._few(process.counters, Counter)}
        self._agents: dict[int | None, str] = {}
        for agent in self._few(process.agents, Agent):
            self._agent(agent)

    def _few(self, raw: Raw | None, kind: type[Any]) -> list[Any]:
        records, lost = _list(raw, kind)
        if lost:
            self._recording.faults.sentences.append(f"{lost:,} entries of the lists of agents and kernels are damaged")
        return records

    def _messages(self, raw: Raw) -> dict[int, str]:
        pairs = _list(raw, MarkerText)[0]
        if pairs:
            return {one.key: one.value for one in pairs}
        table = _decoded(raw, dict[str, str], {})
        return {number: value for key, value in table.items() if (number := _id(key)) is not None}

    def _agent(self, agent: Agent) -> None:
        number = agent.logical_node_type_id if agent.logical_node_type_id is not None else agent.node_id
        if agent.type != _GPU or _id(number) is None:
            self._agents[_key(agent.id)] = "Host"
            return
        device = f"GPU {number}"
        self._agents[_key(agent.id)] = device
        facts = {"chip": agent.name, "cu_count": agent.cu_count, "num_xcc": agent.num_xcc,
                 "simd_per_cu": agent.simd_per_cu, "wave_front_size": agent.wave_front_size}
        properties = {key: value for key, value in facts.items() if value and (isinstance(value, str) or _id(value))}
        self._recording.described[device] = Device(device, agent.product_name or agent.name or None, properties)

    def read(self) -> Trace:
        """Read all lists and finish the Trace."""
        self._launches()
        for rows in self._records("memory_copy"):
            self._copies(rows)
        for name in (*_APIS, *(key for key in self._lists if key.endswith("_api") and key not in _APIS)):
            for rows in self._records(name):
                self._calls(rows, name)
        for rows in self._records("scratch_memory"):
            self._calls(rows, "scratch_memory")
        self._allocations()
        for name in _UNUSED:
            if count := self._size(self._lists.get(name)):
                self._recording.faults.sentences.append(f"{count:,} program-counter (PC) samples are not shown")
        unread = {name: count for name, raw in {**self._callbacks, **self._lists}.items()
                  if name not in self._read and (count := self._size(raw))}
        trace = self._recording.finish()
        trace.info.facts["tables"] = tables_of(self._read, unread)
        return trace

    @staticmethod
    def _size(raw: Raw | None) -> int:
        """The number of records of a list."""
        return len(_decoded(raw, list[Raw], ())) if raw is not None else 0

    def _records(self, name: str) -> Iterator[list[Record]]:
        """The records of one list, in blocks."""
        for rows, lost in _blocks(self._lists.get(name), Record, _BLOCK):
            if lost:
                self._recording.faults.left_out[name] += lost
            self._read[name] += len(rows)
            self._job.progress(self._total // 2, self._total, self._recording.rows)
            yield rows

    def _frame(self, rows: list[Record], table: str, more: Columns) -> pl.DataFrame:
        cells: Columns = {
            "start": ([one.start_timestamp for one in rows], "ns"), "end": ([one.end_timestamp for one in rows], "ns"),
            "tid": ([one.thread_id for one in rows], "id"),
            "correlation": ([one.correlation_id.internal or None for one in rows], "id"), **more,
        }
        faults = self._recording.faults
        frame = pl.DataFrame([
            series(name, column, kind, faults, table) if isinstance(kind, str) else pl.Series(name, column, dtype=kind)
            for name, (column, kind) in cells.items()
        ])
        return frame.with_columns(pid=pl.lit(self._pid, pl.Int64))

    def _dispatches(self, rows: list[Record]) -> None:
        complete = [one for one in rows if one.dispatch_info is not None]
        if len(complete) < len(rows):
            self._recording.faults.left_out["kernel_dispatch"] += len(rows) - len(complete)
        dispatches = [one.dispatch_info for one in complete if one.dispatch_info is not None]
        symbols = [self._symbols.get(one.kernel_id) for one in dispatches]
        streams = [_key(one.stream_id) for one in complete]
        if not self._recording.by_stream(pl.Series(streams, dtype=pl.Int64)):
            streams = [_key(one.queue_id) for one in dispatches]
        extents: Columns = {
            f"{name}_{axis}": ([getattr(getattr(one, name), axis) for one in dispatches], "count")
            for name in ("grid_size", "workgroup_size") for axis in "xyz"
        }
        frame = self._frame(complete, "kernel_dispatch", {
            "name": ([
                (one.demangled_kernel_name or one.kernel_name) if one else f"[kernel {dispatches[at].kernel_id}]"
                for at, one in enumerate(symbols)
            ], pl.String),
            "device": ([self._agents.get(_key(one.agent_id)) for one in dispatches], pl.String),
            "stream": ([stream if stream != -1 else None for stream in streams], "id"),
            "registers": ([one.arch_vgpr_count if one else None for one in symbols], "count"),
            "shared_bytes": ([one.group_segment_size for one in dispatches], "bytes"), **extents,
        })
        self._recording.activities(frame.with_columns(
            grid=size("grid_size_x", "grid_size_y", "grid_size_z"),
            block=size("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"),
        ), "kernel_dispatch")

    def _copies(self, rows: list[Record]) -> None:
        sides = [(self._agents.get(_key(one.dst_agent_id)), self._agents.get(_key(one.src_agent_id))) for one in rows]
        streams = [_key(one.stream_id) for one in rows]
        self._recording.activities(self._frame(rows, "memory_copy", {
            "name": ([self._operation(one) for one in rows], pl.String),
            "device": ([next((one for one in both if one not in (None, "Host")), None) for both in sides], pl.String),
            "stream": ([stream if stream != -1 else None for stream in streams], "id"),
            "bytes": ([one.bytes for one in rows], "bytes"),
        }), "memory_copy", "memcpy")

    def _calls(self, rows: list[Record], name: str) -> None:
        domains = [self._domain(one) or name for one in rows]
        kinds = {domain: kind_of_domain(domain) for domain in set(domains)}
        names = [
            (self._marker_texts.get(one.correlation_id.internal or -1) if kinds[domain] == "annotation" else None)
            or self._operation(one) or domain
            for one, domain in zip(rows, domains, strict=True)
        ]
        self._recording.calls(self._frame(rows, name, {
            "name": (names, pl.String), "kind": ([kinds[domain] for domain in domains], pl.String)
        }), name)

    def _domain(self, one: Record) -> str | None:
        return self._kinds[one.kind].kind if 0 <= one.kind < len(self._kinds) else None

    def _operation(self, one: Record) -> str | None:
        if not 0 <= one.kind < len(self._kinds):
            return None
        names = self._kinds[one.kind].operations
        return names[one.operation] if 0 <= one.operation < len(names) else self._kinds[one.kind].kind

    def _allocations(self) -> None:
        blocks = []
        for rows in self._records("memory_allocation"):
            self._calls(rows, "memory_allocation")
            names = [self._operation(one) or "" for one in rows]
            frame = self._frame(rows, "memory_allocation", {
                "key": ([_address(one.address) for one in rows], pl.String),
                "free": (["FREE" in name for name in names], pl.Boolean),
                "size": ([one.allocation_size for one in rows], "bytes"),
                "device": ([self._agents.get(_key(one.agent_id)) for one in rows], pl.String),
            })
            blocks.append(frame.rename({"end": "at"}))
        self._recording.allocations(blocks)

    def _launches(self) -> None:
        """Add all dispatches, and the counters of those that have any; a dispatch that was replayed for other counters
        is one, and so is one that has no record but that of its counters."""
        counted, lost = _list(self._callbacks.get("counter_collection"), Counted)
        self._read["counter_collection"] += len(counted)
        if lost:
            self._recording.faults.left_out["counter_collection"] += lost
        if not counted:
            for rows in self._records("kernel_dispatch"):
                self._dispatches(rows)
            return
        rows = [one for block in self._records("kernel_dispatch") for one in block]
        recorded = {self._identity(one) for one in rows}
        rows += [one.dispatch_data for one in counted if self._identity(one.dispatch_data) not in recorded]
        passes = self._passes(rows)
        if passes is not None:
            rows = [rows[at] for at in passes.filter("first")["at"].sort()]
        self._dispatches(rows)
        replayed = passes if passes is not None else self._passes([one.dispatch_data for one in counted])
        self._counted(counted, None if replayed is None else self._places(rows))

    def _identity(self, one: Record) -> tuple[str | None, int | None]:
        about = one.dispatch_info
        return (None, None) if about is None else (self._agents.get(_key(about.agent_id)), _id(about.dispatch_id))

    def _places(self, rows: list[Record]) -> pl.DataFrame:
        """``device dispatch_id start at`` of dispatches; ``at`` is the place in the list."""
        devices, numbers = zip(*map(self._identity, rows), strict=True)
        return pl.DataFrame([
            pl.Series("device", devices, dtype=pl.String), pl.Series("dispatch_id", numbers, dtype=pl.Int64),
            series("start", [one.start_timestamp for one in rows], "ns", Faults(), ""),
        ]).with_row_index("at")

    def _passes(self, rows: list[Record]) -> pl.DataFrame | None:
        return first_passes(self._places(rows), ["device", "dispatch_id"], self._recording.faults) if rows else None

    def _counted(self, records: list[Counted], first: pl.DataFrame | None) -> None:
        """Add the counters of dispatches; of those that were replayed at the start of the ``first``."""
        samples = [
            (number, *self._identity(one.dispatch_data), one.dispatch_data.start_timestamp,
             self._counters.get(_key(value.counter_id)), value.value)
            for number, one in enumerate(records) if one.dispatch_data.dispatch_info for value in one.records
        ]
        if not samples:
            return
        places, devices, numbers, times, metrics, measured = zip(*samples, strict=True)
        faults, table = self._recording.faults, "counter_collection"
        frame = pl.DataFrame([
            pl.Series("record", places), pl.Series("device", devices, dtype=pl.String),
            pl.Series("dispatch_id", numbers, dtype=pl.Int64), series("ts_ns", times, "ns", Faults(), table),
            pl.Series("metric", metrics, dtype=pl.String), series("value", measured, "real", faults, table),
        ])
        launch = ["ts_ns", "device", "dispatch_id", "metric"]
        summed = frame.drop_nulls("value").group_by("record", *launch, maintain_order=True).agg(pl.col("value").sum())
        if first is not None:  # the same counter of several passes was measured once in each
            starts = first.drop_nulls("dispatch_id").unique(["device", "dispatch_id"], keep="first").select(
                "device", "dispatch_id", ts_ns="start")
            summed = summed.drop("ts_ns").join(
                starts, on=["device", "dispatch_id"], how="left", nulls_equal=True, maintain_order="left",
            ).group_by(launch, maintain_order=True).agg(pl.col("value").mean())
        self._recording.counters(summed.with_columns(unit=pl.lit("")), "counter_collection")


def _key(handle: Handle) -> int | None:
    """What an id refers to; None if it is no whole number."""
    return handle.handle if type(handle.handle) is int else _id(handle.handle)


def _address(value: Any) -> str | None:
    """An address as text; it may be recorded as a number, as text, or as an object that wraps either."""
    if isinstance(value, dict):
        value = value.get("handle", value.get("value"))
    return str(value) if isinstance(value, (int, str)) else None
