"""Nsight Compute's text output: a line per launch, then its sections as tables of metric, unit and value.

The line names the kernel, its sizes and where it ran, in newer versions as ``name (grid)x(block), Context 1, Stream 7,
Device 0, CC 8.0``, in older ones with the time instead of the sizes. A section's columns are as wide as its dashes. All
other lines are the tool's, the program's or its rules' and mean nothing here.
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
RULE = re.compile(r"\s*(-{3,}) (-{3,}) (-{3,})\s*")
TITLES = ("Metric Name", "Metric Unit", "Metric Value")


class TextReportReader:
    """Reads text output block by block into ``records``; every launch line is a launch of its own."""

    def __init__(self, keep: int | None = None) -> None:
        """Of the launch of the number ``keep`` also the ``name`` and all ``lines`` are kept: text, or metric cells."""
        self.records = NcuRecords()
        self.name: str | None = None
        self.lines: list[str | tuple[str, str, str]] = []
        self._keep = keep
        self._pid: int | None = None
        self._count = 0
        self._columns: tuple[int, int, int, int] | None = None

    def feed(self, block: bytes) -> None:
        """Read one block of whole lines."""
        launches: list[tuple[object, ...]] = []
        samples: list[tuple[object, ...]] = []
        for line in block.decode("utf-8", "replace").split("\n"):
            if ", Context " in line and (launch := LAUNCH_LINE.fullmatch(line)):
                launches.append(self._launch(launch))
                self._columns = None
                if self._count - 1 == self._keep:
                    self.name = launch["name"]
            elif line.startswith("[") and (process := PROCESS.fullmatch(line)):
                self._pid = int(process[1])
            elif rule := RULE.fullmatch(line):
                self._columns = (rule.start(1), rule.start(2), rule.start(3), rule.end(3))
            elif self._columns and self._count and (cells := self._cells(line)):
                self._remember(cells)
                if metrics.meaning_of(cells[0]):
                    samples.append((0, self._pid, self._count - 1, *cells))
                else:
                    self.records.unused.add(cells[0])
            elif line.strip() and not self._columns:
                self._remember(line)
        self.records.launches.append(pl.DataFrame(launches, schema=metrics.LAUNCH, orient="row"))
        self.records.samples.append(pl.DataFrame(samples, schema=metrics.SAMPLE, orient="row"))

    def _remember(self, metrics: str | tuple[str, str, str]) -> None:
        if self._keep is not None and self._count - 1 == self._keep:
            self.lines.append(metrics)

    def _launch(self, line: re.Match[str]) -> tuple[object, ...]:
        self._count += 1
        grid, block = (size.replace(" ", "") if (size := line[side]) else None for side in ("grid", "block"))
        device = f"GPU {line['device']}" if line["device"] else None
        return 0, self._pid, self._count - 1, line["name"], grid, block, device, int(line["stream"]), line["cc"]

    def _cells(self, line: str) -> tuple[str, str, str] | None:
        """Metric, unit and value of a table line; None for the titles and for a line that is no part of a table."""
        assert self._columns
        name, unit, value, end = self._columns
        if len(line.rstrip()) > end + 1 or line[:name].strip() or not line.strip():
            self._columns = self._columns if line.strip() else None
            return None
        cells = line[name:unit].strip(), line[unit:value].strip(), line[value:].strip()
        return cells if cells[0] and cells[2] and cells != TITLES else None
