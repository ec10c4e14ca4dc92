"""The base class of the counter loaders: the whole text is read into one ``Reading``, which becomes one Trace.

A format defines the family of its files, how their text is read, and the advice if they hold nothing. Wide and long CSV
tables of samples from any tool are read here, by the column roles of ``columns``. ``CounterCsv`` is the loader for
tables of unknown tools: a column of times, and one column per counter or one row per sample.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence

import msgspec.structs
import polars as pl

from .. import csv_table
from ..errors import Unreadable
from ..ingest import stream
from ..loader import FormatLoader, Job
from ..recording.faults import Faults
from ..recording.quantities import MIXED, is_key
from ..recording.values import EMPTY, numbers
from ..trace import Trace
from . import quantities, times
from .columns import ColumnRoles, Layout, family, layout, plain, roles
from .quantities import CounterCells
from .recording import COLUMNS, CounterColumn, Reading, melted, trace
from .ticks import Ordered, ordered

MOST_COLUMNS = 1024
"""Maximum columns of a table. Monitors write dozens, or a few hundred with many devices side by side; each column takes
2 ms to parse."""

_DEVICE = r"(?i)^(?:gpu|card|nvidia|device|cuda:?|dev)?[ _\-:]?(\d{1,4})$"
_IN_NAME = re.compile(r"(?:^|(?<=[ _.\-/]))gpu[ _:\-]?(\d{1,3})(?=$|[ _.\-/:])[ _.\-/:]*", re.I)


class TooWide(Exception):
    """The table has more than ``MOST_COLUMNS`` columns; the message is their number."""


def read(
    text: bytes, table: str, unit_of: Callable[[str], str] = lambda name: "", binary: bool = False
) -> Reading | None:
    """The samples of a table that begins with its header; None if it has no header.

    ``unit_of`` gives the unit of a counter by its plain name, if neither heading nor values have one; ``binary``: MB
    is 2^20 bytes. Wrong cells are counted under ``table``. Raises TooWide.
    """
    cells = CounterCells(Faults(), table, binary)
    columns = layout(text[: 1 << 20])
    if columns is None:
        return None
    if len(columns.columns) > MOST_COLUMNS:
        raise TooWide(f"{len(columns.columns):,} columns")
    frame = _frame(text, columns, cells)
    what = roles(tuple(frame.columns))
    frame = _without_headers(frame, what)
    reading = _long(frame, what, cells) if what.metric is not None else _wide(frame, what, unit_of, cells)
    reading.faults, reading.rows = cells.faults, frame.height
    return reading


def _frame(text: bytes, columns: Layout, cells: CounterCells) -> pl.DataFrame:
    """The rows as text, under their headings."""
    for _ in range(columns.line):
        text = text[text.find(b"\n") + 1 :]
    text = times.with_points(text, columns.separator)
    frame = csv_table.read(text, separator=columns.separator, faults=cells.faults, table=cells.table)
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))  # empty lines
    return frame.rename(_stripped(frame.columns))


def _stripped(names: list[str]) -> dict[str, str]:
    """Heading → heading without surrounding spaces, unless another column already has that name."""
    used_names, results = set(names), dict[str, str]()
    for name in names:
        if (plain := name.strip()) not in used_names:
            used_names.add(plain)
            results[name] = plain
    return results


def _without_headers(frame: pl.DataFrame, what: ColumnRoles) -> pl.DataFrame:
    """Drop header lines repeated among the rows, as in concatenated files."""
    column = what.time or frame.columns[0]
    return frame.filter(pl.col(column).is_null() | (pl.col(column).str.strip_chars() != column))


def moments(frame: pl.DataFrame, what: ColumnRoles, cells: CounterCells) -> times.Times | None:
    """The times of the rows; None if there is no readable time column."""
    if what.time is None:
        return None
    texts = frame[what.time]
    if what.date is not None:
        joined = pl.format("{} {}", pl.col(what.date).str.strip_chars(), pl.col(what.time).str.strip_chars())
        texts = frame.select(joined).to_series().alias(what.time)
    return times.read(texts, what.unit, cells.faults, cells.table)


def device_names(texts: pl.Series) -> pl.Series:
    """Device names as in the data model, 'GPU 3'; a device without a number keeps its own name."""
    text = pl.col("text").str.strip_chars()
    number = text.str.extract(_DEVICE).str.replace(r"^0+(\d)", "$1")
    known = ~text.str.to_lowercase().is_in(list(EMPTY | {"nan"}))
    display_name = pl.when(number.is_not_null()).then(pl.format("GPU {}", number)).when(known).then(text)
    return texts.to_frame("text").select(display_name.alias("device")).to_series()


def _wide(frame: pl.DataFrame, what: ColumnRoles, unit_of: Callable[[str], str], cells: CounterCells) -> Reading:
    at = moments(frame, what, cells)
    whose = what.device or what.identity
    if whose is not None and _is_load(frame, whose):
        whose, what = what.identity, msgspec.structs.replace(what, device=None)
    board = not _OF_A_BOARD.isdisjoint(map(plain, frame.columns))
    devices = None if whose is None else device_names(frame[whose])
    parts = ordered(at, None if what.product is None else frame[what.product]) if devices is None else None
    devices = parts.devices if parts is not None else devices
    pids = _processes(frame, what, cells)
    used = {what.time, what.date, what.device, what.identity, what.process, what.product, None}
    tracks: list[CounterColumn] = []
    left_out: list[str] = []
    for column in frame.columns:
        if column in used or is_key(plain(column)):
            continue
        name, unit = quantities.heading(column)
        unit = unit or unit_of(plain(column)) or (_unit_on_board(plain(column)) if board else "")
        numbers = cells.read(frame[column], column, unit)
        if numbers is None:
            left_out.append(column)
            continue
        metric, device = (name, None) if devices is not None else _of_device(name)
        tracks.append(CounterColumn(metric, *numbers, device))
    samples = melted(tracks, at, devices, pids)
    if parts is not None and parts.mixed:
        samples = samples.with_columns(kind=pl.lit(MIXED))
    return Reading(
        samples, None if at is None else at.clock, devices=_products(frame, what, devices, samples), left_out=left_out,
        warnings=[parts.note] if parts is not None else [],
    )


def _is_load(frame: pl.DataFrame, column: str) -> bool:
    """Whether a column called GPU holds how busy it is, as on boards with one: by its neighbours or its texts."""
    if plain(column) != "gpu":
        return False
    if _OF_A_BOARD & {plain(name) for name in frame.columns}:
        return True
    return bool(frame[column].str.contains(r"^\s*\d+(?:\.\d+\s*%?|\s*%)\s*$").any())


def _unit_on_board(name: str) -> str:
    return "mW" if name.startswith("power") else "%" if re.fullmatch(r"gpu|cpu\d*", name) else ""


_OF_A_BOARD = frozenset(("emc", "ape", "nvdec", "jetson_clocks", "nvp model"))
"""Columns of jtop, the monitor of NVIDIA's boards."""


