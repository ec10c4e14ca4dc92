"""Finds the reports in an ``nsys stats`` file: their positions, their kinds, and their rows as text.

Times and sizes carry their unit in the header (``--timeunit``), and headers changed over the years (``Start(nsec)`` in
2020, ``Start (ns)`` now), so columns are matched by name without the unit. Printed reports have a line of dashes under
the header, which gives the column widths.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_CSV = re.compile(rb'(?m)^"?(?:Start ?\(|Time ?\(%\)|Total ?\([kKMG]?i?B\),|Range,Style,Total Proj)[^\r\n]*')
_PRINTED = re.compile(rb"(?m)^( *(?:Start|Time|Total)\b[^\r\n]*)\r?\n( *-{3,}(?: {1,4}-{3,})+) *\r?$")
_UNIT = re.compile(r"\(([^()]*)\)\s*$")
_TITLE = re.compile(rb"\(([a-z][a-z_0-9:]+)\):|'([a-z][a-z_0-9:]+)' stats report")
_END = re.compile(rb"\r?\n(?:[ \t]*\r?(?:\n|\Z)| ?\*\* )")  # an empty line, or the next report's title
REPORTS = (
    "cuda_api_gpu_sum cuda_api_sum cuda_api_trace cuda_gpu_kern_gb_sum cuda_gpu_kern_sum cuda_gpu_mem_size_sum "
    "cuda_gpu_mem_time_sum cuda_gpu_sum cuda_gpu_trace cuda_kern_exec_sum cuda_kern_exec_trace dx11_pix_sum "
    "dx12_gpu_marker_sum dx12_pix_sum mpi_event_sum mpi_event_trace mpi_msg_size_sum network_congestion "
    "nvtx_gpu_proj_sum nvtx_gpu_proj_trace nvtx_kern_sum nvtx_pushpop_sum nvtx_pushpop_trace nvtx_startend_sum "
    "nvtx_sum nvvideo_api_sum openacc_sum opengl_khr_gpu_range_sum opengl_khr_range_sum openmp_sum osrt_sum "
    "syscall_sum um_cpu_page_faults_sum um_sum um_total_sum vulkan_api_sum vulkan_api_trace vulkan_gpu_marker_sum "
    "vulkan_marker_sum wddm_queue_sum apigpusum cudaapisum cudaapitrace gpukerngbsum gpukernsum gpumemsizesum "
    "gpumemtimesum gpusum gputrace kernexecsum kernexectrace mpievtsum nvtxgpuproj nvtxkernsum nvtxppsum nvtxpptrace "
    "nvtxsssum nvtxsum openaccsum openmpevtsum osrtsum pixsum umcpupagefaults umsum umtotalsum vulkanapisum "
    "vulkanapitrace vulkangpumarkersum vulkanmarkerssum khrdebuggpusum khrdebugsum"
).split()
"""Every report of `nsys stats --help-reports`, and the names of those before 2023."""
_FILE = re.compile(rf"(?:^|[_.\-])({'|'.join(sorted(REPORTS, key=len, reverse=True))})(?:[_.\-](?:base|nvtx)?)?[_\w]*\."
                   r"(?:csv|txt|tsv)(?:\.\w+)?$")
COUNTS = ("instances", "count", "operations")  # Names of a summary's column of counts.
HOST_SUMS = {
    "mpi_event_sum": "mpi", "mpievtsum": "mpi", "openmp_sum": "openmp", "openmpevtsum": "openmp",
    "openacc_sum": "openacc", "openaccsum": "openacc", "osrt_sum": "os", "osrtsum": "os", "syscall_sum": "os",
}
"""Name of a report about the host → the kind of its calls."""
OTHER_SUMS = frozenset((
    "vulkan_api_sum", "vulkanapisum", "vulkan_gpu_marker_sum", "vulkangpumarkersum", "vulkan_marker_sum",
    "vulkanmarkerssum", "opengl_khr_gpu_range_sum", "khrdebuggpusum", "opengl_khr_range_sum", "khrdebugsum",
    "dx11_pix_sum", "dx12_gpu_marker_sum", "dx12_pix_sum", "wddm_queue_sum", "nvtx_gpu_proj_sum", "nvtx_kern_sum",
))  # fmt: skip
"""Reports of graphics and of ranges projected on the device, which no table of a trace holds."""
Columns = dict[str, tuple[str, str]]
"""Plain name ('start', 'total time') → the column's name as written, and its unit."""


