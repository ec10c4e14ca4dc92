"""What the files are called and what their first lines hold, for whoever recognises them and whoever reads them."""

from __future__ import annotations

COUNTERS, TIMES, SYSTEM = "pmc_perf.csv", "timestamps.csv", "sysinfo.csv"
"""The files of a workload of rocprofiler-compute."""
COLUMNS = (
    "index", "kernelname", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr", "vgpr",
    "sgpr", "fbar", "sig", "obj", "dispatchns", "beginns", "endns", "completens", "durationns",
)
"""What the columns are where no header says it: rocprof with ``--timestamp on`` and without counters."""
_ROCPROF = frozenset({"index", "kernelname", "gpu-id", "beginns", "endns"})
_TIMES = {"start_timestamp", "end_timestamp"}
TABLES: dict[str, frozenset[str]] = {
    "counters": frozenset({"counter_name", "counter_value", "kernel_name", "dispatch_id", *_TIMES}),
    "kernels": frozenset({"kind", "agent_id", "kernel_name", *_TIMES}),
    "copies": frozenset({"direction", "source_agent_id", "destination_agent_id", *_TIMES}),
    "calls": frozenset({"domain", "function", *_TIMES}),
    "memory": frozenset({"kind", "operation", "agent_id", *_TIMES}),
    "statistics": frozenset({"name", "calls", "totaldurationns", "averagens", "percentage"}),
    "agents": frozenset({"node_id", "logical_node_id", "agent_type"}),
}
"""Table → columns its header must have, in lower case (a later version writes ``Lds_Block_Size`` for ``LDS_…``)."""


def columns(head: bytes) -> list[str]:
    """The header's names in lower case; [] where the first line is none."""
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip()
    if b"\0" in line:
        return []
    return [cell.replace('"', "").strip().lower() for cell in line.decode("utf-8", "replace").split(",")]


def table_of(head: bytes) -> str | None:
    """Which table a file holds; None for what is none of them."""
    have = set(columns(head))
    return next((table for table, needed in TABLES.items() if needed <= have), None)


def has_header(head: bytes) -> bool:
    """Whether the first line names the columns of a results file with timestamps."""
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip()[:8192]
    return {cell.strip().strip('"').lower() for cell in line.decode("utf-8", "replace").split(",")} >= _ROCPROF
