"""Four-column kernel tables: name, latency in ns, tensor-core and DRAM utilisation as fractions of peak.

One line is one launch, in launch order, without timestamps. The name is padded to 50 columns or truncated with '...'
and ends at the *last* '|', because a name may contain pipes. Lines are not processed one by one in Python: polars
slices the usual fixed-width layout of a whole block, and only lines in another layout go through a regular expression.
Lines that are not launches are counted in a warning, never silently dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from msgspec import Struct, field

from . import schema
from .collective_names import kernel_kind
from .errors import Unreadable
from .ingest.stream import Source, line_blocks
from .loader import FormatLoader, Job
from .recording.faults import Faults
from .recording.values import Kind, numbers
from .trace import Info, Trace

BLOCK_BYTES = 8 << 20
SPILL_ROWS = 2_000_000
"""Rows kept in memory before they are written to the workspace, to bound memory."""

TAIL = 26
"""Characters from the '|' to the end of a line in the fixed layout: '|', 11 for latency, 7 + 7 for utilisation."""

HEADER = re.compile(rb"\s*Kernel\s*\|?\s*Latency\s+Tensor\s+DRAM\s*")
ROW = re.compile(rb"[^\n]*\|\s*\d+\s+\d*\.\d+\s+\d*\.\d+\s*")
ANY_ROW = r"(?s)^(.*)\|\s*(\S+)\s+(\S+)\s+(\S+)\s*$"
HEADER_LINE = r"^\s*Kernel\s*\|?\s*Latency\s+Tensor\s+DRAM\s*$"


class _Rows(Struct):
    """Rows read so far, as frames of (dur_ns, name, tensor, dram), and counts of bad lines."""

    workspace: Path
    frames: list[pl.DataFrame] = field(default_factory=list)
    spilled: list[pl.LazyFrame] = field(default_factory=list)
    in_memory: int = 0
    total: int = 0
    malformed: int = 0
    undecodable: int = 0
    faults: Faults = field(default_factory=Faults)

    def add(self, frame: pl.DataFrame) -> None:
        self.frames.append(frame)
        self.in_memory += frame.height
        self.total += frame.height
        if self.in_memory >= SPILL_ROWS:
            path = self.workspace / f"kernel-table-{len(self.spilled)}.arrow"
            pl.concat(self.frames).write_ipc(path)
            self.spilled.append(pl.scan_ipc(path))
            self.frames, self.in_memory = [], 0

    def kernels(self) -> pl.LazyFrame:
        parts = [*self.spilled, *(frame.lazy() for frame in self.frames)]
        return _kernels(pl.concat(parts)) if parts else schema.empty("kernels")


def _kernels(rows: pl.LazyFrame) -> pl.LazyFrame:
    names = rows.select(pl.col("name").unique()).collect(engine="streaming")["name"].cast(pl.String)
    collectives = [name for name in names if kernel_kind(name) == "collective"]
    kind = pl.when(pl.col("name").cast(pl.String).is_in(collectives)).then(pl.lit("collective"))
    return schema.conform(
        "kernels", rows.with_row_index("index").with_columns(kind.otherwise(pl.lit("kernel")).alias("kind"))
    )


def _lines(block: bytes) -> tuple[pl.Series, int]:
    """The lines of a block, and how many are not valid UTF-8: their bad bytes become U+FFFD."""
    try:
        return pl.read_lines(block).to_series(), 0
    except pl.exceptions.ComputeError:
        broken = sum(1 for line in block.split(b"\n") if "�" in line.decode("utf-8", "replace") and not _decodes(line))
        return pl.read_lines(block.decode("utf-8", "replace").encode()).to_series(), broken


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fixed(lines: pl.Series) -> pl.DataFrame:
    """Parse lines in the fixed layout; ``usual`` is false for any other line."""
    tail = lines.str.tail(TAIL)
    dur, tensor, dram = (
        numbers(tail.str.slice(at, width), kind, Faults(), "") for at, width, kind in _CELLS)
    usual = tail.str.starts_with("|") & dur.is_not_null() & tensor.is_not_null() & dram.is_not_null()
    return pl.DataFrame({"line": lines, "name": lines.str.head(-TAIL), "dur_ns": dur, "tensor": tensor, "dram": dram,
                         "usual": usual.fill_null(False)})


_CELLS: tuple[tuple[int, int, Kind], ...] = ((1, 11, "duration"), (12, 7, "share"), (19, 7, "share"))
"""Where latency and utilisations stand in the tail of a line of the fixed layout."""


def _loose(lines: pl.Series, faults: Faults) -> pl.DataFrame:
    """Parse the remaining rows by regular expression: three cells after the last pipe, of which one is a number. What
    cannot be read is null and counted; ``usual`` is false for lines that are no launches."""
    parts = lines.str.extract_groups(ANY_ROW).struct
    cells = [parts.field(group) for group in "234"]
    is_row = pl.DataFrame(cells).select(pl.any_horizontal(pl.all().str.contains(r"^[+-]?\.?\d"))).to_series()
    dur, tensor, dram = (
        numbers(cell.set(~is_row.fill_null(False), None), kind, faults, "the table", column)
        for cell, (_, _, kind), column in zip(cells, _CELLS, ("Latency", "Tensor", "DRAM"), strict=True))
    return pl.DataFrame({"line": lines, "name": parts.field("1"), "dur_ns": dur, "tensor": tensor, "dram": dram,
                         "usual": is_row.fill_null(False)})


def parse(block: bytes, faults: Faults | None = None) -> tuple[pl.DataFrame, int, int]:
    """Complete lines → (frame of dur_ns, name, tensor, dram; number of non-launch lines; number of non-UTF-8 lines)."""
    lines, undecodable = _lines(block)
    rows, malformed = _fixed(lines), 0
    if not rows["usual"].all():
        rows = rows.with_row_index("at")
        odd = rows.filter(~pl.col("usual"))
        loose = odd.select("at").hstack(_loose(odd["line"], faults or Faults()))
        noise = (pl.col("line").str.strip_chars() == "") | pl.col("line").str.contains(HEADER_LINE)
        malformed = loose.filter(~pl.col("usual") & ~noise).height
        rows = pl.concat([rows.filter("usual"), loose.filter("usual")]).sort("at")
    name = pl.col("name").str.strip_chars_end(" ").cast(schema.NAME)
    return rows.select("dur_ns", name, pl.col("tensor", "dram").cast(pl.Float32)), malformed, undecodable


class KernelTable(FormatLoader):
    """Loader for four-column kernel tables."""

    name = "kernel-table"
    title = "Kernel table: name, latency, tensor-core and DRAM utilisation per launch, as text"
    suffixes = (".txt",)
    version = 4
    fills = ("kernels",)

    def sniff(self, head: bytes) -> bool:
        """Accept a header line; without one, two or more lines that are all rows (the last may be cut off)."""
        lines = [line for line in head.split(b"\n", 8)[:8] if line.strip()]
        if lines and HEADER.fullmatch(lines[0]):
            return True
        return len(lines) > 1 and all(ROW.fullmatch(line) for line in lines[:-1])

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels``; start_ns and device are null because the format has neither."""
        rows = _Rows(job.workspace)
        with Source(job.path) as source:
            info = self._info(job, source.size)
            for block in line_blocks(source, BLOCK_BYTES):
                frame, malformed, undecodable = parse(block, rows.faults)
                if not rows.total and frame.height and job.first_rows:
                    job.first_rows(Trace(info, kernels=_kernels(frame.head(1000).lazy())))
                rows.add(frame)
                rows.malformed += malformed
                rows.undecodable += undecodable
                job.progress(source.position, source.size, rows.total)
            cut = (source.fault,) if source.fault else ()
        if not rows.total and rows.malformed:
            raise Unreadable(job.path, "no line of it is a launch", "A row is: name | latency-ns tensor dram.")
        return (Trace(info, kernels=rows.kernels()).warn(*cut, *_warnings(rows)),)

    def _info(self, job: Job, size: int) -> Info:
        return Info(
            source=str(job.path), label=job.path.name.split(".")[0], format=self.name, tool="Nsight Compute",
            bytes=size, serialised=True,
        )  # fmt: skip


def _warnings(rows: _Rows) -> Iterator[str]:
    if not rows.total:
        yield "The table has a header and no launches."
    yield from rows.faults.warnings()
    if rows.malformed:
        yield f"{rows.malformed:,} of {rows.malformed + rows.total:,} lines are not launches and were left out."
    if rows.undecodable:
        yield f"{rows.undecodable:,} names hold bytes that are not UTF-8; they are shown as �."


LOADER = KernelTable()
