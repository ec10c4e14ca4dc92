"""What an export says besides its activities: Nsight's own messages, page faults, and device memory in use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl

from . import lookups
from .database import NsysDatabase

_WARNING, _ERROR = 2, 3
_MOST = 12  # Messages that are told one by one.
_GPU_FAULTS, _CPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
_MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ON_DEVICE = (2, 3, 5)
"""CUPTI's kinds of memory that lie on the device alone: device, array, device static."""
_FREE = 1


def messages(database: NsysDatabase) -> list[str]:
    """Warnings and errors that the profiler itself recorded; equal ones once, with their number."""
    counted = Counter[str]()
    for severity, text in database.rows("DIAGNOSTIC_EVENT", "severity", "text"):
        if severity in (_WARNING, _ERROR):
            kind = "error" if severity == _ERROR else "warning"
            counted[f"Nsight Systems {kind}: {' '.join(str(text).split())[:300]}"] += 1
    sentences = [text if count == 1 else f"{text} ({count} times)" for text, count in counted.items()]
    rest = len(sentences) - _MOST
    return [*sentences[:_MOST], f"{rest} more warnings of Nsight Systems"] if rest > 0 else sentences


def findings(database: NsysDatabase, said: list[str]) -> list[dict[str, Any]]:
    """Findings that the recording itself states: ``rule sentence view``."""
    results = [{"rule": "recorder's message", "sentence": f"{text.rstrip('.')}.", "view": "overview"} for text in said
               if "CUDA" in text or "error" in text]
    if (faults := _page_faults(database)) is not None:
        results.append({"rule": "page faults", "sentence": faults, "view": "copies"})
    return results


def _page_faults(database: NsysDatabase) -> str | None:
    groups = faults = 0
    for rows in database.blocks(_GPU_FAULTS, ("start", "end", "numberOfPageFaults")):
        groups += rows.height
        faults += int(rows["numberOfPageFaults"].sum() or 0)
    host = sum(rows.height for rows in database.blocks(_CPU_FAULTS, ("start",)))
    if not groups and not host:
        return None
    on_gpu = f"{faults or groups:,} GPU page faults in {groups:,} groups" if groups else ""
    on_cpu = f"{host:,} CPU page faults" if host else ""
    return (f"Unified memory: {' and '.join(filter(None, (on_gpu, on_cpu)))}; pages migrate while kernels wait. "
            "Prefetch them (cudaMemPrefetchAsync) or use device memory.")


def allocations(database: NsysDatabase) -> list[pl.DataFrame]:
    """Allocations and frees of device memory (``--cuda-memory-usage``), for ``Recording.allocations``."""
    def build(rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.filter(pl.col("memKind").is_in(_ON_DEVICE) | pl.col("memKind").is_null())
        return rows.select(
            at="start", key=pl.format("{}:{}:{}", lookups.pid("globalPid"), "deviceId", "address"),
            free=pl.col("memoryOperationType") == _FREE, size="bytes", device=pl.format("GPU {}", "deviceId"))

    columns = ("start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType")
    return list(database.blocks(_MEMORY, columns, build=build))
