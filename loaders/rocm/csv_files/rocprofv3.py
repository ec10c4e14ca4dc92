"""CSV files of rocprofv3: one table a file, those of one run beside each other under one prefix.

``run_kernel_trace.csv``, ``run_hip_api_trace.csv`` and their like are one recording: opening one opens them all. A file
whose name is only that of its table has no prefix to tell what belongs to it, and is opened alone. What table a file
holds is told by its header, never by its name.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...loader import FormatLoader, Job
from ...trace import Trace
from .headers import table_of

_MEMBER = re.compile(
    r"(?P<prefix>.+?)_(?:(?:kernel|memory_copy|memory_allocation|scratch_memory|regions?|marker(?:_api)?|ompt|kfd"
    r"|(?:hip|hsa|rccl|rocdecode|rocjpeg)(?:_[a-z]+){0,3})_trace|counter_collection|agent_info|[a-z_]+_stats)\.csv(?:\.gz|\.zst)?"
)


class RocprofCsv(FormatLoader):
    """The loader of rocprofv3's CSV files."""

    name = "rocprofv3-csv"
    title = "rocprofv3 CSV set: kernel, copy, HIP/HSA/RCCL, marker and memory traces, counters; statistics alone"
    suffixes = (".csv", ".csv.gz")
    version = 2
    fills = ("kernels", "host", "metrics", "operators", "kernel_stats")
    one_recording = True
    """The companions of a file are read with it, so a folder that holds them holds one recording."""

    def sniff(self, head: bytes) -> bool:
        """A header of one of the tables that has events, or of a summary."""
        table = table_of(head)
        return table is not None and table != "agents" and b"begin_timestamp" not in head[:4096].lower()

    def leads(self, path: Path) -> bool:
        """Whether a folder is opened by this file rather than by another of its run: not by a summary."""
        return "_stats.csv" not in path.name

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The files of the same run: in the same folder, with the same prefix before the names of their tables."""
        match = _MEMBER.fullmatch(path.name)
        if match is None:
            return ()
        try:
            names = sorted(entry.name for entry in path.parent.iterdir() if entry.name.startswith(match["prefix"]))
        except OSError:
            return ()
        siblings = [name for name in names if (other := _MEMBER.fullmatch(name)) and other["prefix"] == match["prefix"]]
        return tuple(path.with_name(name) for name in siblings if name != path.name and path.with_name(name).is_file())

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace of the file and those beside it. Raises Unreadable where no row has a time."""
        match = _MEMBER.fullmatch(job.path.name)
        label = match["prefix"] if match else job.path.name.split(".")[0]
        from .read_rocprofv3 import load

        return (load(job, label, self.companions(job.path)),)


LOADER = RocprofCsv()
