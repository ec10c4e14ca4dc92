"""One recording of AMD's tools on its way to a Trace: rows as they come, times as recorded, put in order at the end.

Every reader of the family gives frames with ``start`` and ``end`` (Int64, ns of the recorder's clock) and columns named
as those of the table. Here times that are none are counted, collectives are told from kernels, and the earliest time of
the whole recording becomes zero.
"""

from __future__ import annotations

import re
from concurrent.futures import Executor
from pathlib import Path

import polars as pl

from .. import schema
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..loader import Job
from ..nsys.spool import TableSpool, warnings_of
from ..trace import Device, Info, Trace
from .values import LIMIT, Faults

_FIRST_ROWS = 100_000
_UNNAMED = "[no name recorded]"


class Recording:
    """Collects rows of the three tables. ``known`` describes devices by id; those that only occur are added to them."""

    def __init__(self, job: Job, info: Info, writer: Executor) -> None:
        self.faults = Faults()
        self.known: dict[str, Device] = {}
        self._job, self._info = job, info
        self._kernels, self._host = (TableSpool(table, job.workspace, writer) for table in ("kernels", "host"))
        self._metrics = TableSpool("metrics", job.workspace, writer, "ts_ns")
        self._devices: set[str] = set()
        self._kinds: set[str] = set()
        self._shown = False
        self._by_stream: bool | None = None

    @property
    def path(self) -> Path:
        """The file that was opened."""
        return self._job.path

    @property
    def rows(self) -> int:
        """Rows so far, of all tables."""
        return self._kernels.rows + self._host.rows + self._metrics.rows

    @property
    def earliest(self) -> int | None:
        """The earliest time so far, which becomes zero; None without any."""
        spools = (self._kernels, self._host, self._metrics)
        return min((spool.earliest for spool in spools if spool.earliest is not None), default=None)

    def by_stream(self, ids: pl.Series) -> bool:
        """Whether kernels are on HIP streams (some of the first of them are on another than 0) or else on queues."""
        if self._by_stream is None:
            self._by_stream = bool((ids.fill_null(0) > 0).any())
        return self._by_stream

    def activities(self, rows: pl.DataFrame, what: str, kind: str | None = None) -> None:
        """Add device activities; ``kind`` None tells collectives from kernels by name, or takes the column."""
        rows = self._timed(rows, what)
        if kind is not None:
            rows = rows.with_columns(kind=pl.lit(kind))
        elif "kind" not in rows.columns:
            names = rows["name"].unique()
            kinds = pl.DataFrame({"name": names, "kind": [kernel_kind(name) for name in names]}, schema=_KINDS)
            rows = rows.join(kinds, on="name", how="left", maintain_order="left")
        self._kinds |= set(rows["kind"].unique())
        if "device" in rows.columns:
            self._devices |= set(rows["device"].drop_nulls().unique())
        self._kernels.add(_conformed("kernels", rows))
        if self._job.first_rows is not None and not self._shown and self._kernels.rows > _FIRST_ROWS:
            self._shown = True
            if (first := self._kernels.first(_FIRST_ROWS)) is not None:
                preview = _moved(first.lazy(), self._kernels.earliest or 0).with_row_index("index")
                self._job.first_rows(Trace(self._info, kernels=schema.conform("kernels", preview)))

    def calls(self, rows: pl.DataFrame, what: str, kind: str | None = None) -> None:
        """Add host slices, all of one kind or with a column of it."""
        rows = self._timed(rows, what)
        if kind is not None:
            rows = rows.with_columns(kind=pl.lit(kind))
        self._host.add(_conformed("host", rows))

    def samples(self, rows: pl.DataFrame, what: str) -> None:
        """Add samples: ``ts_ns metric value`` and, where known, ``device unit pid``. A sample without time is none."""
        good = (pl.col("ts_ns") >= 0) & (pl.col("ts_ns") < LIMIT) & pl.col("value").is_finite()
        valid = rows.filter(good & pl.col("metric").is_not_null())
        if lost := rows.height - valid.height:
            self.faults.left_out[what] += lost
        if "device" in valid.columns:
            self._devices |= set(valid["device"].drop_nulls().unique()) - {"Host"}
        self._metrics.add(_conformed("metrics", valid))

    def allocations(self, blocks: list[pl.DataFrame]) -> None:
        """Add the metric ``memory allocated`` of each device, from all allocations and frees of the run.

        The blocks have ``at key free size device`` (ns, address, bool, B, text). A free names only an address, so its
        size and device are those of the allocation that was last made there; one whose allocation was not recorded
        changes nothing.
        """
        if not blocks:
            return
        rows = pl.concat(blocks).drop_nulls(["at", "key"]).sort("at", maintain_order=True)
        size = pl.col("size").clip(lower_bound=0).fill_null(0).cast(pl.Float64)
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
        """Rows that have a start, with ``start_ns`` and ``dur_ns``; an end that is no time leaves the duration null."""
        start, end = (pl.when((pl.col(name) >= 0) & (pl.col(name) < LIMIT)).then(name) for name in ("start", "end"))
        bad = rows.select(
            start=(pl.col("start").is_not_null() & start.is_null()).sum(),
            end=(pl.col("end").is_not_null() & end.is_null()).sum(),
        ).row(0)
        if sum(bad):
            self.faults.values[what] += sum(bad)
        valid = rows.with_columns(start_ns=start, dur_ns=end - start).drop_nulls("start_ns")
        if lost := rows.height - valid.height:
            self.faults.left_out[what] += lost
        return valid.with_columns(pl.col("name").fill_null(_UNNAMED).cast(pl.String))

    def finish(self, **about: object) -> Trace:
        """The Trace; ``about`` are more fields of its Info. Raises Unreadable where nothing was recorded."""
        zero = self.earliest
        if zero is None:
            raise Unreadable(self._job.path, "holds no event with a time", "Check that the recording has any.")
        devices = sorted(self._devices | self.known.keys(), key=lambda name: (len(name), name))
        info = Info(**{
            **{name: getattr(self._info, name) for name in Info.__struct_fields__}, **about,
            "devices": tuple(self.known.get(device) or Device(device) for device in devices),
            "warnings": (
                *self._info.warnings, *self.faults.warnings(), *warnings_of(self._kernels, self._host, self._kinds),
            ),
        })
        return Trace(
            info,
            kernels=self._kernels.finish(lambda rows: _moved(rows, zero).with_row_index("index"), ("index",)),
            host=self._host.finish(lambda rows: _moved(rows, zero)),
            metrics=self._metrics.finish(lambda rows: rows.with_columns(pl.col("ts_ns") - zero)),
        )


