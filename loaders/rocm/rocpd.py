"""rocpd databases of rocprofv3 (and rocprofiler-systems): recognised here, read by ``read_rocpd``."""

from __future__ import annotations

from ..ingest import stream
from ..loader import FormatLoader, Job
from ..trace import Trace


class Rocpd(FormatLoader):
    """The loader of rocpd databases."""

    name = "rocpd"
    title = "rocprofv3 database (rocpd, .db): kernels, copies, HIP/HSA/RCCL calls, markers, counters, allocated memory"
    suffixes = (".db",)
    version = 2
    fills = ("kernels", "host", "metrics")

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with the tables that describe agents and dispatches, with a suffix or without."""
        return (
            head.startswith(stream.SQLITE) and (b"rocpd_kernel_dispatch" in head or b"rocpd_info_" in head)
            and b"StringIds" not in head
        )

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels``, ``host`` and ``metrics``. Raises Unreadable where SQLite cannot read it."""
        from .read_rocpd import load

        return (load(job),)


LOADER = Rocpd()
