"""rocmProfileData databases (``.rpd``, ``.rpd.gz``): recognised here, read by ``read_rpd``."""

from __future__ import annotations

from ..ingest import stream
from ..loader import FormatLoader, Job
from ..trace import Trace


class RocmProfileData(FormatLoader):
    """The loader of rocmProfileData."""

    name = "rpd"
    title = "rocmProfileData (.rpd, .rpd.gz): kernels, graph tasks, copies, HIP calls, ranges, the monitor's clocks"
    suffixes = (".rpd", ".rpd.gz")
    version = 2
    fills = ("kernels", "host", "metrics")

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with the operations and calls of rocmProfileData, and without the tables of rocpd."""
        return (
            head.startswith(stream.SQLITE) and b"rocpd_op" in head and b"rocpd_api" in head
            and b"rocpd_info_" not in head and b"StringIds" not in head
        )

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels``, ``host`` and ``metrics``. Raises Unreadable where SQLite cannot read it."""
        from .read_rpd import load

        return (load(job),)


LOADER = RocmProfileData()