_KINDS = {"name": pl.String, "kind": pl.String}
_MARK = re.compile(r"MARKER|ROCTX|NVTX", re.IGNORECASE)
_DRIVER = re.compile(r"HSA|DRIVER|KFD|SCRATCH|MEMORY_ALLOCATION", re.IGNORECASE)
_RUNTIME = re.compile(r"HIP|RCCL|NCCL|ROCDECODE|ROCJPEG|RUNTIME|OMPT|ROCBLAS|MIOPEN", re.IGNORECASE)


def kind_of_domain(domain: str) -> str:
    """What kind of host slice the calls of a domain (HIP_RUNTIME_API, MARKER_CORE_API, …) are.

    'annotation' for marks, 'driver' for HSA and below, 'runtime' for HIP and libraries; 'annotation' for others.
    """
    if _DRIVER.search(domain) and not _MARK.search(domain):
        return "driver"
    return "runtime" if _RUNTIME.search(domain) and not _MARK.search(domain) else "annotation"


def fraction(value: pl.Expr, name: str) -> pl.Expr:
    """A fraction of peak; what cannot be one (negative, or half as much again as the peak) is null."""
    return pl.when((value >= 0) & (value <= 1.5)).then(value).alias(name)


def _moved(rows: pl.LazyFrame, zero: int) -> pl.LazyFrame:
    return rows.with_columns(pl.col("start_ns") - zero, pl.col("dur_ns").clip(lower_bound=0))


def _conformed(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The columns that are the table's, in its dtypes, so that blocks of several sources go together."""
    columns = schema.polars_schema(table)
    present = {name: dtype for name, dtype in columns.items() if name in rows.columns}
    return rows.select(pl.col(name).cast(dtype, strict=False) for name, dtype in present.items())


def size(x: str, y: str, z: str) -> pl.Expr:
    """A grid or block as 'x,y,z'; null where one of them is."""
    return pl.format("{},{},{}", x, y, z)


def one_axis(column: str) -> pl.Expr:
    """A size that was recorded as a product, as 'n,1,1'."""
    return pl.when(pl.col(column).is_not_null()).then(pl.format("{},1,1", column))
