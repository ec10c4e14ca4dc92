"""What a file that no format claims is nearest to, and what it lacks of it: columns of a table, keys of a document.

Consulted last, when nothing else is known of the file. Only what begins like the format is compared, so the answer is a
pointer for whoever made the file and never decides anything.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ... import csv_table


class Near(NamedTuple):
    """A format by the columns that every file of it has, and how to make one."""

    format: str
    columns: tuple[str, ...]
    make: str


_TABLES = (
    Near("nsys-stats", ("Start (ns)", "Duration (ns)", "Strm", "Name"),
         "nsys stats --report cuda_gpu_trace --format csv"),
    Near("nsys-stats", ("Time (%)", "Total Time (ns)", "Instances", "Name"), "nsys stats --report cuda_gpu_kern_sum"),
    Near("ncu", ("ID", "Process ID", "Kernel Name", "Metric Name", "Metric Value"), "ncu --csv --page details"),
    Near("rocprofv3-csv", ("Kind", "Agent_Id", "Queue_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp"),
         "rocprofv3 --kernel-trace --output-format csv"),
    Near("rocprof", ("Index", "KernelName", "BeginNs", "EndNs"), "rocprof --timestamp on"),
    Near("ascend", ("Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)"), "Ascend's PyTorch profiler"),
    Near("cycle-profile", ("cycle", "pid", "function_name", "metric_name", "device", "mu_pct", "duration"),
         "the tool that writes result_perf_data.csv"),
)
_TRACE_KEYS = ("traceEvents", "schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds")
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}\[\]]')
_LONGEST = 60
"""Bytes of a key that is named."""
_LEAST = 2
"""Columns that must agree before a table is called near."""
RECORD = ("Record with PyTorch's profiler (`prof.export_chrome_trace('trace.json')`), nsys, ncu, rocprofv3 or JAX and "
          "open what they write; `warplens formats` lists all.")
"""What always leads to a file that opens."""


def nearest(head: bytes) -> tuple[str, str] | None:
    """What the file is nearest to (a clause that follows its name) and what to do; None where it is near to nothing."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"{", b"[")):
        return _document(text)
    return None if b"\0" in head[:4096] else _table(text)


def _document(text: bytes) -> tuple[str, str]:
    """A JSON document: which of the keys of a Chrome trace it has, and what it has instead."""
    keys = _top_level(text[:8192]) if text.startswith(b"{") else []
    if not keys:
        return "is JSON, but not a trace: its top level has no list of trace events", RECORD
    have = [key for key in _TRACE_KEYS if key in keys]
    listing = ", ".join(keys[:4]) + (", …" if len(keys) > 4 else "")
    if have:
        reason = f"is nearest to kineto (it has {', '.join(have)}), but no list of traceEvents begins in it"
    else:
        reason = f"is JSON, but not a trace: kineto, the nearest format, needs traceEvents, and this has {listing}"
    return reason, RECORD


def _top_level(text: bytes) -> list[str]:
    """The keys of the outermost object only: what lies deeper may be anything, the environment for one."""
    depth, keys = 0, []
    for token in _TOKEN.finditer(text):
        if token[0] in (b"{", b"["):
            depth += 1
        elif token[0] in (b"}", b"]"):
            depth -= 1
        elif token[2] and depth == 1 and len(token[1]) <= _LONGEST:
            keys.append(_plain(token[1]))
    return list(dict.fromkeys(keys))


def _plain(key: bytes) -> str:
    try:
        return str(json.loads(b'"' + key + b'"'))
    except ValueError:
        return key.decode("utf-8", "replace")


def _table(text: bytes) -> tuple[str, str] | None:
    """A CSV table: the format with most of its columns, and those it lacks."""
    lines = [line.decode("utf-8", "replace") for line in text.split(b"\n", 30)[:30] if b"," in line]
    best: tuple[float, Near, list[str]] | None = None
    for line in lines:
        cells = {cell.strip().lower() for cell in csv_table.cells(line.strip())}
        for near in _TABLES:
            have = [column for column in near.columns if column.lower() in cells]
            share = len(have) / len(near.columns)
            if len(have) >= _LEAST and (best is None or share > best[0]):
                best = share, near, [column for column in near.columns if column not in have]
    if best is None:
        return None
    _, near, lacking = best
    lacks = f"lacks its columns {', '.join(lacking)}" if lacking else "has no row that can be read"
    return f"is nearest to {near.format}, but {lacks}", f"`{near.make}` writes all of them. {RECORD}"
