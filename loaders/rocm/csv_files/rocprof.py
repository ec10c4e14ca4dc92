"""CSV of rocprof (v1), with its header or, as scripts keep it, without. Read by ``read_rocprof``."""

from __future__ import annotations

import csv

from ...loader import FormatLoader, Job
from ...trace import Trace
from .headers import COLUMNS, has_header

_SIGNAL, _OBJECT, _DISPATCH, _COMPLETE, _DURATION = 14, 15, 16, 19, 20


def is_bare_row(line: bytes) -> bool:
    """Whether a line is a row of a results file: its numbers where they belong, its duration that of its times."""
    try:
        (cells,) = csv.reader([line.decode("utf-8", "replace").strip()])
        numbers = [int(cells[at]) for at in (0, 2, 5, 6, *range(_DISPATCH, _DURATION + 1))]
    except (csv.Error, ValueError, IndexError):
        return False
    begin, end, duration = numbers[5], numbers[6], numbers[8]
    hexadecimal = cells[_SIGNAL].startswith("0x") and cells[_OBJECT].startswith("0x")
    return len(cells) == len(COLUMNS) and hexadecimal and end - begin == duration


class Rocprof(FormatLoader):
    """The loader of rocprof's results."""

    name = "rocprof"
    title = "rocprof (v1) results CSV with timestamps, with header or without: kernels, counters"
    suffixes = (".csv",)
    version = 2
    fills = ("kernels", "metrics")

    def sniff(self, head: bytes) -> bool:
        """The header, or first lines that are all rows."""
        if has_header(head):
            return True
        lines = [line for line in head.split(b"\n", 5)[:5] if line.strip()]
        complete = lines if len(head) < 65536 or len(lines) < 5 else lines[:-1]
        return bool(complete) and is_bare_row(complete[0]) and all(is_bare_row(line) for line in complete[1:4])

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels`` and ``metrics``. Raises Unreadable where no row has a time."""
        from .read_rocprof import load

        return (load(job),)


LOADER = Rocprof()
