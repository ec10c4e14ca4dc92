"""Reports of ``nsys stats``, as CSV or as the columns it prints: launches, host calls and ranges, or sums of them.

A report may follow notices of the tool, and one file may hold several reports, each with a header of its own; where one
comes a second time, another recording begins. This module only recognises them; ``read`` does the rest.
"""

from __future__ import annotations

from ..loader import FormatLoader
from .reports import reports_in


class NsysStats(FormatLoader):
    """The loader of reports of ``nsys stats``."""

    name = "nsys-stats"
    title = ("nsys stats, CSV or columns: launches, calls and ranges (cuda_gpu_trace, cuda_api_trace, "
             "nvtx_pushpop_trace) or sums (kernels, copies, API, OS runtime, NVTX)")
    suffixes = (".csv", ".txt")
    version = 3
    reader = "read"
    fills = ("kernels", "host", "kernel_stats", "host_stats")

    def sniff(self, head: bytes) -> bool:
        """The header of one of the reports we read, at the start of a line."""
        return any(report.kind for report in reports_in(head))


LOADER = NsysStats()
