"""Workloads of rocprofiler-compute (Omniperf): a folder of CSV files, recognised here and read by ``read_compute``.

``pmc_perf.csv`` has every dispatch with all its counters, ``timestamps.csv`` (where there is one) the same dispatches
timed without them, ``sysinfo.csv`` the device's limits. Any of the files with dispatches opens; the two that belong
together are read together. rocprof v2 writes the same columns into a file of its own.
"""

from __future__ import annotations

from pathlib import Path

from ...loader import FormatLoader, Job
from ...trace import Trace
from .headers import COUNTERS, SYSTEM, TIMES

_DISPATCH = frozenset({"dispatch_id", "kernel_name", "gpu_id"})
_NEEDED = _DISPATCH | {"start_timestamp", "end_timestamp"}


class RocprofilerCompute(FormatLoader):
    """The loader of rocprofiler-compute's workloads."""

    name = "rocprofiler-compute"
    title = "rocprofiler-compute (Omniperf) workload folder: kernels with MFMA and HBM utilisation, counters"
    suffixes = (".csv",)
    version = 2
    fills = ("kernels", "metrics")
    directory_file = COUNTERS
    """A folder that holds this file is a workload."""

    def sniff(self, head: bytes) -> bool:
        """A header with dispatches, their GPU and their times; thousands of counters may follow."""
        line, ended, _ = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
        have = {cell.strip().strip('"').lower() for cell in line.decode("utf-8", "replace").split(",")}
        if not ended and len(head) > 60_000:  # a header longer than this: its times may be at its end
            return have >= _DISPATCH and "sq_waves" in have
        return have >= _NEEDED and "counter_name" not in have

    def companions(self, path: Path) -> tuple[Path, ...]:
        """What is read with a file: the machine's description and, with either of the two, the other."""
        names = {COUNTERS: (TIMES, SYSTEM), TIMES: (COUNTERS, SYSTEM)}.get(path.name, (SYSTEM,))
        return tuple(path.with_name(name) for name in names if path.with_name(name).is_file())

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels`` and ``metrics``. Raises Unreadable where no dispatch has a time."""
        from .read_compute import load

        return (load(job, self.companions(job.path)),)


LOADER = RocprofilerCompute()
