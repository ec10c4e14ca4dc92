"""AMD's CSV files: their names, their header lines, and their rows as frames of text.

Imported whenever a file is recognised, so polars is imported only where rows are read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .. import csv_table
from ..errors import Unreadable
from ..ingest.stream import Source, line_blocks
from ..recording.faults import Faults

if TYPE_CHECKING:
    import polars as pl

COUNTERS, TIMES, SYSTEM = "pmc_perf.csv", "timestamps.csv", "sysinfo.csv"
LEVELS = ("SQ_LEVEL_WAVES.csv", "SQ_IFETCH_LEVEL.csv")
"""The files of a rocprofiler-compute workload. Level counters are collected in separate passes, so have own files."""
COLUMNS = (
    "index", "kernelname", "gpu-id", "queue-id", "queue-index", "pid", "tid", "grd", "wgr", "lds", "scr", "vgpr",
    "sgpr", "fbar", "sig", "obj", "dispatchns", "beginns", "endns", "completens", "durationns",
)
"""The columns of a file without a header: rocprof with ``--timestamp on`` and without counters."""
_ROCPROF = frozenset({"index", "kernelname", "gpu-id", "beginns", "endns"})
_TIMES = {"start_timestamp", "end_timestamp"}
TABLES: dict[str, frozenset[str]] = {
    "counters": frozenset({"counter_name", "counter_value", "kernel_name", "dispatch_id", *_TIMES}),
    "kernels": frozenset({"kind", "agent_id", "kernel_name", *_TIMES}),
    "copies": frozenset({"direction", "source_agent_id", "destination_agent_id", *_TIMES}),
    "calls": frozenset({"domain", "function", *_TIMES}),
    "memory": frozenset({"kind", "operation", "agent_id", *_TIMES}),
    "statistics": frozenset({"name", "calls", "totaldurationns", "averagens", "percentage"}),
    "agents": frozenset({"node_id", "logical_node_id", "agent_type"}),
}
"""Table → columns its header must have, in lower case (a later version writes ``Lds_Block_Size`` for ``LDS_…``)."""


def columns(head: bytes) -> list[str]:
    """The column names of the first line, in lower case; [] if the line is binary."""
    line = head.split(b"\n", 1)[0].strip()
    if b"\0" in line:
        return []
    return [cell.replace('"', "").strip().lower() for cell in line.decode("utf-8", "replace").split(",")]


def table_of(head: bytes) -> str | None:
    """The table a file holds, a key of ``TABLES``; None if it is none of them."""
    have = set(columns(head))
    return next((table for table, needed in TABLES.items() if needed <= have), None)


def has_header(head: bytes) -> bool:
    """Whether the first line is the header of rocprof results with timestamps."""
    return set(columns(head)) >= _ROCPROF


_COUNTED = frozenset({"index", "kernelname", "gpu-id"})


def files_of_program(path: Path) -> tuple[Path, ...]:
    """The other outputs of a rocprof (v1) program in the folder of its results: totals, and counters without times."""
    if not has_header(_first_line(path)):
        return ()
    try:
        files = sorted(file for file in path.parent.glob("*.csv") if file != path and file.is_file())
    except OSError:
        return ()
    return tuple(file for file in files if _is_of_program(file, path))


TOTALS = re.compile(r"\.(?:[a-z]+_)?stats\.csv\Z")
"""Names of rocprof's totals: results.stats.csv of kernels, results.hip_stats.csv and others of calls and copies."""


def _is_of_program(file: Path, results: Path) -> bool:
    if TOTALS.search(file.name):
        return file.name.startswith(f"{results.name.removesuffix('.csv')}.") or len(
            list(results.parent.glob("*.stats.csv"))) == 1
    have = set(columns(_first_line(file)))
    return have >= _COUNTED and "beginns" not in have


def _first_line(path: Path) -> bytes:
    try:
        with Source(path) as source:
            return source.read(8192)
    except OSError:
        return b""


_MEMBER = re.compile(
    r"(?P<prefix>.+?)_(?:(?:kernel|memory_copy|memory_allocation|scratch_memory|regions?|marker(?:_api)?|ompt|kfd"
    r"|(?:hip|hsa|rccl|rocdecode|rocjpeg)(?:_[a-z]+){0,3})_trace|counter_collection|agent_info|[a-z_]+_stats)\.csv(?:\.gz|\.zst)?"
)
_MOST_JOINED = 4  # Maximum number of blocks joined to reach a closing quote.


def run_of(path: Path) -> str | None:
    """The prefix shared by the files of one rocprofv3 run; None for a name without one."""
    match = _MEMBER.fullmatch(path.name)
    return match and match["prefix"]


