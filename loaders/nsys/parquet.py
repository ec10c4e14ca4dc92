"""Nsight Systems' exports as a folder of Parquet files (``nsys export --type parquetdir``): a file a table.

Tables and columns are those of the SQLite export, so everything but the reading of rows is shared with it.
"""

from __future__ import annotations

from pathlib import Path

from ..loader import FormatLoader, Job
from ..trace import Trace

STRINGS = "StringIds.parquet"
"""The table that every export has; a folder is known by it."""


class NsightParquet(FormatLoader):
    """The loader of Parquet exports."""

    name = "nsys-parquet"
    title = "Nsight Systems Parquet export (the folder of nsys export --type parquetdir, or a file in it)"
    suffixes = (".parquet",)
    version = 1
    fills = ("kernels", "host", "metrics")
    named = (STRINGS, "_KIND_KERNEL.parquet", "_KIND_MEMCPY.parquet", "_KIND_MEMSET.parquet", "_KIND_RUNTIME.parquet",
             "NVTX_EVENTS.parquet", "OSRT_API.parquet")
    directory_file = STRINGS
    one_recording = True

    def sniff(self, head: bytes) -> bool:
        """Never: any table can be a Parquet file, so exports are known by the names of theirs."""
        return False

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The other tables."""
        return tuple(sorted(file for file in path.parent.glob("*.parquet") if file != path and file.is_file()))

    def leads(self, path: Path) -> bool:
        """Whether it is the table all exports have."""
        return path.name == STRINGS

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels``, ``host`` and ``metrics``. Raises Unreadable where a table is damaged."""
        from .read import load_parquet

        return (load_parquet(job),)


LOADER = NsightParquet()
"""The loader."""