def _processes(frame: pl.DataFrame, what: ColumnRoles, cells: CounterCells) -> pl.Series | None:
    return None if what.process is None else numbers(frame[what.process], "id", cells.faults, cells.table)


def _of_device(name: str) -> tuple[str, str | None]:
    """A counter's name without the device in it, and that device (None if there is none)."""
    match = _IN_NAME.search(name)
    if match is None:
        return name, None
    rest = (name[: match.start()] + name[match.end() :]).strip(" _.-/:")
    return rest or name, f"GPU {int(match[1])}"


def _products(
    frame: pl.DataFrame, what: ColumnRoles, devices: pl.Series | None, samples: pl.DataFrame
) -> dict[str, str | None]:
    """Device → product name; None where no column gives it."""
    if devices is None or what.product is None:
        products: Sequence[tuple[str, str | None]] = [(name, None) for name in _few(samples["device"])]
        return dict(products)
    pairs = pl.DataFrame({"device": devices, "product": frame[what.product].str.strip_chars()})
    rows = pairs.drop_nulls("device").unique("device", keep="first", maintain_order=True).rows()
    return {str(device): product or None for device, product in rows}


def _few(devices: pl.Series) -> list[str]:
    return [str(name) for name in devices.drop_nulls().unique(maintain_order=True)]


