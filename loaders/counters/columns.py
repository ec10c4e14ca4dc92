"""The roles of the columns of a counter CSV: time, device, process, counter, or text that is ignored.

``family`` decides a file's family from its first bytes, in one place, so that no two loaders claim the same file.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from .. import csv_table
from ..recording.faults import Faults
from . import quantities

_SEPARATORS = (",", ";", "\t")
_TIMES = frozenset("timestamp time ts date datetime time_stamp sample_time epoch unix_time unixtime walltime wall_time "
                   "elapsed elapsed_time time_elapsed @timestamp _time timestamps utc".split())
_TIME = re.compile(
    r"^(?:timestamp|time|ts|elapsed|epoch|unix_?time)[ _]*(?:\(|\[)?(ns|us|µs|ms|s|sec|secs|seconds)?[\])]?$"
)
_DEVICES = frozenset("index gpu gpu_id gpu_index gpuid gpu_idx device device_id device_index card idx gpu_name_index "
                     "minor_number gpu_num".split())
_NAMED = frozenset("uuid gpu_uuid pci.bus_id gpu_bus_id pci_bus_id bdf gpu_bdf serial gpu_serial".split())
_PROCESSES = frozenset(("pid", "process_id"))
_PRODUCTS = frozenset(("name", "gpu_name", "gpu_product", "product_name", "card series", "model"))
_METRICS = frozenset("metric metric_name counter counter_name series measurement field _field variable key".split())
_VALUES = frozenset(("value", "_value", "val", "metric_value", "counter_value"))
_EVENTS = frozenset(
    "start end begin duration dur start_time end_time start_timestamp end_timestamp start_ns end_ns dur_ns duration_ns "
    "kernel kernel_name function command dispatch_id correlation_id exec_mask op_name stack call_stack count calls avg "
    "average".split()
)
"""Column names of event tables and summaries, which tables of samples do not have."""

_NVIDIA = re.compile(
    r"^(?:utilization\.\w|memory\.(?:total|used|free|reserved)|clocks?\.|clocks_|temperature\.|power\.|pcie\.link|"
    r"fan\.speed|encoder\.stats|ecc\.|used_gpu_memory|used_memory|gpu_bus_id)"
)
_AMD = re.compile(
    r"^(?:gpu use|temperature \(sensor|average graphics package power|current socket graphics|vram|gpu memory|"
    r"[smf]clk clock|hotspot_temp|memory_temp|gfx_|gfx$|mem_clock|mem%?$|power_usage|socket_power|temperature_hotspot|"
    r"temperature_edge|average_socket_power|pcie_bw|xcp|umc_activity|enc|energy|mm_activity|"
    r"(?:total|used|free)_(?:visible_)?(?:vram|gtt)|uclk|fclk|socclk|gfx_\d+_clk|hotspot$|edge$)", re.I
)


Family = Literal["prometheus", "dcgmi", "nvidia-smi", "amd-smi", "counters-csv"]
_ANSWER = re.compile(rb'\s*\{(?s:.{0,300}?)"resultType"\s*:\s*"(?:matrix|vector)"')
_TYPED = re.compile(rb"(?m)^# (?:HELP|TYPE|UNIT) [A-Za-z_:][\w:]*(?: |$)")
_SAMPLE = re.compile(rb'[A-Za-z_:][\w:]*\{[A-Za-z_]\w*="[^"\n]*"[^\n]*\} +[-+.\dNI]')
_ENTITY = re.compile(rb"(?m)^[^#\n]{0,40}# ?Entity[ \t]+\S")
_FIRST_LINES = 8192  # Bytes that must contain the first header of a text log.


class Layout(Struct, frozen=True):
    """A header: its separator, its column names as written, and its line number (0-based)."""

    separator: str
    columns: tuple[str, ...]
    line: int


def layout(head: bytes) -> Layout | None:
    """The first line that is not empty or a comment, as a header; None if it has fewer than two columns."""
    text = head.decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n")[:50]):
        if not line.strip() or line.startswith("#"):
            continue
        separator = max(_SEPARATORS, key=line.count)
        columns = [cell.strip() for cell in csv_table.cells(line.rstrip("\r"), separator)]
        return Layout(separator, tuple(columns), number) if len(columns) > 1 and any(columns) else None
    return None


def plain(column: str) -> str:
    """A column's name without its unit, in lower case."""
    return quantities.heading(column)[0].lower()


def time_unit(column: str) -> str | None:
    """The unit in the heading of a time column ('' if it has none); None for other columns."""
    lowered = column.strip().lower()
    if lowered in _TIMES:
        return ""
    match = _TIME.match(lowered)
    return (match[1] or "") if match else None


class ColumnRoles(Struct, frozen=True):
    """The column of each role; the others are counters or text. ``date``, if set, is the date of the times ``time``."""

    time: str | None = None
    unit: str = ""
    date: str | None = None
    device: str | None = None
    identity: str | None = None
    process: str | None = None
    product: str | None = None
    metric: str | None = None
    value: str | None = None
    unit_column: str | None = None


