"""A finished comparison of two runs: ``strict_comparison_*.md``, or its detail table alone as CSV.

The recordings are not available, only the table of (function, metric, device) triplets and, in the report, the cycle
times sorted by duration ("Time Rank"). It still opens as two runs, so that every view of a pair works as far as the
numbers allow: the table becomes A's ``comparison``, the cycle times become ``cycles`` of A and of B. Run labels are
taken from the column headers (``β_normal_pid_805580(%)``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from msgspec import Struct, field

from . import csv_table, schema
from .errors import Unreadable
from .ingest import stream
from .loader import FormatLoader, Job
from .recording.faults import Faults
from .recording.values import number
from .trace import Device, Info, Trace

FIXED = {
    "Function Name": "function", "Metric Name": "metric", "Device": "device", "Suspicion Score": "suspicion",
    "Δβ(%)": "delta_beta", "Z-Score(β)": "z_beta", "p-value(β)": "p_beta", "U-test p(β)": "u_beta",
    "Δμ": "delta_mu", "Z-Score(μ)": "z_mu", "Z-Score(log_μ)": "z_log_mu", "p-value(μ)": "p_mu",
    "U-test p(μ)": "u_mu",
}  # fmt: skip
"""Headers that are the same in every report; the other four contain the run labels."""

TEXT = ("function", "metric", "device")
LABELLED = re.compile(r"([βμ])_(.*?)(?:_pid_(\d{1,18}))?(?:\(%\))?")
TITLE = re.compile(rb"^#[^\n]*Performance Comparison", re.MULTILINE)
TITLE_PID = re.compile(r"\(PID:\s*(\d{1,18})\)")


class _Report(Struct):
    """The parsed report: comparison rows, sorted cycle times in µs of A and B, the summary, and reading errors."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    times: tuple[Sequence[float], Sequence[float]] = ((), ())
    summary: dict[str, list[str]] = field(default_factory=dict)
    title: str | None = None
    malformed: int = 0
    fault: str | None = None
    faults: Faults = field(default_factory=Faults)

    def number(self, column: str, cell: str) -> float | None:
        """A printed number of the table; None, and counted, if it is none."""
        value, reason = number(printed(cell))
        if reason is not None:
            self.faults.wrong("the comparison", column, reason)
        return value


def printed(text: str) -> str:
    """A printed number without %, bold marks and the Unicode minus."""
    return text.replace("*", "").replace("%", "").replace("−", "-")


def _columns(header: Sequence[str]) -> tuple[list[str | None], list[str], list[int | None]]:
    """Header cells → column names (None: unknown), run labels, pids."""
    columns: list[str | None] = []
    labels: list[str] = []
    pids: list[int | None] = []
    counts = {"β": 0, "μ": 0}
    for cell in header:
        name = FIXED.get(cell)
        labelled = LABELLED.fullmatch(cell)
        if name is None and labelled and counts[labelled[1]] < 2:
            name = ("beta_" if labelled[1] == "β" else "mu_") + "ab"[counts[labelled[1]]]
            counts[labelled[1]] += 1
            if labelled[1] == "β":
                labels.append(labelled[2])
                pids.append(int(labelled[3]) if labelled[3] else None)
        columns.append(name)
    return columns, labels, pids


def _is_detail(cells: Sequence[str]) -> bool:
    return "Function Name" in cells and "Suspicion Score" in cells


class _Detail:
    """Adds the rows below one detail header to a report."""

    def __init__(self, report: _Report, header: Sequence[str], pid: int | None) -> None:
        self.report = report
        self.columns, labels, pids = _columns(header)
        self.pids = {f"pid_{side}": pid_of_side or pid for side, pid_of_side in zip("ab", pids, strict=False)}
        report.labels = report.labels or labels

    def add(self, cells: list[str]) -> None:
        """Add one row. A pipe inside the function name splits it into extra cells, which are joined again."""
        surplus = len(cells) - len(self.columns)
        if surplus > 0 and self.columns[0] == "function":
            cells = ["|".join(cells[: surplus + 1]), *cells[surplus + 1 :]]
        row: dict[str, Any] = {
            name: _plain(cell) if name in TEXT else self.report.number(name, cell)
            for name, cell in zip(self.columns, cells, strict=False)
            if name
        }
        if surplus < 0 or not row.get("function") or row.get("suspicion") is None:
            self.report.malformed += 1
        else:
            self.report.rows.append({**row, **self.pids})


