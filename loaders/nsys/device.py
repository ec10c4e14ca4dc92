"""Device activities as rows of ``kernels``: kernels, graphs recorded as a whole, copies, memsets, synchronizations."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ..schema import NAME
from . import lookups
from .database import NsysDatabase

_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_EVENT = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_SHAPE = {"grid": ("gridX", "gridY", "gridZ"), "block": ("blockX", "blockY", "blockZ")}
_KERNEL = (
    *_EVENT, "demangledName", "shortName", "registersPerThread", *_SHAPE["grid"], *_SHAPE["block"],
    "staticSharedMemory", "dynamicSharedMemory", "graphNodeId", "graphId",
)


class Devices:
    """Reads the device tables of one export into frames in the columns of ``kernels``, times as recorded."""

    def __init__(self, database: NsysDatabase, strings: pl.DataFrame) -> None:
        self._database = database
        self._names = lookups.names(strings)
        self._mapped = lookups.devices(database)
        self.whole_graphs = 0
        self._machines = lookups.machines(database)

    def blocks(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Pairs of table and block of its rows, one kind of record after another."""
        sizes = ("bytes", "graphNodeId")
        for table, columns, build in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, self._kernels),
            (_GRAPHS, (*_EVENT, "graphId"), self._graphs),
            ("CUPTI_ACTIVITY_KIND_MEMCPY", (*_EVENT, *sizes, "copyKind", "srcKind", "dstKind"), self._copies),
            ("CUPTI_ACTIVITY_KIND_MEMSET", (*_EVENT, *sizes, "memKind"), self._sets),
            ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", (*_EVENT, "syncType"), self._waits),
        ):
            for rows in self._database.blocks(table, columns, build=build):
                self.whole_graphs += rows.height if table == _GRAPHS else 0
                yield table, rows

    def _kernels(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.with_columns(id=pl.coalesce("demangledName", "shortName"))
        rows = rows.join(self._names, on="id", how="left", maintain_order="left")
        if rows["name"].null_count():
            unknown = pl.format("[name {}]", pl.col("id")).cast(NAME)
            kind = pl.col("kind").fill_null(lookups.word("kernel"))
            rows = rows.with_columns(pl.col("name").fill_null(unknown), kind)
        for name, columns in _SHAPE.items():
            rows = _shaped(rows, name, columns)
        return self._events(rows).select(
            *_COMMON, "name", "kind", _graph().alias("graph"), "grid", "block",
            pl.col("registersPerThread").alias("registers"),
            (pl.col("staticSharedMemory") + pl.col("dynamicSharedMemory")).alias("shared_bytes"),
        )

    def _graphs(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self._events(rows).select(
            *_COMMON, pl.format("CUDA graph {}", "graphId").cast(NAME).alias("name"),
            lookups.word("kernel").alias("kind"), pl.col("graphId").alias("graph"),
        )

    def _copies(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = lookups.with_copy_names(rows)
        return self._events(rows.with_columns(graphId=pl.lit(None, dtype=pl.Int64))).select(
            *_COMMON, pl.col("name").fill_null(lookups.word("Memcpy")), lookups.word("memcpy").alias("kind"),
            _graph().alias("graph"), "bytes",
        )

    def _sets(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self._events(rows.with_columns(graphId=pl.lit(None, dtype=pl.Int64))).select(
            *_COMMON, lookups.memset_name().alias("name"), lookups.word("memset").alias("kind"),
            _graph().alias("graph"), "bytes",
        )

    def _waits(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self._events(rows).select(
            *_COMMON, lookups.sync_name().alias("name"), lookups.word("sync").alias("kind")
        )

    def _events(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with the columns that all device records share."""
        rows = rows.with_columns(
            lookups.pid("globalPid").alias("pid"), pl.col("streamId").alias("stream"),
            pl.when(pl.col("correlationId") > 0).then("correlationId").alias("correlation"),
        )
        number = pl.col("deviceId")
        if self._mapped.height:
            rows = rows.join(self._mapped, on=["pid", "deviceId"], how="left", maintain_order="left")
            number = pl.coalesce("gpu", "deviceId")
        distinct = rows.select(gpu_number=number).unique()
        distinct = distinct.with_columns(pl.format("GPU {}", "gpu_number").cast(NAME).alias("device"))
        rows = rows.with_columns(gpu_number=number).join(distinct, on="gpu_number", how="left", maintain_order="left")
        if len(self._machines) < 2:
            return rows
        # a process and a device of another machine are others, even under the same number
        machine = lookups.place("globalPid", self._machines)
        return rows.with_columns(device=pl.format("VM {} GPU {}", machine, "gpu_number").cast(NAME),
                                 pid=lookups.process("globalPid", self._machines))


_COMMON = ("start", "end", "device", "stream", "pid", "correlation")


def _graph() -> pl.Expr:
    """The graph that replayed an activity: as recorded, else the upper half of its node id (CUPTI), else that id."""
    node = pl.when(pl.col("graphNodeId") > 0).then("graphNodeId")
    upper = node // (1 << 32)
    return pl.coalesce(
        pl.when(pl.col("graphId") > 0).then("graphId"), pl.when(upper > 0).then(upper), node
    )


def _shaped(rows: pl.DataFrame, name: str, columns: tuple[str, str, str]) -> pl.DataFrame:
    """Add a size as 'x,y,z': each distinct size is formatted once and joined on one integer that encodes all three."""
    x, y, z = columns
    key = (pl.col(z) * _Y + pl.col(y)) * _X + pl.col(x)
    rows = rows.with_columns(_size=key)
    distinct = rows.select("_size", *columns).unique("_size").select(
        "_size", pl.when(pl.col("_size").is_not_null()).then(pl.format("{},{},{}", x, y, z)).cast(NAME).alias(name)
    )
    return rows.join(distinct, on="_size", how="left", maintain_order="left", nulls_equal=True)


_X, _Y = 1 << 31, 1 << 16
"""Upper bounds of grid and block sizes: x, and y or z, on any device (CUDA programming guide, compute capabilities)."""
