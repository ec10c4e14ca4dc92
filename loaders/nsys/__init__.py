"""Nsight Systems exports (``nsys export --type sqlite`` or ``parquetdir``), of every schema since 2020.

This module only recognises them, and is imported whenever a file is opened; ``read`` does the rest. Both kinds have the
same tables and columns, so everything but reading rows is shared.
"""

from __future__ import annotations

from pathlib import Path

from ..ingest import stream
from ..loader import FormatLoader
from .report import ENDINGS

STRINGS = "StringIds.parquet"
_MARKS = (
    b"CUPTI_ACTIVITY_KIND_", b"NVTX_EVENTS", b"OSRT_API", b"ENUM_NSYS_EVENT_TYPE", b"META_DATA_EXPORT",
    b"TARGET_INFO_GPU", b"COMPOSITE_EVENTS",
)


class NsightSystems(FormatLoader):
    """The loader of Nsight Systems exports."""

    name = "nsys"
    title = "Nsight Systems SQLite export (.sqlite): kernels, graphs, copies, NVTX, CUDA and system calls, GPU metrics"
    suffixes = (".sqlite", ".db", ".nsys-rep.sqlite")
    version = 5
    reader = "read"
    fills = ("kernels", "host", "metrics", "call_chains")

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with tables that only this exporter writes."""
        return head.startswith(stream.SQLITE) and b"StringIds" in head and any(mark in head for mark in _MARKS)

    def leads(self, path: Path) -> bool:
        """Whether the report it was exported from is not in the same folder."""
        stem = path.name.removesuffix(".sqlite")
        return not any(path.with_name(stem + end).is_file() for end in ("", *ENDINGS) if stem + end != path.name)


class NsightParquet(FormatLoader):
    """The loader of Parquet exports."""

    name = "nsys-parquet"
    title = "Nsight Systems Parquet export (the folder of nsys export --type parquetdir, or a file in it)"
    suffixes = (".parquet",)
    version = 4
    reader = "read:load_parquet"
    fills = ("kernels", "host", "metrics", "call_chains")
    named = (STRINGS, "_KIND_KERNEL.parquet", "_KIND_MEMCPY.parquet", "_KIND_MEMSET.parquet", "_KIND_RUNTIME.parquet",
             "NVTX_EVENTS.parquet", "OSRT_API.parquet")
    directory_file = STRINGS  # present in every export
    one_recording = True

    def sniff(self, head: bytes) -> bool:
        """Never: any table can be a Parquet file, so exports are recognised by file name."""
        return False

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The other Parquet files of the folder, one per table."""
        return tuple(sorted(file for file in path.parent.glob("*.parquet") if file != path and file.is_file()))

    def leads(self, path: Path) -> bool:
        """Whether it is the table of strings, which every export has."""
        return path.name == STRINGS


LOADER, PARQUET = NsightSystems(), NsightParquet()
