"""The database of Ascend's profiler (``ascend_pytorch_profiler_N.db``, ``msprof_*.db``): recognised here.

``read_database`` reads it. In a folder that has the tables as text too those are opened, which say more.
"""

from __future__ import annotations

from ..ingest import stream
from ..loader import FormatLoader, Job
from ..trace import Trace

_TABLES = (b"COMPUTE_TASK_INFO", b"PYTORCH_API", b"CANN_API", b"COMMUNICATION_OP")


class AscendDatabase(FormatLoader):
    """The loader of the database."""

    name = "ascend-db"
    title = "Ascend profiler database (ascend_pytorch_profiler_N.db, msprof_*.db)"
    suffixes = (".db",)
    version = 2
    fills = ("kernels", "host", "metrics")

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with the texts by number and one of the tables that need them."""
        return head.startswith(stream.SQLITE) and b"STRING_IDS" in head and any(name in head for name in _TABLES)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels``, ``host`` and ``metrics``. Raises Unreadable where SQLite cannot read it."""
        from .read_database import load

        return (load(job),)


LOADER = AscendDatabase()
