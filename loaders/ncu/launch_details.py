"""Everything a print-out of Nsight Compute says of one launch: metrics by section, and rules with what they promise.

The tables keep the few metrics that columns have a place for; the rest is read again when somebody looks at a launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from ..ingest.stream import Source, line_blocks
from .csv_pages import LAUNCH_COLUMNS, CsvPagesReader, CsvTable, key_columns
from .text_report import TextReportReader

Details = dict[str, Any]
_MOST = 5_000  # Lines of one launch that are shown.
_NOT_METRICS = frozenset((*LAUNCH_COLUMNS, "Process Name", "Host Name", "Context", "Kernel Time", "segment"))


def launch_details(files: Iterable[Path], number: int, name: str) -> Details:
    """What the files say of the launch of that number (column ``offset``). Raises OSError, and ValueError for another.

    The number counts the launches of the first file in which there are any.
    """
    metrics: Details = {}
    identity: tuple[int, int | None, int] | None = None
    for file in files:
        chosen = _Chosen(number, identity)
        table, text = CsvPagesReader(chosen.rows), TextReportReader(number if identity is None else None)
        with Source(file) as source:
            for block in line_blocks(source):
                table.feed(block)
                if not table.begun:
                    text.feed(block)
        if text.lines and not chosen.details:
            metrics |= _of_text(text, name)
            continue
        if chosen.name is not None and chosen.name != name:
            raise ValueError(f"launch {number} is {chosen.name}")
        identity = identity or chosen.key
        for key, value in chosen.details.items():
            metrics.setdefault(key, value)
    if not metrics:
        raise ValueError(f"there is no launch {number}")
    return metrics


class _Chosen:
    """Takes the rows of one launch out of those of a file."""

    def __init__(self, number: int, key: tuple[int, int | None, int] | None) -> None:
        self._number, self.key = number, key
        self._numbers: dict[tuple[int, int | None, int], int] = {}
        self.details: Details = {}
        self.name: str | None = None

    def rows(self, table: CsvTable, rows: pl.DataFrame) -> None:
        """Rows of text of the file, in their order."""
        rows = rows.filter(pl.col("Kernel Name") != "")
        keys = rows.select(key_columns())
        if self.key is None:
            for key in keys.unique(maintain_order=True).rows():
                self._numbers.setdefault(key, len(self._numbers))
                if self._numbers[key] == self._number:
                    self.key = key
        if self.key is None:
            return
        _, pid, launch = self.key
        same = (keys["pid"].eq_missing(pl.Series([pid], dtype=pl.Int64))) & (keys["id"] == launch)
        matches = rows.filter(same.fill_null(False))
        if matches.is_empty():
            return
        self.name = self.name or str(matches["Kernel Name"][0])
        units = dict(zip(table.columns, table.units or [], strict=False))
        for row in matches.head(_MOST).to_dicts():
            metrics = _wide(row, units) if table.wide else _long(row)
            self.details |= {key: value for key, value in metrics.items() if len(self.details) < _MOST}


def _long(row: dict[str, str | None]) -> Details:
    """A line of a metric, of a rule, or of both."""
    def cell(name: str) -> str:
        return (row.get(name) or "").strip()

    section = " · ".join(text for text in (cell("Section Name"), cell("Body Item Label")) if text)
    before = f"{section}: " if section else ""
    metrics: Details = {}
    if cell("Metric Name"):
        metrics[before + cell("Metric Name")] = f"{cell('Metric Value')} {cell('Metric Unit')}".strip()
    if cell("Rule Name"):
        gain = cell("Estimated Speedup")
        promise = f" Estimated speed-up {gain}% ({cell('Estimated Speedup Type') or 'local'})." if gain else ""
        kind = {"OPT": "optimisation", "WRN": "warning", "INF": "note"}.get(cell("Rule Type"), cell("Rule Type"))
        metrics[f"{before}rule {cell('Rule Name')}"] = f"{kind}: {cell('Rule Description')}{promise}".removeprefix(": ")
    return metrics


def _wide(row: dict[str, str | None], units: dict[str, str]) -> Details:
    return {
        name: f"{value.strip()} {units.get(name, '')}".strip()
        for name, value in row.items() if name not in _NOT_METRICS and value and value.strip()
    }


def _of_text(text: TextReportReader, name: str) -> Details:
    """The metrics of the launch, and the lines of its rules as they stand."""
    if text.name != name:
        raise ValueError(f"the launch is {text.name}")
    metrics: Details = {}
    for number, line in enumerate(text.lines[:_MOST]):
        if isinstance(line, str):
            metrics[f"line {number + 1}"] = line.strip()
        else:
            metrics[line[0]] = f"{line[2]} {line[1]}".strip()
    return metrics
