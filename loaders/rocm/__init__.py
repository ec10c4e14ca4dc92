"""AMD's profilers: rocprofv3 (CSV, JSON, rocpd), rocprof, rocprofiler-compute and rocmProfileData.

This module only recognises files, and is imported whenever one is opened. The ``read_…`` modules read them; all of them
collect rows in a ``recording.Recording``.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from ..ingest import stream
from ..loader import FormatLoader
from .csv_files import (
    COLUMNS,
    COUNTERS,
    columns,
    files_of_program,
    files_of_run,
    files_of_workload,
    has_header,
    table_of,
)


class RocmLoader(FormatLoader):
    """Base of the loaders: by default they fill kernels, host calls and metrics samples."""

    fills: tuple[str, ...] = ("kernels", "host", "metrics")
    version = 8


class RocmProfileData(RocmLoader):
    """The loader of rocmProfileData (``.rpd``, ``.rpd.gz``)."""

    name = "rpd"
    title = "rocmProfileData (.rpd, .rpd.gz): kernels, graph tasks, copies, HIP calls, ranges, the monitor's clocks"
    suffixes = (".rpd", ".rpd.gz")
    reader = "read_rpd"

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with the tables of operations and API calls, and without those of rocpd."""
        return (
            head.startswith(stream.SQLITE) and b"rocpd_op" in head and b"rocpd_api" in head
            and b"rocpd_info_" not in head and b"StringIds" not in head
        )


class Rocpd(RocmLoader):
    """The loader of rocpd databases, written by rocprofv3 and rocprofiler-systems."""

    name = "rocpd"
    title = "rocprofv3 database (rocpd, .db): kernels, copies, HIP/HSA/RCCL calls, markers, counters, allocated memory"
    fills = ("kernels", "host", "metrics", "launch_metrics")
    suffixes = (".db",)
    reader = "read_rocpd"

    def sniff(self, head: bytes) -> bool:
        """An SQLite database with rocpd's tables of kernel dispatches or descriptions, with or without a suffix."""
        return (
            head.startswith(stream.SQLITE) and (b"rocpd_kernel_dispatch" in head or b"rocpd_info_" in head)
            and b"StringIds" not in head
        )


class RocprofJson(RocmLoader):
    """The loader of rocprofv3's JSON (``rocprofiler-sdk-tool``)."""

    name = "rocprofv3-json"
    title = "rocprofv3 JSON (.json, .gz): kernels, copies, HIP/HSA/RCCL calls, markers, counters"
    fills = ("kernels", "host", "metrics", "launch_metrics")
    suffixes = (".json", ".json.gz")
    reader = "read_json"

    def sniff(self, head: bytes) -> bool:
        """An object whose first key is the tool's name."""
        return re.match(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:', head) is not None


class RocprofCsv(RocmLoader):
    """The loader of rocprofv3's CSV files: one table per file; the files of a run share a folder and a name prefix.

    ``run_kernel_trace.csv``, ``run_hip_api_trace.csv`` and so on are one recording: opening one opens them all. A file
    named only after its table has no prefix to match others by, and is opened alone. Which table a file holds is read
    from its header, never from its name.
    """

    name = "rocprofv3-csv"
    title = "rocprofv3 CSV set: kernel, copy, HIP/HSA/RCCL, marker and memory traces, counters; statistics alone"
    suffixes = (".csv", ".csv.gz")
    fills = ("kernels", "host", "metrics", "launch_metrics", "kernel_stats", "host_stats")
    one_recording = True
    reader = "read_rocprofv3"

    def sniff(self, head: bytes) -> bool:
        """The header of a table of events, counters or statistics; a list of agents alone is not enough."""
        return table_of(head) not in (None, "agents") and b"begin_timestamp" not in head[:4096].lower()

    def leads(self, path: Path) -> bool:
        """Whether a folder can be opened through this file: any file but a summary."""
        return "_stats.csv" not in path.name

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The other files of the same run: same folder, same prefix before the table name."""
        return files_of_run(path)


class Rocprof(RocmLoader):
    """The loader of rocprof (v1) results, with a header or, as scripts keep them, without."""

    name = "rocprof"
    title = "rocprof (v1) results CSV with timestamps, with header or without: kernels, counters"
    suffixes = (".csv",)
    fills = ("kernels", "metrics", "launch_metrics")
    one_recording = True
    reader = "read_rocprof"

    def sniff(self, head: bytes) -> bool:
        """The header, or first lines that are all result rows."""
        if has_header(head):
            return True
        lines = [line for line in head.split(b"\n", 5)[:5] if line.strip()]
        complete = lines if len(head) < 65536 or len(lines) < 5 else lines[:-1]
        return bool(complete) and all(map(_is_bare_row, complete[:4]))


    def companions(self, path: Path) -> tuple[Path, ...]:
        """The totals and the counters of the same program, which are read by index or not added at all."""
        return files_of_program(path)


_SIGNAL, _OBJECT, _DISPATCH, _COMPLETE, _DURATION = 14, 15, 16, 19, 20


def _is_bare_row(line: bytes) -> bool:
    """Whether a line is a row of a results file: numbers where they belong, and duration equal to end minus begin."""
    try:
        (cells,) = csv.reader([line.decode("utf-8", "replace").strip()])
        numbers = [int(cells[at]) for at in (0, 2, 5, 6, *range(_DISPATCH, _DURATION + 1))]
    except (csv.Error, ValueError, IndexError):
        return False
    begin, end, duration = numbers[5], numbers[6], numbers[8]
    hexadecimal = cells[_SIGNAL].startswith("0x") and cells[_OBJECT].startswith("0x")
    return len(cells) == len(COLUMNS) and hexadecimal and end - begin == duration


class RocprofilerCompute(RocmLoader):
    """The loader of rocprofiler-compute (Omniperf) workloads, which are folders of CSV files.

    ``pmc_perf.csv`` has every dispatch with all its counters, ``timestamps.csv`` (optional) the same dispatches timed
    without counters, ``sysinfo.csv`` the device's limits. Any file with dispatches can be opened; the first two are
    read together. rocprof v2 writes the same columns to a single file.
    """

    name = "rocprofiler-compute"
    title = "rocprofiler-compute (Omniperf) workload folder: kernels with MFMA and HBM utilisation, counters"
    suffixes = (".csv",)
    version = 7
    fills = ("kernels", "metrics", "launch_metrics")
    directory_file = COUNTERS
    reader = "read_compute"

    def sniff(self, head: bytes) -> bool:
        """A header with the dispatch id, kernel name, GPU and times; thousands of counters may follow."""
        have, needed = set(columns(head)), {"dispatch_id", "kernel_name", "gpu_id"}
        if b"\n" not in head and len(head) > 60_000:  # header longer than ``head``: times may be last
            return have >= needed and "sq_waves" in have
        return have >= needed | {"start_timestamp", "end_timestamp"} and "counter_name" not in have

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The files read with this one: ``sysinfo.csv``, and those that go with ``pmc_perf.csv`` or its times."""
        return files_of_workload(path)


RPD, ROCPD, JSON, CSV, ROCPROF, COMPUTE = (
    RocmProfileData(), Rocpd(), RocprofJson(), RocprofCsv(), Rocprof(), RocprofilerCompute(),
)
