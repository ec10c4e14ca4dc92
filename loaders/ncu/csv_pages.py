"""Nsight Compute's CSV: the long layout (one line per launch and metric) and the wide raw page (one line per launch).

``ncu --csv`` prints to the terminal, so messages of the tool and the program appear before the header and between the
lines: only lines that begin with a launch number are data. Details pages have more columns in the header than in most
lines; a line has a metric, a rule result, or both. In the wide layout the line under the header has the units. Files
are read in blocks. Launches, metrics and rule results are turned into tables here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from msgspec import Struct, field

from .. import csv_table, schema
from ..collective_names import kernel_kind
from ..recording.faults import Faults
from ..recording.values import UNNAMED, Kind, numbers
from ..trace import Device, Info, Trace
from . import metrics as ncu_metrics

HEADER = re.compile(rb'^[^\S\n]*"?ID"?,"?Process ID"?,[^\n]*$', re.MULTILINE)
DATA_LINE = r'^\s*"?\d+"?,'
LAUNCH_COLUMNS = {
    "ID": "id", "Process ID": "pid", "Kernel Name": "name", "Grid Size": "grid", "Block Size": "block",
    "Device": "device", "Stream": "stream", "CC": "cc",
}  # fmt: skip
_NO_METRICS = frozenset((*LAUNCH_COLUMNS, "Process Name", "Host Name", "Context", "Kernel Time", "segment"))
_RULE_COLUMNS = {
    "rule": "Rule Name", "kind": "Rule Type", "message": "Rule Description", "speedup": "Estimated Speedup",
    "scope": "Estimated Speedup Type",
}


class NcuRecords(Struct):
    """A file's contents: frames of launches (``ncu_metrics.LAUNCH``), samples (``SAMPLE``), rule results (``RULE``)."""

    launches: list[pl.DataFrame] = field(default_factory=list)
    samples: list[pl.DataFrame] = field(default_factory=list)
    rules: list[pl.DataFrame] = field(default_factory=list)
    malformed: int = 0

    def count(self) -> int:
        """The number of launches so far; a launch that spans two blocks counts twice."""
        return sum(frame.height for frame in self.launches)

    def add(self, other: NcuRecords) -> None:
        """Add the contents of another file of the same profile."""
        self.launches += other.launches
        self.samples += other.samples
        self.rules += other.rules
        self.malformed += other.malformed


class CsvTable(Struct):
    """One table of a file: its header and, if it is wide, the units of its columns (None until read)."""

    columns: list[str]
    segment: int
    units: list[str] | None = None

    @property
    def wide(self) -> bool:
        """Whether a line is a whole launch rather than one metric."""
        return "Metric Name" not in self.columns


def _table(columns: list[str], segment: int) -> CsvTable | None:
    """The table of a header; None if a required column is missing."""
    table = CsvTable(columns, segment)
    needed = {"ID", "Process ID", "Kernel Name"} if table.wide else {"ID", "Process ID", "Kernel Name", "Metric Value"}
    return table if needed <= set(columns) else None


def _columns(line: bytes) -> list[str]:
    """The header's names; repeated ones (NVTX ranges) get their position appended."""
    names = csv_table.cells(line.decode("utf-8", "replace").strip())
    return [name if names.index(name) == at else f"{name} ({at})" for at, name in enumerate(names)]


def _pieces(block: bytes) -> Iterator[tuple[bytes | None, bytes]]:
    """(header line, the lines after it) for every header in the block; None for lines before the first one."""
    marks = [*HEADER.finditer(block)]
    if not marks or marks[0].start():
        yield None, block[: marks[0].start() if marks else len(block)]
    ends = [*(mark.start() for mark in marks[1:]), len(block)]
    for mark, end in zip(marks, ends[: len(marks)], strict=True):
        yield mark[0], block[mark.end() : end]


