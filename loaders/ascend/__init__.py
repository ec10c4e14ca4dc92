"""Ascend profiler output: the tables and the trace in one folder, read as one run.

The folder is recognised by ``kernel_details.csv``, which can also be opened alone. A ``trace_view.json`` without it is
an ordinary Chrome trace, read by ``kineto``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..ingest import stream
from ..loader import FormatLoader
from .files import BESIDE, RANK

COLUMNS = (b"Name", b"Type", b"Start Time(us)", b"Duration(us)")


class Ascend(FormatLoader):
    """The loader of ``ASCEND_PROFILER_OUTPUT``."""

    name = "ascend"
    title = "Ascend profiler output (folder *_ascend_pt or ASCEND_PROFILER_OUTPUT, or kernel_details.csv alone)"
    suffixes = (".csv",)
    version = 5
    fills = ("kernels", "host", "metrics", "cycles", "allocations")
    reader = "read"
    directory_file = "kernel_details.csv"
    directory_within = "ASCEND_PROFILER_OUTPUT"

    def sniff(self, head: bytes) -> bool:
        """The header of any version of ``kernel_details.csv``."""
        header = head.split(b"\n", 1)[0]
        cells = {cell.strip().strip(b'"') for cell in header.split(b",")}
        return cells.issuperset(COLUMNS)

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The other files read with ``kernel_details.csv``, including those of the rank above the folder."""
        beside = [path.with_name(name) for name in BESIDE]
        if path.parent.name == self.directory_within:
            beside += sorted(file for pattern in RANK for file in path.parent.parent.glob(pattern))
        return tuple(file for file in beside if file.is_file()) if path.name == self.directory_file else ()

    def arguments(self, path: Path, offset: int, name: str) -> dict[str, Any]:
        """The arguments of the event in ``trace_view.json``, which the offsets refer to."""
        from ..kineto.recovery import arguments

        return arguments(path.with_name("trace_view.json"), offset, name)


_TABLES = (b"COMPUTE_TASK_INFO", b"PYTORCH_API", b"CANN_API", b"COMMUNICATION_OP")


class AscendDatabase(FormatLoader):
    """The loader of the database (``ascend_pytorch_profiler_N.db``, ``msprof_*.db``).

    If a folder also has the text tables, those are opened instead: they contain more.
    """

    name = "ascend-db"
    title = "Ascend profiler database (ascend_pytorch_profiler_N.db, msprof_*.db)"
    suffixes = (".db",)
    version = 3
    fills = ("kernels", "host", "metrics")
    reader = "read_database"

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with the table of string ids and one of the tables that use it."""
        return head.startswith(stream.SQLITE) and b"STRING_IDS" in head and any(name in head for name in _TABLES)


LOADER, DATABASE = Ascend(), AscendDatabase()