def _cells(line: str) -> list[str]:
    """The cells of a markdown table row, padding included; escaped pipes split cells too."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return inner.replace(r"\|", "|").split("|")


def _plain(cell: str) -> str:
    """The text of a cell without surrounding ** or backticks."""
    text = cell.strip()
    for mark in ("**", "`"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            text = text[len(mark) : -len(mark)]
    return text


def _markdown(text: str) -> _Report:
    report = _Report()
    reader: _Detail | None = None
    ranks: list[list[str]] = []
    table = ""
    pid: int | None = None
    for line in text.split("\n"):
        if not line.lstrip().startswith("|"):
            table = ""
            if line.startswith("#") and "Comparison" in line and report.title is None:
                report.title = line.strip("# \r")
                pid = int(match[1]) if (match := TITLE_PID.search(line)) else None
            continue
        raw = _cells(line)
        cells = [cell.strip() for cell in raw]
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            continue
        if not table:
            table = cells[0]
            reader = _Detail(report, cells, pid) if _is_detail(cells) else None
            if cells[0] == "Time Rank" and not ranks:
                labels = [cell.removesuffix("Time (us)").strip() for cell in cells[1:3]]
                report.labels = report.labels or [re.sub(r"_pid_\d+$", "", label) for label in labels]
                ranks.append(cells)
        elif reader is not None:
            reader.add(raw)
        elif table == "Time Rank":
            ranks.append(cells)
        elif table == "Metric":
            report.summary[cells[0]] = cells[1:3]
    columns = list(zip(*(row for row in ranks[1:] if len(row) >= 3), strict=False))
    if columns:
        sides = [
            [time for cell in column if (time := report.number("Time (us)", cell)) is not None and 0 < time < 1e15]
            for column in columns[1:3]
        ]
        report.times = (sides[0], sides[1])
    return report


def _csv(text: str) -> _Report:
    report = _Report()
    reader: _Detail | None = None
    for line in text.split("\n"):
        cells = csv_table.cells(line.rstrip("\r"))
        if _is_detail(cells):
            reader = _Detail(report, [cell.strip() for cell in cells], None)
        elif reader is not None and cells:
            reader.add(cells)
    return report


class Comparison(FormatLoader):
    """Loader for finished comparisons."""

    name = "comparison"
    title = "Finished comparison of two runs: a report (strict_comparison_*.md) or its detail table as CSV"
    suffixes = (".md", ".csv")
    version = 3
    fills = ("cycles", "comparison")

    def sniff(self, head: bytes) -> bool:
        """Accept a document that starts like a report or like the detail table and has that table's header."""
        start = head.lstrip()
        if not start.startswith((b"#", b"|", b"Function Name,")):
            return False
        if TITLE.match(start) and b"Time Rank" in start:
            return True
        lines = (line for line in start.split(b"\n") if line.startswith((b"|", b"Function Name,")))
        return any(b"Function Name" in line and b"Suspicion Score" in line for line in lines)

    def load(self, job: Job) -> tuple[Trace, ...]:
        """Two Traces, A and B: A's ``comparison`` holds the table, ``cycles`` of each its sorted cycle times."""
        data, fault = stream.read_all(job.path)
        text = data.decode("utf-8", "replace")
        report = _csv(text) if text.startswith("Function Name") else _markdown(text)
        report.fault = fault
        if not report.rows and not report.times[0]:
            raise Unreadable(
                job.path, "has no comparison table and no cycle times", "Give the report as its tool wrote it."
            )
        labels = (*report.labels, "A", "B")[:2] if len(report.labels) == 2 else ("A", "B")
        job.progress(len(data), len(data), len(report.rows))
        frame = pl.DataFrame(report.rows, schema=_row_schema()) if report.rows else pl.DataFrame(schema=_row_schema())
        runs = []
        for side, label in enumerate(labels):
            info = Info(
                source=str(job.path), label=label, format=self.name, bytes=len(data), devices=_devices(frame),
                warnings=tuple(_warnings(report)), facts=_facts(report, side),
            )  # fmt: skip
            runs.append(Trace(info, cycles=schema.conform("cycles", _cycles(report.times[side]).lazy())))
        return runs[0].with_tables(comparison=schema.conform("comparison", frame.lazy())), runs[1]


def _row_schema() -> dict[str, pl.DataType]:
    """Schema of ``comparison`` with plain strings instead of categoricals, for building the frame."""
    columns = schema.polars_schema("comparison")
    return {name: pl.String() if name in TEXT else dtype for name, dtype in columns.items()}


def _cycles(times: Sequence[float]) -> pl.DataFrame:
    """Sorted cycle times in µs → cycles numbered in that order; their start times are unknown."""
    return pl.DataFrame(
        {
            "cycle": range(1, len(times) + 1), "dur_ns": [round(time * 1000) for time in times],
            "source": ["recorded"] * len(times), "complete": [True] * len(times),
        },
        schema_overrides={"cycle": pl.Int64, "dur_ns": pl.Int64},
    )


def _devices(frame: pl.DataFrame) -> tuple[Device, ...]:
    return tuple(Device(name) for name in frame["device"].drop_nulls().unique().sort() if name not in ("Host", ""))


def _facts(report: _Report, side: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"finished": True}
    if report.title:
        facts["title"] = report.title
    for name, values in report.summary.items():
        if len(values) > side:
            value, _ = number(printed(values[side]))
            facts[name] = values[side] if value is None else value
    return facts


def _warnings(report: _Report) -> Iterator[str]:
    yield "This is a finished comparison: it holds no single cycles or launches of the two runs."
    if report.fault:
        yield report.fault
    yield from report.faults.warnings()
    if report.malformed:
        total = report.malformed + len(report.rows)
        yield f"{report.malformed:,} of {total:,} rows could not be read and were left out."


LOADER = Comparison()