class StatsReport(NamedTuple):
    """One report: its kind ('' if it is not read), its columns, and the position of its text.

    ``title`` is its name if the tool printed one; ``spans`` are the column extents of a printed report, empty for CSV.
    """

    kind: str
    title: str
    columns: Columns
    start: int
    end: int
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def same(self) -> tuple[str, ...]:
        """A key that is equal for the same report of two recordings."""
        return (self.title, *self.columns)


def title_of(file_name: str) -> str:
    """The name of the report that a file is named after; '' if it is named after none."""
    match = _FILE.search(file_name.lower())
    return match[1] if match else ""


def reports_in(text: bytes, file_name: str = "") -> list[StatsReport]:
    """All reports, in file order. A report without a title is the one that its file is named after."""
    named = title_of(file_name)
    headers = [(one.start(), one.end(), one) for one in _CSV.finditer(text) if b"  " not in one.group().strip()]
    headers += [(one.start(), one.end(), one) for one in _PRINTED.finditer(text)]
    headers.sort(key=lambda one: one[0])
    reports, before = [], 0
    for number, (start, end, header) in enumerate(headers):
        if start < before:
            continue
        limit = headers[number + 1][0] if number + 1 < len(headers) else len(text)
        titles = _TITLE.findall(text, before, start)
        title = next((cell.decode() for cell in titles[-1] if cell), "") if titles else named
        blank = _END.search(text, end, limit)
        stop = blank.start() if blank else limit
        if header.re is _PRINTED:
            rules = re.finditer(rb"-+", header[2])
            spans = tuple((rule.start(), rule.end()) for rule in rules)
            written = _printed_cells(header[1].decode("utf-8", "replace"), spans)
            columns = _columns(written)
            reports.append(StatsReport(_kind(columns, title), title, columns, end, stop, spans))
        else:
            columns = _columns(header.group().decode("utf-8", "replace").split(","))
            reports.append(StatsReport(_kind(columns, title), title, columns, start, stop))
        before = stop
    return reports


def recordings(reports: list[StatsReport]) -> list[list[StatsReport]]:
    """The reports of each recording; a repeated report starts the next recording."""
    runs: list[list[StatsReport]] = []
    for report in reports:
        if not runs or report.same in {one.same for one in runs[-1]}:
            runs.append([])
        runs[-1].append(report)
    return runs


def printed_rows(text: bytes, report: StatsReport) -> list[list[str]]:
    """The cells of a printed report, line by line."""
    lines = text[report.start : report.end].decode("utf-8", "replace").splitlines()
    return [_printed_cells(line, report.spans) for line in lines if line.strip()]


def _printed_cells(line: str, spans: tuple[tuple[int, int], ...]) -> list[str]:
    """The cells of a line; text beyond the last column's dashes belongs to the last cell."""
    return [line[start:end].strip() for start, end in spans[:-1]] + [line[spans[-1][0] :].strip()]


def _columns(written: list[str]) -> Columns:
    columns: Columns = {}
    for one in written:
        one = one.strip().strip('"')
        unit = _UNIT.search(one)
        plain = _UNIT.sub("", one).strip().lower()
        columns.setdefault(plain, (one, unit[1].lower() if unit else ""))
    return columns


def _kind(columns: Columns, title: str) -> str:
    """The kind of a report, '' if it is not read."""
    have = columns.keys()
    host = HOST_SUMS.get(title) or ("mpi" if "source" in have and not title else None)
    if {"start", "duration", "name"} <= have:
        if "strm" in have:
            return "launches"
        if {"rangeid", "rangestack", "lvl"} & have:
            return "ranges"
        return "calls" if {"corrid", "result", "pid", "tid"} & have else ""
    if "total" in have and "operation" in have and "count" in have:
        return "size sums"
    if "total time" not in have:
        return ""
    if "category" in have:
        return "mixed sums" if "operation" in have and "instances" in have else ""
    if title in OTHER_SUMS:
        return ""
    counted = any(count in have for count in COUNTS)
    if host is not None and "name" in have and (counted or "num calls" in have):
        return "call sums"
    if "num calls" in have:
        return "call sums" if "name" in have else ""
    if "range" in have:
        return "range sums" if "instances" in have else ""
    if "operation" in have:
        return "sums" if counted else ""
    # an unknown table of names and totals may be anything: only the report of kernels counts instances
    return "sums" if {"name", "instances"} <= have else ""