def files_of_run(path: Path) -> tuple[Path, ...]:
    """The other files of the same rocprofv3 run: same folder, same prefix."""
    if _PASS.fullmatch(path.parent.name):
        return _other_passes(path)
    prefix = run_of(path)
    if prefix is None:
        return ()
    try:
        files = sorted(file for file in path.parent.iterdir() if file.name.startswith(prefix))
    except OSError:
        return ()
    return tuple(file for file in files if run_of(file) == prefix and file.name != path.name and file.is_file())


def files_beside(path: Path, files: Collection[Path]) -> list[Path]:
    """The CSV files named after the run of ``path`` that are none of ``files``: tables that no reader knows."""
    prefix = run_of(path)
    try:
        return [] if prefix is None else sorted(
            one for one in path.parent.iterdir() if one not in files and one.name.startswith(f"{prefix}_")
            and run_of(one) is None and ".csv" in one.suffixes and one.is_file())
    except OSError:
        return []


def unread_beside(path: Path, files: Collection[Path]) -> dict[str, int]:
    """Name → rows of the CSV files in a program's own folder that are not read with ``path``."""
    try:
        others = sorted(one for one in path.parent.iterdir() if ".csv" in one.suffixes and one.is_file())
    except OSError:
        return {}
    return {one.name: rows for one in others if one != path and one not in files and (rows := rows_of(one))}


def rows_of(path: Path) -> int:
    """The lines of a table below its heading; 0 if it cannot be read."""
    try:
        with Source(path) as source:
            ends = sum(block.count(b"\n") for block in iter(lambda: source.read(1 << 20), b""))
    except (OSError, Unreadable):
        return 0
    return max(ends - 1, 0)


_PASS = re.compile(r"pmc_(\d{1,6})")


def pass_of(path: Path) -> int | None:
    """The number of the pass whose folder, ``pmc_N``, a file is in; None for other files."""
    match = _PASS.fullmatch(path.parent.name)
    return int(match[1]) if match else None


def _other_passes(path: Path) -> tuple[Path, ...]:
    """The other tables of a program that ran once per set of counters: those of its folder and of its sisters."""
    try:
        folders = [one for one in path.parent.parent.iterdir() if _PASS.fullmatch(one.name) and one.is_dir()]
        files = [file for folder in folders for file in folder.iterdir() if run_of(file) is not None and file.is_file()]
    except OSError:
        return ()
    return tuple(sorted((file for file in files if file != path), key=lambda file: (pass_of(file) or 0, file.name)))


def files_of_workload(path: Path) -> tuple[Path, ...]:
    """The files read with a file of a rocprofiler-compute workload: ``sysinfo.csv`` and, with ``pmc_perf.csv`` or
    ``timestamps.csv``, the other of the two and the files of level counters."""
    names = {COUNTERS: (TIMES, SYSTEM, *LEVELS), TIMES: (COUNTERS, SYSTEM, *LEVELS)}.get(path.name, (SYSTEM,))
    return tuple(path.with_name(name) for name in names if path.with_name(name).is_file())


def frames(
    source: Source, size: int = 8 << 20, header: list[str] | None = None, faults: Faults | None = None,
    table: str = "the table",
) -> Iterator[pl.DataFrame]:
    """Rows as text, a block at a time, under lower-case column names; nothing if the first line has none. ``faults``
    counts, under ``table``, rows with more cells than headings, which are left out.

    ``header`` names the columns of a file without a header. Blocks end at a line break outside quotes, because the text
    of a marker may contain line breaks.
    """
    import polars as pl

    for block in _whole_rows(source, size):
        if header is None:
            header = columns(block)
            if not header:
                return
            cut = block.find(b"\n") + 1
            block = block[cut:] if cut else b""
            header = [name if header.index(name) == at else f"{name} ({at})" for at, name in enumerate(header)]
        if block.strip():
            rows = csv_table.read(block, header, faults=faults, table=table)
            if rows.columns != header and rows.width == len(header):  # a damaged header may be parsed differently
                rows.columns = header
            yield rows.filter(~pl.all_horizontal(pl.all().is_null()))


def _whole_rows(source: Source, size: int) -> Iterator[bytes]:
    waiting, joined = b"", 0
    for block in line_blocks(source, size):
        waiting, joined = waiting + block, joined + 1
        if waiting.count(b'"') % 2 == 0 or joined == _MOST_JOINED:
            yield waiting
            waiting, joined = b"", 0
    if waiting:
        yield waiting
