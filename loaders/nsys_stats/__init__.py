"""Reports of ``nsys stats``, CSV or printed columns: launches, host calls and ranges, or summaries of them.

Notices of the tool may precede a report, and one file may hold several reports, each with its own header; a repeated
report starts another recording. This module only recognises them; ``read`` does the rest.
"""

from __future__ import annotations

from ..loader import FormatLoader
from .reports import HOST_SUMS, reports_in


class NsysStats(FormatLoader):
    """The loader of reports of ``nsys stats``."""

    name = "nsys-stats"
    title = ("nsys stats, CSV or columns: launches, calls and ranges (cuda_gpu_trace, cuda_api_trace, "
             "nvtx_pushpop_trace) or sums (kernels, copies, API, OS runtime, NVTX)")
    suffixes = (".csv", ".txt")
    version = 7
    named = tuple(f"{report}.csv" for report in HOST_SUMS)
    reader = "read"
    fills = ("kernels", "host", "kernel_stats", "host_stats")

    def sniff(self, head: bytes) -> bool:
        """The header of a supported report, at the start of a line; some are known by their file's name only."""
        return any(report.kind for report in reports_in(head))


LOADER = NsysStats()