def _long(frame: pl.DataFrame, what: ColumnRoles, cells: CounterCells) -> Reading:
    """A long table: one row per sample, with its counter's name in one column and its value in another."""
    assert what.metric is not None and what.value is not None
    at = moments(frame, what, cells)
    headings = {text: quantities.heading(text or "") for text in frame[what.metric].unique()}
    written = frame[what.metric].replace_strict({text: pair[1] for text, pair in headings.items()},
                                                return_dtype=pl.String)
    unit = frame[what.unit_column].fill_null("").str.strip_chars() if what.unit_column is not None else written
    read_values = cells.read(frame[what.value], what.value, unit)
    if read_values is None:
        return Reading(pl.DataFrame(schema=COLUMNS))
    devices = device_names(frame[what.device]) if what.device is not None else pl.Series(
        [None], dtype=pl.String).extend_constant(None, frame.height - 1)
    names = {text: pair[0] for text, pair in headings.items()}
    placed = {text: _of_device(name) for text, name in names.items()} if what.device is None else {
        text: (name, None) for text, name in names.items()}
    metric = frame[what.metric].replace_strict({t: pair[0] or None for t, pair in placed.items()},
                                               return_dtype=pl.String)
    in_name = frame[what.metric].replace_strict({t: pair[1] for t, pair in placed.items()}, return_dtype=pl.String)
    devices = devices.to_frame("d").select(pl.coalesce("d", in_name)).to_series()
    parts = _by_order(at, metric) if what.identity is None and devices.null_count() == len(devices) else None
    samples = pl.DataFrame({
        "ts_ns": at.ns if at is not None else pl.Series([None] * frame.height, dtype=pl.Int64), "metric": metric,
        "device": devices if parts is None or parts.devices is None else parts.devices,
        "value": read_values[0], "unit": read_values[1], "pid": _processes(frame, what, cells),
        "kind": pl.repeat(MIXED if parts is not None and parts.mixed else None, frame.height, dtype=pl.String,
                          eager=True),
    }, schema=COLUMNS).drop_nulls("metric")
    return Reading(samples, None if at is None else at.clock, devices=dict.fromkeys(_few(samples["device"])),
                   warnings=[parts.note] if parts is not None else [])


def _by_order(at: times.Times | None, metric: pl.Series) -> Ordered | None:
    """The devices of rows that name none, where one counter has several rows at one time; else None."""
    if at is None or at.ns.null_count():
        return None
    rows = pl.DataFrame({"at": at.ns, "metric": metric}).with_row_index("row")
    if rows.select("at", "metric").is_unique().all():
        return None
    every = [(part["row"], ordered(times.Times(part["at"], at.clock), None))
             for part in rows.partition_by("metric", maintain_order=True)]
    if any(one is None or one.mixed or one.devices is None for _, one in every):
        return next((one for _, one in every if one is not None and one.mixed), None)
    placed = pl.concat([pl.DataFrame({"row": row, "device": one.devices}) for row, one in every if one is not None])
    first = every[0][1]
    return None if first is None else Ordered(placed.sort("row")["device"], first.note)


class CounterLoader(FormatLoader):
    """Base of the loaders of counter files; ``name`` is the format's family in ``columns.family``."""

    fills = ("metrics",)
    is_sidecar = True

    advice: str = ""
    """A sentence of advice for a file without samples."""
    holds_nothing = "holds no row of samples"
    """The error message for a file without samples."""
    too_wide = "which no monitor writes"
    """Appended to the error message for a table with too many columns; '' for nothing."""

    def sniff(self, head: bytes) -> bool:
        """Whether the file belongs to this family; decided once per file for all counter loaders."""
        return family(head) == self.name

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``metrics``. Raises Unreadable if the file holds no sample."""
        text, fault = stream.read_all(job.path)
        job.progress(len(text) // 2, len(text), 0)
        try:
            reading = self.read(text, job)
        except TooWide as error:
            why = f"has {error}, {self.too_wide}" if self.too_wide else f"has {error}"
            raise Unreadable(job.path, why, self.advice_for(text)) from None
        if reading is None or reading.samples.is_empty():
            raise Unreadable(job.path, self.holds_nothing, self.advice_for(text))
        if fault:
            reading.warnings.append(fault)
        result = trace(job, self.name, reading, len(text))
        job.progress(len(text), len(text), reading.samples.height)
        return (result,)

    def advice_for(self, text: bytes) -> str:
        """The advice for a file with this text."""
        return self.advice

    @abstractmethod
    def read(self, text: bytes, job: Job) -> Reading | None:
        """The samples in the text, None if it has no table of them. May raise TooWide and Unreadable."""


class CounterCsv(CounterLoader):
    """The loader of sample tables from unknown tools."""

    name = "counters-csv"
    title = "CSV with a time column: one column per counter, or one row per sample (metric, value)"
    suffixes = (".csv", ".tsv")
    version = 7
    too_wide = ""
    advice = "A table of samples needs a time column (timestamp, time or ts) and numeric columns."

    def read(self, text: bytes, job: Job) -> Reading | None:
        """The samples of the table."""
        return read(text, job.path.name)


LOADER = CounterCsv()
