"""Nsight Compute's text output: one line per launch, then its sections as tables of metric, unit and value.

The line has the kernel's name, its sizes and where it ran, in newer versions as ``name (grid)x(block), Context 1,
Stream 7, Device 0, CC 8.0``, in older ones with the time instead of the sizes. A section's columns are as wide as its
dashes. Below a table are the section's rule results: ``OPT   Est. Speedup: 20%`` or ``WRN   `` and text, indented over
several lines and without the rule's name. All other lines come from the tool or the program and are ignored.
"""

from __future__ import annotations

import re

import polars as pl

from . import metrics
from .csv_pages import NcuRecords

LAUNCH_LINE = re.compile(
    r"\s+(?P<name>\S.*?)"
    r"(?: \((?P<grid>\d+, *\d+, *\d+)\)x\((?P<block>\d+, *\d+, *\d+)\))?"
    r"(?:, \d{4}-\w{3}-\d{1,2} [\d:]+)?"
    r", Context \d+, Stream (?P<stream>\d{1,18})(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>[\d.]+))?\s*"
)
PROCESS = re.compile(r"\[(\d{1,18})\] \S.*@\S+\s*")
DASHES = re.compile(r"\s*(-{3,}) (-{3,}) (-{3,})\s*")
SECTION = re.compile(r"\s*Section: (\S.*?)\s*")
FOUND = re.compile(r"\s*(?P<kind>OPT|WRN|INF) {2,}(?P<text>\S.*?)\s*")
SPEEDUP = re.compile(r"Est(?:imated|\.)(?: (?P<scope>Local|Global))? Speedup: (?P<percent>[\d.,]+)%")
TITLES = ("Metric Name", "Metric Unit", "Metric Value")
_MOST_LINES = 60  # Maximum lines of one rule result; the longest that NVIDIA ships has about twenty.


class TextReportReader:
    """Reads text output block by block into ``records``; every launch line is a separate launch."""

    def __init__(self) -> None:
        self.records = NcuRecords()
        self._pid: int | None = None
        self._count = 0
        self._section: str | None = None
        self._columns: tuple[int, int, int, int] | None = None
        self._rules: list[tuple[object, ...]] = []
        self._rule: list[str] = []

    def feed(self, block: bytes) -> None:
        """Read one block of whole lines."""
        launches: list[tuple[object, ...]] = []
        samples: list[tuple[object, ...]] = []
        for line in block.decode("utf-8", "replace").split("\n"):
            if ", Context " in line and (launch := LAUNCH_LINE.fullmatch(line)):
                self._end_rule()
                launches.append(self._launch(launch))
                self._section = self._columns = None
            elif line.startswith("[") and (process := PROCESS.fullmatch(line)):
                self._pid = int(process[1])
            elif self._count and (section := SECTION.fullmatch(line)):
                self._end_rule()
                self._section, self._columns = section[1], None
            elif self._count and FOUND.fullmatch(line):
                self._end_rule()
                self._rule, self._columns = [line.strip()], None
            elif dashes := DASHES.fullmatch(line):
                self._end_rule()
                self._columns = (dashes.start(1), dashes.start(2), dashes.start(3), dashes.end(3))
            elif self._rule and line.strip().strip("- ") and len(self._rule) < _MOST_LINES:
                self._rule.append(line.strip())
            elif self._rule:
                self._end_rule()
            elif self._columns and self._count and (cells := self._cells(line)):
                samples.append((0, self._pid, self._count - 1, self._section, cells[0], cells[1] or None, cells[2]))
        self.records.launches.append(pl.DataFrame(launches, schema=metrics.LAUNCH, orient="row"))
        self.records.samples.append(pl.DataFrame(samples, schema=metrics.SAMPLE, orient="row"))
        self.records.rules.append(pl.DataFrame(self._rules, schema=metrics.RULE, orient="row"))
        self._rules = []

    def finish(self) -> NcuRecords:
        """The records, including a rule result that was still open at the end of the file."""
        self._end_rule()
        self.records.rules.append(pl.DataFrame(self._rules, schema=metrics.RULE, orient="row"))
        return self.records

    def _end_rule(self) -> None:
        if self._rule and (first := FOUND.fullmatch(self._rule[0])):
            gain = SPEEDUP.fullmatch(first["text"])
            message = " ".join(self._rule[1:] if gain else [first["text"], *self._rule[1:]])
            percent, scope = (gain["percent"], gain["scope"]) if gain else (None, None)
            self._rules.append((0, self._pid, self._count - 1, self._section, None, first["kind"], message, percent,
                                scope.lower() if scope else None))
        self._rule = []

    def _launch(self, line: re.Match[str]) -> tuple[object, ...]:
        self._count += 1
        grid, block = (size.replace(" ", "") if (size := line[side]) else None for side in ("grid", "block"))
        device = f"GPU {line['device']}" if line["device"] else None
        return 0, self._pid, self._count - 1, line["name"], grid, block, device, int(line["stream"]), line["cc"]

    def _cells(self, line: str) -> tuple[str, str, str] | None:
        """Metric, unit and value of a table line; None for the titles and for a line outside a table."""
        assert self._columns
        name, unit, value, end = self._columns
        if len(line.rstrip()) > end + 1 or line[:name].strip() or not line.strip():
            self._columns = self._columns if line.strip() else None
            return None
        cells = line[name:unit].strip(), line[unit:value].strip(), line[value:].strip()
        return cells if cells[0] and cells[2] and cells != TITLES else None
