"""Collects the rows of one recording, in any order and with times as recorded, and sorts them into a Trace at the end.

Readers pass frames with ``start`` and ``end`` (Int64, ns of the recorder's clock) and columns named as in the schema.
Collectives are recognised among kernels by name, and the earliest time of the whole recording becomes zero. Readers
make their columns with ``values``; an activity without a start has no place and no duration, and is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import polars as pl

from .. import schema
from ..account.repeats import without_repeats
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..loader import Job
from ..schema import NAME
from ..trace import Device, Info, Trace
from . import quantities
from .faults import Faults
from .spool import TableSpool, warnings_of
from .values import EMPTY, UNNAMED, Clock

_NO_DEVICE = re.compile(r"\s*(?:(?:GPU|Agent|NPU) )?(?:nan|-\d+)\s*", re.IGNORECASE)
_FIRST_ROWS = 100_000
_MOST_MEASURED = 20_000_000  # Maximum rows of ``launch_metrics``, which stay in memory until the end.


class Recording:
    """Collects the rows of five tables. ``described`` are devices by id; others found in rows are added to them."""

    def __init__(self, job: Job, info: Info, writer: Executor, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.clock = Clock(self.faults)
        self.described: dict[str, Device] = {}
        self._job, self._info = job, info
        self._kernels, self._host = (TableSpool(table, job.workspace, writer) for table in ("kernels", "host"))
        self._metrics = TableSpool("metrics", job.workspace, writer, "ts_ns")
        self._chains = TableSpool("call_chains", job.workspace, writer)
        self._measured: list[pl.DataFrame] = []
        self._measured_rows = 0
        self.notes: list[str] = []  # Notes for views of single launches.
        self._devices: set[str] = set()
        self._kinds: set[str] = set()
        self._previewed = job.first_rows is None
        self._by_stream: bool | None = None

    @property
    def path(self) -> Path:
        """The file that was opened."""
        return self._job.path

    @property
    def rows(self) -> int:
        """Number of rows of kernels, host and metrics so far."""
        return self._kernels.rows + self._host.rows + self._metrics.rows

    @property
    def earliest(self) -> int | None:
        """The earliest time so far, which becomes zero; None without rows."""
        spools = (self._kernels, self._host, self._metrics, self._chains)
        return min((spool.earliest for spool in spools if spool.earliest is not None), default=None)

    def by_stream(self, ids: pl.Series) -> bool:
        """Whether ``stream`` is the HIP stream (some of the first kernels are on one other than 0), else the queue."""
        if self._by_stream is None:
            self._by_stream = bool((ids.fill_null(0) > 0).any())
        return self._by_stream

    def activities(self, rows: pl.DataFrame, what: str, kind: str | None = None) -> None:
        """Add device activities. Without ``kind``, their column of that name or else their name decides the kind. A row
        with neither start nor name is none."""
        given = rows.height
        rows = self._timed(rows.filter(pl.col("name").is_not_null() | pl.col("start").is_not_null()), what)
        if lost := given - rows.height:
            self.faults.left_out[what] += lost
        if kind is not None:
            rows = rows.with_columns(kind=pl.lit(kind))
        elif "kind" not in rows.columns:
            rows = rows.with_columns(pl.col("name").cast(pl.String))
            names = rows["name"].unique()
            kinds = pl.DataFrame({"name": names, "kind": [kernel_kind(name) for name in names]}, schema=_KINDS)
            rows = rows.join(kinds, on="name", how="left", maintain_order="left")
        self.add_kernels(rows)

    def add_kernels(self, rows: pl.DataFrame) -> None:
        """Add rows of ``kernels`` with times as recorded."""
        rows = _conformed("kernels", rows)
        self._kinds |= set(rows["kind"].unique().drop_nulls().cast(pl.String))
        if "device" in rows.columns:
            rows = self._with_devices(rows)
        self._kernels.add(rows)
        if not self._previewed and self._kernels.rows > _FIRST_ROWS:
            self._previewed = True
            if self._job.first_rows is not None and (first := self._kernels.first(_FIRST_ROWS)) is not None:
                preview = _moved(first.lazy(), self._kernels.earliest or 0).with_row_index("index")
                self._job.first_rows(Trace(self._info, kernels=schema.conform("kernels", preview)))

    def _with_devices(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with null for labels that name no device ('nan', 'GPU -1'); the others are listed."""
        devices = set(rows["device"].unique().drop_nulls().cast(pl.String))
        if blank := {device for device in devices if _NO_DEVICE.fullmatch(device) or device.strip().lower() in EMPTY}:
            rows = rows.with_columns(pl.when(~pl.col("device").cast(pl.String).is_in(list(blank))).then("device"))
        self._devices |= devices - blank - {"Host"}
        return rows

    def calls(self, rows: pl.DataFrame, what: str, kind: str | None = None) -> None:
        """Add host slices, all of one ``kind`` or with a column ``kind``."""
        given = rows.height
        rows = self._timed(rows.filter(pl.col("name").is_not_null() | pl.col("start").is_not_null()), what)
        if lost := given - rows.height:
            self.faults.left_out[what] += lost
        self.add_host(rows if kind is None else rows.with_columns(kind=pl.lit(kind)))

    def add_host(self, rows: pl.DataFrame) -> None:
        """Add rows of ``host`` with times as recorded."""
        self._host.add(_conformed("host", rows))

    def samples(self, rows: pl.DataFrame, what: str) -> None:
        """Add samples: ``ts_ns metric value`` and, if known, ``device unit pid``; those without a time or name are
        counted and dropped."""
        valid = rows.filter(pl.col("ts_ns").is_not_null() & pl.col("metric").is_not_null())
        if lost := rows.height - valid.height:
            self.faults.left_out[f"the counters of {what}" if "counters" not in what else what] += lost
        valid = self._with_devices(valid) if "device" in valid.columns else valid
        self.add_metrics(valid)

    def add_metrics(self, rows: pl.DataFrame) -> None:
        """Add rows of ``metrics`` with times as recorded."""
        self._metrics.add(_conformed("metrics", quantities.checked(rows, self.faults, "the counters")))

    def call_chains(self, rows: pl.DataFrame, what: str) -> None:
        """Add call chains of samples and calls; their times are counted where the calls are read, too."""
        timed = Clock(Faults()).timed(rows, what).drop_nulls("start_ns")
        self._chains.add(_conformed("call_chains", timed))

    def counters(self, rows: pl.DataFrame, what: str) -> None:
        """Add counters of kernel dispatches, as samples and as metrics of their launch: ``ts_ns`` (its start) ``metric
        value device`` and, if known, ``unit pid``. Their sections are the hardware blocks."""
        self.samples(rows, what)
        names = rows["metric"].unique().drop_nulls().cast(pl.String)
        sections = {name: counter_section(name) for name in names}
        self.measured(rows.drop_nulls(["ts_ns", "value"]).select(
            "metric", "value", "device", start="ts_ns", unit=pl.lit(None, pl.String),
            section=pl.col("metric").cast(pl.String).replace_strict(sections, default=None, return_dtype=pl.String)))

    def measured(self, rows: pl.DataFrame) -> None:
        """Add metrics of launches: ``start device section metric value unit``; start and device identify the launch."""
        self._measured_rows += rows.height
        if self._measured_rows > _MOST_MEASURED:
            note = f"Only the first {_MOST_MEASURED:,} metrics of single launches are kept; the metrics view has all."
            self.notes += [] if note in self.notes else [note]
            return
        self._measured.append(rows.select(
            "start", "value", pl.col("device", "metric", "section").cast(NAME), pl.col("unit").cast(pl.String)))

    def allocations(self, blocks: list[pl.DataFrame]) -> None:
        """Add the metric ``memory allocated`` of each device, from all allocations and frees of the run.

        The blocks have ``at key free size device`` (ns, address, bool, B, text). A free records only an address, so its
        size and device are those of the last allocation at that address; a free without a recorded allocation is
        ignored.
        """
        if not blocks:
            return
        rows = pl.concat(blocks).drop_nulls(["at", "key"]).sort("at", maintain_order=True)
        size = pl.col("size").cast(pl.Float64)
        rows = rows.with_columns(
            change=pl.when("free").then(-size.shift(1).over("key")).otherwise(size),
            device=pl.when("free").then(pl.col("device").shift(1).over("key")).otherwise(pl.col("device")),
            after=pl.col("free").shift(1).over("key"),
        )
        sized = rows.filter(~pl.col("free") | pl.col("after").eq(False)).drop_nulls("change")
        self.samples(sized.select(
            "device", ts_ns="at", metric=pl.lit("memory allocated"), unit=pl.lit("B"),
            value=pl.col("change").cum_sum().over("device"),
        ), "memory allocations")

    def _timed(self, rows: pl.DataFrame, what: str) -> pl.DataFrame:
        """The rows with ``start_ns`` and ``dur_ns``, null where the start or end is no time, and a name for all."""
        timed = self.clock.timed(rows, what)
        return timed.with_columns(pl.col("name").fill_null(UNNAMED)) if timed["name"].null_count() else timed

    def finish(
        self, shape: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda rows: rows, derived: tuple[str, ...] = (),
        **about: object,
    ) -> Trace:
        """The finished Trace; ``about`` are additional fields of its Info. ``shape`` transforms kernels and host and
        adds the columns ``derived``. Raises Unreadable if nothing was recorded."""
        zero = self.earliest
        if zero is None and not self._kernels.rows:
            why = "; ".join(self.faults.warnings()[:2])
            raise Unreadable(self._job.path, f"holds no event with a time{f' ({why})' if why else ''}",
                             "Check that the recording has any, and that no spreadsheet has saved it.")
        zero = zero or 0
        devices = sorted(self._devices | self.described.keys(), key=lambda name: (len(name), name))
        if self.notes:
            about["facts"] = {**self._info.facts, "measured_notes": self.notes}
        info = Info(**{
            **{name: getattr(self._info, name) for name in Info.__struct_fields__}, **about,
            "devices": tuple(self.described.get(device) or Device(device) for device in devices),
            "warnings": (
                *self._info.warnings, *self.faults.warnings(), *warnings_of(self._kernels, self._host, self._kinds),
            ),
        })

        def placed(rows: pl.LazyFrame) -> pl.LazyFrame:
            return shape(_moved(rows, zero))

        kernels = self._kernels.finish(lambda rows: placed(rows).with_row_index("index"), ("index", *derived))
        trace = Trace(
            info, kernels, host=self._host.finish(placed, derived),
            metrics=self._metrics.finish(lambda rows: rows.with_columns(pl.col("ts_ns") - zero)),
            call_chains=self._chains.finish(lambda rows: rows.with_columns(pl.col("start_ns") - zero)),
        )
        trace = without_repeats(trace, self._job)
        if not self._measured:
            return trace
        return trace.with_tables(launch_metrics=self._of_launches(trace.kernels, zero))

    def _of_launches(self, kernels: pl.LazyFrame, zero: int) -> pl.LazyFrame:
        """The table ``launch_metrics``; ``index`` is null for metrics whose launch was not recorded."""
        launch = ["start_ns", "device"]
        launches = kernels.select("index", *launch).unique(launch, keep="first", maintain_order=True)
        rows = pl.concat(self._measured).with_columns(start_ns=pl.col("start") - zero).lazy().join(
            launches, launch, nulls_equal=True, maintain_order="left")
        return schema.conform("launch_metrics", rows.sort("index", maintain_order=True))


_KINDS = {"name": pl.String, "kind": pl.String}


def counter_section(counter: str) -> str:
    """The hardware block of an AMD counter: 'SQ counters' for SQ_WAVES, 'Derived counters' without a block prefix."""
    block = counter.partition("_")[0]
    return f"{block} counters" if "_" in counter and block.isupper() else "Derived counters"


def _moved(rows: pl.LazyFrame, zero: int) -> pl.LazyFrame:
    return rows.with_columns(pl.col("start_ns") - zero)


def _conformed(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The frame's columns that the table has, in its dtypes, so that blocks of several sources can be concatenated."""
    columns = schema.polars_schema(table)
    present = {name: dtype for name, dtype in columns.items() if name in rows.columns}
    return rows.select(pl.col(name).cast(dtype, strict=False) for name, dtype in present.items())


def size(x: str, y: str, z: str) -> pl.Expr:
    """A grid or block as 'x,y,z'; null if one of them is null."""
    return pl.format("{},{},{}", x, y, z)


def one_axis(column: str) -> pl.Expr:
    """A size recorded as a total, as 'n,1,1'."""
    return pl.when(pl.col(column).is_not_null()).then(pl.format("{},1,1", column))
