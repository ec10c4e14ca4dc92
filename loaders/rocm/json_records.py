"""The records of rocprofv3's JSON, as far as they are used: what is not named here is never built.

Everything that may be large or broken stays as text (``msgspec.Raw``) until it is asked for.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field


class Handle(Struct):
    """An id wrapped in an object."""

    handle: int = -1


class Extent(Struct):
    """A grid or a workgroup."""

    x: int | None = None
    y: int | None = None
    z: int | None = None


class Ids(Struct):
    """Correlation ids."""

    internal: int | None = None


class Dispatch(Struct):
    """What a kernel was dispatched with."""

    agent_id: Handle = field(default_factory=Handle)
    queue_id: Handle = field(default_factory=Handle)
    kernel_id: int = -1
    dispatch_id: int | None = None
    group_segment_size: int | None = None
    workgroup_size: Extent = field(default_factory=Extent)
    grid_size: Extent = field(default_factory=Extent)


class Record(Struct):
    """The fields of all kinds of buffer records that are used."""

    kind: int = -1
    operation: int = -1
    thread_id: int | None = None
    correlation_id: Ids = field(default_factory=Ids)
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    dispatch_info: Dispatch | None = None
    stream_id: Handle = field(default_factory=Handle)
    src_agent_id: Handle = field(default_factory=Handle)
    dst_agent_id: Handle = field(default_factory=Handle)
    agent_id: Handle = field(default_factory=Handle)
    queue_id: Handle = field(default_factory=Handle)
    bytes: int | None = None
    allocation_size: int | None = None
    address: Any = None


class Value(Struct):
    """One counter of a dispatch."""

    counter_id: Handle = field(default_factory=Handle)
    value: float | None = None


class Counted(Struct):
    """One dispatch with its counters, from ``callback_records``."""

    dispatch_data: Record = field(default_factory=Record)
    records: list[Value] = field(default_factory=list)


class Agent(Struct):
    """A processor or a device."""

    id: Handle = field(default_factory=Handle)
    type: int = 0
    node_id: int | None = None
    logical_node_type_id: int | None = None
    name: str = ""
    product_name: str = ""
    cu_count: int | None = None
    num_xcc: int | None = None
    simd_per_cu: int | None = None
    wave_front_size: int | None = None


class Symbol(Struct):
    """A kernel of a code object."""

    kernel_id: int = -1
    kernel_name: str = ""
    demangled_kernel_name: str = ""
    arch_vgpr_count: int | None = None


class Kind(Struct):
    """A kind of record, and the names of its operations."""

    kind: str = ""
    operations: list[str] = field(default_factory=list)


class Counter(Struct):
    """A counter by its id."""

    id: Handle = field(default_factory=Handle)
    name: str = ""


class MarkerText(Struct):
    """What the program said at a mark, by correlation id."""

    key: int = -1
    value: str = ""


class NameTables(Struct):
    """The tables of names."""

    buffer_records: Raw = field(default_factory=lambda: Raw(b"[]"))
    marker_api: Raw = field(default_factory=lambda: Raw(b"[]"))


class Metadata(Struct):
    """Of the process only its id: the command line is beside it."""

    pid: int | None = None


class Process(Struct):
    """One process: everything that may be large or broken stays as text."""

    metadata: Raw = field(default_factory=lambda: Raw(b"{}"))
    agents: Raw = field(default_factory=lambda: Raw(b"[]"))
    counters: Raw = field(default_factory=lambda: Raw(b"[]"))
    strings: Raw = field(default_factory=lambda: Raw(b"{}"))
    kernel_symbols: Raw = field(default_factory=lambda: Raw(b"[]"))
    callback_records: Raw = field(default_factory=lambda: Raw(b"{}"))
    buffer_records: Raw = field(default_factory=lambda: Raw(b"{}"))


class RocprofDocument(Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    """The whole file."""

    processes: list[Process] = field(default_factory=list)
