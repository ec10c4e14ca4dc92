"""What ``nvidia-smi`` prints of a machine's devices over time: ``--query-gpu`` as CSV, and ``dmon`` as text or CSV.

A query has its units in the headings and, unless asked not to, behind every value. ``dmon`` has two header lines, names
and units, and repeats them; without ``-o DT`` (or ``T``) its rows have no time. Its memory in "MB" is in units of 2^20
bytes, as the query's MiB shows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from ..loader import Job
from . import quantities, times
from .columns import dmon_cells, dmon_header
from .loader import CounterLoader
from .recording import CounterColumn, Reading, melted, put_together
from .tables import MOST_COLUMNS, read

_UNITS = (
    (r"^utilization\.|^fan\.speed", "%"), (r"^memory\.|^fb_memory|used_gpu_memory|^used_memory", "MiB"),
    (r"^clocks[._]", "MHz"), (r"^power\.|^enforced\.power", "W"), (r"^temperature", "C"),
)
"""Fields of a query → their unit where it was asked for without units."""
_MOST_HEADERS = 64
"""Different headers in one log of dmon."""


def unit_of(name: str) -> str:
    """The unit of a field of ``--query-gpu``; '' for what has none or is no field."""
    return next((unit for pattern, unit in _UNITS if re.search(pattern, name)), "")


class NvidiaSmi(CounterLoader):
    """The loader of nvidia-smi's logs."""

    name = "nvidia-smi"
    title = "nvidia-smi: --query-gpu as CSV, dmon as text or CSV (counters)"
    suffixes = (".csv", ".txt", ".log")
    version = 2
    advice = "Record it again, as in `nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv -lms 100`."

    def read(self, text: bytes, job: Job) -> Reading | None:
        """The rows of dmon, or the table that a query printed."""
        reading = _dmon(text) if dmon_header(text[: 1 << 16]) is not None else read(text, unit_of)
        if reading is not None:
            reading.tool = "nvidia-smi"
        return reading


def _dmon(text: bytes) -> Reading:
    """Rows under the header that stands above them: it is repeated, and may change in files put together."""
    names: list[str] = []
    blocks: dict[tuple[tuple[str, ...], tuple[str, ...]], list[list[str]]] = {}
    rows: list[list[str]] | None = None
    width = stray = 0
    for line in text.decode("utf-8", "replace").split("\n"):
        cells = dmon_cells(line)
        if line.startswith("#"):
            if "gpu" in cells:
                names, rows = cells, None
            elif "Idx" in cells and len(names) == len(cells) <= MOST_COLUMNS and len(blocks) < _MOST_HEADERS:
                rows, width = blocks.setdefault((tuple(names), tuple(cells)), []), len(cells)
        elif line.strip():
            if rows is not None and len(cells) == width:
                rows.append(cells)
            else:
                stray += 1
    untimed = "nvidia-smi dmon was run without times: its samples are shown in their order (-o DT writes times)"
    samples = [_block(*header, rows) for header, rows in blocks.items() if rows]
    return put_together(samples, "nvidia-smi", untimed, stray)


def _block(names: Sequence[str], units: Sequence[str], rows: list[list[str]]) -> tuple[pl.DataFrame, str | None]:
    columns = {name: pl.Series([row[at] for row in rows], dtype=pl.String) for at, name in enumerate(names)}
    lowered = {name.lower(): name for name in names}
    at = None
    if "time" in lowered:
        texts = columns[lowered["time"]]
        if "date" in lowered:
            texts = (columns[lowered["date"]] + " " + texts).rename("time")
        at = times.read(texts)
    gpu = columns["gpu"].str.strip_chars()
    devices = gpu.to_frame("gpu").select(
        pl.when(pl.col("gpu").str.contains(r"^\d+$")).then(pl.format("GPU {}", "gpu")).otherwise("gpu")
    ).to_series()
    tracks = []
    for name, unit in zip(names, units, strict=True):
        if name.lower() in ("gpu", "date", "time"):
            continue
        numbers = quantities.numbers(columns[name], "MiB" if unit == "MB" else unit)
        if numbers is not None:
            tracks.append(CounterColumn(name, *numbers))
    return melted(tracks, at, devices, None), None if at is None else at.clock


LOADER = NvidiaSmi()
