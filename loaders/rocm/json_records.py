"""The records of rocprofv3's JSON, reduced to the fields that are used; other fields are never decoded.

Everything that may be large or broken stays encoded (``msgspec.Raw``) until it is needed, and numbers are of any type:
``recording.values`` decides what they are.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field


class Handle(Struct):
    """An id wrapped in an object."""

    handle: Any = -1


class Extent(Struct):
    """A grid or a workgroup."""

    x: Any = None
    y: Any = None
    z: Any = None


class Ids(Struct):
    """Correlation ids."""

    internal: Any = None


class Dispatch(Struct):
    """The launch parameters of a kernel."""

    agent_id: Handle = field(default_factory=Handle)
    queue_id: Handle = field(default_factory=Handle)
    kernel_id: int = -1
    dispatch_id: Any = None
    group_segment_size: Any = None
    workgroup_size: Extent = field(default_factory=Extent)
    grid_size: Extent = field(default_factory=Extent)


class Record(Struct):
    """The used fields of buffer records, of all kinds."""

    kind: int = -1
    operation: int = -1
    thread_id: Any = None
    correlation_id: Ids = field(default_factory=Ids)
    start_timestamp: Any = None
    end_timestamp: Any = None
    dispatch_info: Dispatch | None = None
    stream_id: Handle = field(default_factory=Handle)
    src_agent_id: Handle = field(default_factory=Handle)
    dst_agent_id: Handle = field(default_factory=Handle)
    agent_id: Handle = field(default_factory=Handle)
    queue_id: Handle = field(default_factory=Handle)
    bytes: Any = None
    allocation_size: Any = None
    address: Any = None


class Value(Struct):
    """The value of one counter of a dispatch."""

    counter_id: Handle = field(default_factory=Handle)
    value: Any = None


class Counted(Struct):
    """One dispatch with its counters, from ``callback_records``."""

    dispatch_data: Record = field(default_factory=Record)
    records: list[Value] = field(default_factory=list)


class Agent(Struct):
    """A CPU or a GPU."""

    id: Handle = field(default_factory=Handle)
    type: int = 0
    node_id: Any = None
    logical_node_type_id: Any = None
    name: str = ""
    product_name: str = ""
    cu_count: Any = None
    num_xcc: Any = None
    simd_per_cu: Any = None
    wave_front_size: Any = None


class Symbol(Struct):
    """A kernel of a code object."""

    kernel_id: int = -1
    kernel_name: str = ""
    demangled_kernel_name: str = ""
    arch_vgpr_count: Any = None


class Kind(Struct):
    """A kind of record, and the names of its operations."""

    kind: str = ""
    operations: list[str] = field(default_factory=list)


class Counter(Struct):
    """The name of a counter, by its id."""

    id: Handle = field(default_factory=Handle)
    name: str = ""


class MarkerText(Struct):
    """The text of a marker, by correlation id (``key``)."""

    key: int = -1
    value: str = ""


class NameTables(Struct):
    """The tables of names of operations and markers."""

    buffer_records: Raw = field(default_factory=lambda: Raw(b"[]"))
    marker_api: Raw = field(default_factory=lambda: Raw(b"[]"))


class Metadata(Struct):
    """The process id; the rest of the metadata, such as the command line, is not decoded."""

    pid: Any = None


class Process(Struct):
    """One process; fields that may be large or broken stay encoded."""

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
