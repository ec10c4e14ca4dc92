"""Logs of NVIDIA's monitors: ``nvidia-smi`` and ``dcgmi dmon``.

A query of nvidia-smi (``--query-gpu``) is CSV with units in the headings and, unless disabled, after every value. Its
``dmon`` has two header lines, names and units, which are repeated; without ``-o DT`` (or ``T``) its rows have no time.
Its memory in "MB" is in units of 2^20 bytes, which the query prints as MiB.

``dcgmi dmon`` prints one row per device (``GPU 0``, ``GPU-I 3``) without times; they can be prepended to each line
(``dcgmi dmon -e 203 | ts '%Y-%m-%dT%H:%M:%.S'``), which is read, too. The header is repeated and has a second line with
"ID" and, in newer versions, units.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

from ..loader import Job
from ..recording.faults import Faults
from ..recording.quantities import is_key
from ..recording.values import numbers
from . import quantities, times
from .columns import dmon_cells, dmon_header
from .loader import MOST_COLUMNS, CounterLoader, device_names, read
from .recording import CounterColumn, Reading, melted, reading_of

_UNITS = (
    (r"^utilization\.|^fan\.speed", "%"), (r"^memory\.|^fb_memory|used_gpu_memory|^used_memory", "MiB"),
    (r"^clocks[._]", "MHz"), (r"^power\.|^enforced\.power", "W"), (r"^temperature", "C"),
)
"""Pattern of query fields → their unit, for queries printed without units."""
_MOST_HEADERS = 64  # Maximum number of different headers in one log.
_DCGMI_ROW = re.compile(
    r"^(?P<when>[^#]{0,40}?)\s*(?P<device>(?:GPU|GPU[-_]C?I|Switch|CPU|Core) ?\d{1,6}(?:/\d{1,6}){0,3})\s+"
    r"(?P<rest>\S.*)$"
)
_DCGMI_UNITS = re.compile(r"(?:^|\s)ID(?:\s|$)")  # The second line of a header.
Header = tuple[tuple[str, ...], ...]
Line = tuple[str, str, list[str]]


class _Log:
    """Rows (time, device, cells) by the header above them, which is repeated and may change."""

    def __init__(self) -> None:
        self.blocks: dict[Header, list[Line]] = {}
        self._rows: list[Line] | None = None
        self._width = self.stray = 0

    def header(self, header: Header) -> None:
        """Set the header of the rows that follow: the columns, and units if there are any."""
        fits = header in self.blocks or len(self.blocks) < _MOST_HEADERS
        self._rows, self._width = self.blocks.setdefault(header, []) if fits else None, len(header[0])

    def end(self) -> None:
        """The rows that follow have no header."""
        self._rows = None

    def row(self, when: str, device: str, cells: list[str]) -> None:
        """Add a row; it counts as stray if it does not fit the header."""
        if self._rows is not None and len(cells) == self._width:
            self._rows.append((when, device, cells))
        else:
            self.stray += 1


def unit_of(name: str) -> str:
    """The unit of a field of ``--query-gpu``; '' if it has none or is not a field."""
    return next((unit for pattern, unit in _UNITS if re.search(pattern, name)), "")


class NvidiaSmi(CounterLoader):
    """The loader of nvidia-smi logs."""

    name = "nvidia-smi"
    title = "nvidia-smi: --query-gpu as CSV, dmon as text or CSV (counters)"
    suffixes = (".csv", ".txt", ".log")
    version = 6
    advice = "Record it again, as in `nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv -lms 100`."

    def read(self, text: bytes, job: Job) -> Reading | None:
        """The samples of a dmon log, or of a query's table."""
        cells = quantities.CounterCells(Faults(), job.path.name, binary=True)
        monitored = dmon_header(text[: 1 << 16]) is not None
        reading = _smi_dmon(text, cells) if monitored else read(text, cells.table, unit_of, binary=True)
        if reading is not None:
            reading.tool = "nvidia-smi"
        return reading


def _smi_dmon(text: bytes, reader: quantities.CounterCells) -> Reading:
    log, names = _Log(), list[str]()
    for line in text.decode("utf-8", "replace").split("\n"):
        cells = dmon_cells(line)
        if not line.startswith("#"):
            if line.strip():
                last = len(names) - 1  # the name of a process may hold spaces
                log.row("", "", [*cells[:last], " ".join(cells[last:])] if len(cells) > last > 0 else cells)
        elif "gpu" in cells:
            names = cells  # of dmon, or of pmon, whose rows are processes
            log.end()
        elif "Idx" in cells and len(names) == len(cells) <= MOST_COLUMNS:
            log.header((tuple(names), tuple(cells)))
    blocks = [_smi_block(reader, names, units, [cells for *_, cells in rows])
              for (names, units), rows in log.blocks.items() if rows]
    untimed = "the nvidia-smi dmon log has no timestamps: samples are shown in file order (-o DT records times)"
    return reading_of(blocks, "nvidia-smi", untimed, log.stray, reader.faults)