def roles(columns: tuple[str, ...]) -> ColumnRoles:
    """The column of each role, by column name; the first if several match."""
    names = {column: plain(column) for column in columns}

    def first(of: frozenset[str]) -> str | None:
        return next((column for column, name in names.items() if name in of), None)

    times = [(column, unit) for column in columns if (unit := time_unit(column)) is not None]
    of_day = [column for column, _ in times if column.strip().lower() == "time"]
    date = next((column for column, _ in times if column.strip().lower() == "date"), None) if of_day else None
    chosen = (of_day[0], "") if date else times[0] if times else (None, "")
    long = first(_METRICS), first(_VALUES)
    if long[1] is not None and long[0] is None:
        long = next((column for column, name in names.items() if name == "name"), None), long[1]
    metric, value = long if None not in long else (None, None)
    return ColumnRoles(
        chosen[0], chosen[1], date, first(_DEVICES), first(_NAMED), first(_PROCESSES),
        None if metric is not None and plain(metric) in _PRODUCTS else first(_PRODUCTS), metric, value,
        first(frozenset(("unit", "units"))) if metric else None,
    )


def table_family(head: bytes) -> Family | None:
    """The family of sample tables that a file with these first bytes belongs to; None for other files."""
    columns = layout(head)
    if columns is None or len(set(columns.columns)) < 2:
        return None
    names = [plain(column) for column in columns.columns]
    if names[:3] == ["counter_name", "timestamp", "value"] or _EVENTS & set(names):
        return None
    if sum(bool(_NVIDIA.match(name)) for name in names) >= 1:
        return "nvidia-smi"
    leading = names[1:3] if time_unit(columns.columns[0]) is not None else names[:1]
    if {"gpu", "device"} & set(leading) and sum(bool(_AMD.match(name)) for name in names) >= 1:
        return "amd-smi"
    return "counters-csv" if _samples(columns, head) else None


def _samples(columns: Layout, head: bytes) -> bool:
    """Whether the rows after the header have times and numbers; in a wide table the times must not decrease."""
    what = roles(columns.columns)
    if what.time is None or (what.metric is None and len(columns.columns) < 2):
        return False
    import polars as pl

    from . import times

    lines = head.decode("utf-8", "replace").split("\n")[columns.line + 1 : columns.line + 60]
    complete_lines = lines[:-1] if len(lines) < 59 and not head.endswith(b"\n") and len(lines) > 1 else lines
    filled = (line for line in complete_lines if line.strip())
    rows = [cells for line in filled if (cells := csv_table.cells(line.strip("\r"), columns.separator))]
    rows = [row for row in rows if len(row) == len(columns.columns)]
    if not rows:
        return False
    at = columns.columns.index(what.time)
    texts = pl.Series([row[at] for row in rows], dtype=pl.String)
    moments = times.read(texts, what.unit)
    if moments is None and not times.rounded(texts):
        return False
    if moments is not None and moments.ns.null_count() * 4 > len(moments.ns):
        return False
    if what.metric is None and moments is not None and not moments.ns.drop_nulls().is_sorted():
        return False
    reader = quantities.CounterCells(Faults(), "")
    others = [number for number, column in enumerate(columns.columns) if number != at and column != what.date]
    return any(
        reader.read(pl.Series([row[number] for row in rows], dtype=pl.String), "") is not None for number in others
    )


@lru_cache(maxsize=1)  # every counter loader calls this for the same file
def family(head: bytes) -> Family | None:
    """The family of a file that begins with these bytes; None if it is not a counter file."""
    start = head.lstrip()[:1]
    if start in (b"{", b"[", b"<"):
        return "prometheus" if _ANSWER.match(head) else None
    if b"\0" in head[:_FIRST_LINES]:
        return None
    if _ENTITY.search(head[:_FIRST_LINES]):
        return "dcgmi"
    if dmon_header(head) is not None:
        return "nvidia-smi"
    if _TYPED.search(head[:_FIRST_LINES]) or _SAMPLE.match(head):
        return "prometheus"
    return table_family(head)


def dmon_header(head: bytes) -> list[str] | None:
    """The column names of ``nvidia-smi dmon``, if its two header lines are among the first lines; else None."""
    lines = head[:_FIRST_LINES].decode("utf-8", "replace").split("\n")[:12]
    for line, after in pairwise(lines):
        names, units = dmon_cells(line), dmon_cells(after)
        if line.startswith("#") and after.startswith("#") and "gpu" in names and "Idx" in units:
            return names
    return None


def dmon_cells(line: str) -> list[str]:
    """The cells of a line of dmon, separated by spaces or commas."""
    return line.strip().lstrip("#").replace(",", " ").split()
