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
COUNTS = ("instances", "count", "operations")  # Names of a summary's column of counts.
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


def reports_in(text: bytes) -> list[StatsReport]:
    """All reports, in file order."""
    headers = [(one.start(), one.end(), one) for one in _CSV.finditer(text) if b"  " not in one.group().strip()]
    headers += [(one.start(), one.end(), one) for one in _PRINTED.finditer(text)]
    headers.sort(key=lambda one: one[0])
    reports, before = [], 0
    for number, (start, end, header) in enumerate(headers):
        if start < before:
            continue
        limit = headers[number + 1][0] if number + 1 < len(headers) else len(text)
        titles = _TITLE.findall(text, before, start)
        title = next((cell.decode() for cell in titles[-1] if cell), "") if titles else ""
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
    if "num calls" in have:
        return "call sums" if "name" in have and not title.startswith(("mpi", "openacc", "vulkan", "opengl")) else ""
    if "range" in have:
        return "range sums" if "instances" in have else ""
    return "sums" if any(count in have for count in COUNTS) and {"name", "operation"} & have else ""