def _smi_block(
    reader: quantities.CounterCells, names: Sequence[str], units: Sequence[str], rows: list[list[str]]
) -> tuple[pl.DataFrame, str | None]:
    columns = {name: pl.Series([row[at] for row in rows], dtype=pl.String) for at, name in enumerate(names)}
    lowered = {name.lower(): name for name in names}
    moments = columns[lowered["time"]] if "time" in lowered else None
    if moments is not None and "date" in lowered:
        moments = (columns[lowered["date"]] + " " + moments).rename("time")
    gpu = columns["gpu"].str.strip_chars()
    devices = device_names(gpu)
    values = [
        (name, columns[name], unit) for name, unit in zip(names, units, strict=True)
        if name.lower() not in ("gpu", "date", "time", "type", "command") and not is_key(name)
    ]
    pids = numbers(columns["pid"], "id", reader.faults, reader.table) if "pid" in columns else None
    for key in ("gi", "ci"):  # an instance of a partitioned GPU is a device of its own
        if key in columns:
            part = pl.col("part").str.strip_chars()
            devices = pl.DataFrame({"device": devices, "part": columns[key]}).select(
                pl.when(part.str.contains(r"^\d+$")).then(pl.format(f"{{}} {key.upper()} {{}}", "device", part))
                .otherwise("device")).to_series()
    return _samples(reader, values, moments, devices, pids)


def _samples(
    reader: quantities.CounterCells, columns: Iterable[tuple[str, pl.Series, str]], moments: pl.Series | None,
    devices: pl.Series, pids: pl.Series | None = None,
) -> tuple[pl.DataFrame, str | None]:
    """The samples of the numeric columns (name, texts, unit), and the clock of their times."""
    at = None if moments is None else times.read(moments, "", reader.faults, reader.table)
    tracks = [
        CounterColumn(name, *read_values) for name, texts, unit in columns
        if (read_values := reader.read(texts, name, unit)) is not None
    ]
    return melted(tracks, at, devices, pids), None if at is None else at.clock


class Dcgmi(CounterLoader):
    """The loader of dcgmi dmon logs."""

    name = "dcgmi"
    title = "dcgmi dmon (counters)"
    suffixes = (".txt", ".log")
    version = 6
    advice = "Record it again, as in `dcgmi dmon -e 203,1002,155 -d 100`."

    def read(self, text: bytes, job: Job) -> Reading:
        """The samples of all rows, by the header above them."""
        log, reader = _Log(), quantities.CounterCells(Faults(), job.path.name)
        for line in text.decode("utf-8", "replace").split("\n"):
            before, mark, names = line.partition("#")
            if mark and len(before) <= 40 and names.strip().startswith("Entity"):
                log.header((tuple(names.split()[1:]),))
            elif row := _DCGMI_ROW.match(line[:100_000]):
                log.row(row["when"], row["device"], row["rest"].split())
            elif line.strip() and not _DCGMI_UNITS.search(line[:60]):
                log.stray += 1
        untimed = "dcgmi dmon logs have no timestamps: samples are shown in file order"
        blocks = [_dcgmi_block(reader, fields, rows) for (fields,), rows in log.blocks.items() if rows]
        return reading_of(blocks, "dcgmi dmon", untimed, log.stray, reader.faults)


def _dcgmi_block(
    reader: quantities.CounterCells, fields: tuple[str, ...], rows: list[Line]
) -> tuple[pl.DataFrame, str | None]:
    when, devices, cells = zip(*rows, strict=True)
    spaced = [re.sub(r"^(GPU) ?(\d)", r"\1 \2", device) for device in devices]
    columns = ((name, pl.Series([row[number] for row in cells], dtype=pl.String), quantities.dcgm_unit(name))
               for number, name in enumerate(fields))
    return _samples(reader, columns, pl.Series(when, dtype=pl.String), pl.Series(spaced, dtype=pl.String))


NVIDIA_SMI, DCGMI = NvidiaSmi(), Dcgmi()