class CsvPagesReader:
    """Reads CSV output block by block into ``records``; lines before the first header are ignored."""

    def __init__(self) -> None:
        self.records = NcuRecords()
        self._table: CsvTable | None = None
        self._segments = 0

    @property
    def begun(self) -> bool:
        """Whether a header has been read."""
        return self._table is not None

    def feed(self, block: bytes) -> None:
        """Read one block of whole lines."""
        for header, lines in _pieces(block):
            if header is not None:
                self._table = _table(_columns(header), self._segments)
                self._segments += 1
            if self._table is not None and lines:
                self._read(self._table, lines)

    def _read(self, table: CsvTable, text: bytes) -> None:
        lines = pl.read_lines(text.decode("utf-8", "replace").replace("\0", "\ufffd").encode()).to_series()
        if table.wide and table.units is None:
            first = next((line for line in lines.head(50) if re.match(r'\s*"?"?,', line)), None)
            table.units = csv_table.cells(first) if first else []
        data = lines.filter(lines.str.contains(DATA_LINE))
        if data.is_empty():
            return
        odd = data.str.count_matches('"', literal=True) % 2 == 1
        data = pl.select(pl.when(odd).then(data + '"').otherwise(data)).to_series()
        rows = csv_table.read("\n".join(data.to_list()).encode(), table.columns)
        rows = rows.with_columns(segment=pl.lit(table.segment, pl.Int64))
        launches = _launches(rows)
        self.records.malformed += data.len() - launches.height
        launches = launches.unique(list(ncu_metrics.KEY), keep="first", maintain_order=True)
        samples = _wide(table, rows) if table.wide else _long(rows)
        self.records.launches.append(launches.cast(pl.Schema(ncu_metrics.LAUNCH)))
        self.records.samples.append(samples.cast(pl.Schema(ncu_metrics.SAMPLE)))
        if "Rule Name" in rows.columns:
            self.records.rules.append(_rules(rows).cast(pl.Schema(ncu_metrics.RULE)))


def _long(rows: pl.DataFrame) -> pl.DataFrame:
    """The lines that have a metric, as ``SAMPLE`` rows."""
    return rows.filter(_text(rows, "Metric Name").is_not_null()).select(
        *key_columns(), section=_section(rows), metric=_text(rows, "Metric Name"), unit=_text(rows, "Metric Unit"),
        value=pl.col("Metric Value"),
    )


def _wide(table: CsvTable, rows: pl.DataFrame) -> pl.DataFrame:
    """The metric columns unpivoted to ``SAMPLE`` rows; empty cells were not measured and are dropped."""
    units = dict(zip(rows.columns, table.units or [], strict=False))
    named = [name for name in rows.columns if name not in _NO_METRICS]
    keys = rows.select(*key_columns())
    long = pl.concat([keys, rows.select(named)], how="horizontal").unpivot(
        named, index=list(ncu_metrics.KEY), variable_name="metric").with_columns(pl.col("value").cast(pl.String))
    unit = pl.col("metric").replace_strict(units, default=None, return_dtype=pl.String).replace("", None)
    return long.filter(pl.col("value").str.strip_chars() != "").select(
        *ncu_metrics.KEY, section=pl.lit(None, pl.String), metric="metric", unit=unit, value="value",
    )


def _rules(rows: pl.DataFrame) -> pl.DataFrame:
    """The lines that have a rule result, as ``RULE`` rows."""
    return rows.filter(_text(rows, "Rule Name").is_not_null()).select(
        *key_columns(), section=_section(rows), **{ours: _text(rows, name) for ours, name in _RULE_COLUMNS.items()}
    )


def _section(rows: pl.DataFrame) -> pl.Expr:
    """The section name, with the body item if the page has one."""
    parts = [_text(rows, name) for name in ("Section Name", "Body Item Label") if name in rows.columns]
    return pl.concat_str(parts, separator=" · ", ignore_nulls=True).replace("", None) if parts else pl.lit(None)


def _text(rows: pl.DataFrame, column: str) -> pl.Expr:
    """A column with its cells stripped; null where empty or if there is no such column."""
    return pl.col(column).str.strip_chars().replace("", None) if column in rows.columns else pl.lit(None, pl.String)


def key_columns() -> tuple[pl.Expr, ...]:
    """The columns that identify a launch, ``metrics.KEY``, from rows of text."""
    return pl.col("segment"), _whole("Process ID").alias("pid"), _whole("ID").alias("id")


def _whole(column: str) -> pl.Expr:
    """A column of whole numbers; a line whose number is none is no launch, and is counted as malformed."""
    return pl.col(column).map_batches(lambda cells: numbers(cells, "id", Faults(), ""), return_dtype=pl.Int64)


def _launches(rows: pl.DataFrame) -> pl.DataFrame:
    """The launch of each line, as ``LAUNCH`` rows; lines with neither a kernel name nor a size are dropped."""
    texts = {
        ours: pl.col(theirs).str.strip_chars() for theirs, ours in LAUNCH_COLUMNS.items() if theirs in rows.columns
    }
    size = {
        name: texts[name].str.replace_all(r"[()\s]", "").replace("", None) if name in texts else pl.lit(None, pl.String)
        for name in ("grid", "block")
    }
    number = _whole("Device") if "device" in texts else pl.lit(None, pl.Int64)
    device = pl.when(number >= 0).then(pl.format("GPU {}", number))
    return rows.select(
        *key_columns(),
        name=pl.when(pl.col("Kernel Name") != "").then("Kernel Name") if "name" in texts else pl.lit(None, pl.String),
        **size,
        device=device,
        stream=_whole("Stream") if "stream" in texts else pl.lit(None, pl.Int64),
        cc=texts["cc"] if "cc" in texts else pl.lit(None, pl.String),
    ).filter(pl.any_horizontal(pl.col("name", "grid", "block").is_not_null())).with_columns(
        pl.col("name").fill_null(UNNAMED))


def trace_of(path: Path, format_name: str, records: NcuRecords, size: int, fault: str | None) -> Trace:
    """The Trace of the records, which must contain a launch."""
    launches = pl.concat(records.launches).unique(list(ncu_metrics.KEY), keep="first", maintain_order=True)
    samples = pl.concat(records.samples)
    faults = Faults()
    kernels = _kernels(launches, samples, faults)
    info = Info(
        source=str(path), label=path.name.split(".")[0], format=format_name, tool="Nsight Compute", bytes=size,
        devices=_devices(launches), serialised=True, warnings=(*_warnings(records, kernels, fault), *faults.warnings()),
        facts={"tables": [(name, rows, True) for name, rows in (
            ("launches", launches.height), ("metrics", samples.height),
            ("rule results", sum(frame.height for frame in records.rules))) if rows]},
    )
    index = launches.select(ncu_metrics.KEY).with_row_index("index").with_columns(pl.col("index").cast(pl.Int64))
    tables = {"kernels": kernels, "launch_metrics": ncu_metrics.listed(index, samples)}
    if records.rules:
        tables["launch_rules"] = ncu_metrics.rule_rows(index, pl.concat(records.rules))
    return Trace(info).with_tables(**{name: schema.conform(name, frame.lazy()) for name, frame in tables.items()})


def _kernels(launches: pl.DataFrame, samples: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """The rows of ``kernels``: launches with their measured values, in file order."""
    frame = ncu_metrics.measured(launches, samples, faults)
    kinds = {name: kernel_kind(name) for name in launches["name"].unique()}
    return frame.with_row_index("index").with_columns(
        _rounded("dur_ns", "duration", faults),
        ncu_metrics.printable(frame["tensor"]),
        ncu_metrics.printable(frame["dram"]),
        _rounded("registers", "count", faults),
        _rounded(pl.coalesce("shared_bytes", pl.sum_horizontal("shared_static", "shared_dynamic", ignore_nulls=False)),
                 "bytes", faults).alias("shared_bytes"),
        kind=pl.col("name").cast(pl.String).replace_strict(kinds, return_dtype=pl.String),
    )


def _rounded(column: str | pl.Expr, kind: Kind, faults: Faults) -> pl.Expr:
    """A measured column as whole ns, bytes or counts."""
    measured = pl.col(column) if isinstance(column, str) else column
    return measured.map_batches(lambda cells: numbers(cells, kind, faults, "metrics"), return_dtype=pl.Int64)


def _devices(launches: pl.DataFrame) -> tuple[Device, ...]:
    pairs = launches.select("device", "cc").unique().drop_nulls("device").sort("device").rows()
    return tuple(Device(device, None, {"compute_capability": cc} if cc else {}) for device, cc in pairs)


def _warnings(records: NcuRecords, kernels: pl.DataFrame, fault: str | None) -> Iterator[str]:
    if fault:
        yield fault
    if records.malformed:
        yield f"{records.malformed:,} lines are no launch and were left out."
    if missing := kernels["dur_ns"].null_count():
        yield f"{missing:,} of {kernels.height:,} launches have no duration: no value of gpu__time_duration."
