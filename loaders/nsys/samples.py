"""GPU metrics samples, as rows of ``metrics``.

Since 2022 they have tables of their own (GPU_METRICS, named in TARGET_INFO_GPU_METRICS); before, every sample was a
generic event with all its values as JSON. In both, the lowest byte of ``typeId`` is the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import polars as pl

from ..recording.faults import NOT_FINITE, Faults
from ..recording.values import number
from ..schema import NAME
from .database import NsysDatabase
from .lookups import typed

_UNIT = r"\[([^\]]*)\]\s*$"
_COLUMNS = ("ts_ns", "metric", "device", "value", "unit")


def blocks(database: NsysDatabase) -> Iterator[pl.DataFrame]:
    """Blocks in the columns of ``metrics``, times as recorded."""
    has_own = False
    for block in _own_table(database):
        has_own = True
        yield block
    if not has_own:
        yield from _generic(database)


def _own_table(database: NsysDatabase) -> Iterator[pl.DataFrame]:
    table, names = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
    if not database.has(table, "timestamp", "metricId", "value") or not database.has(names, "metricId", "metricName"):
        return
    keys = ["typeId", "metricId"] if database.has(names, "typeId") and database.has(table, "typeId") else ["metricId"]
    labels = typed(
        database.rows(names, "typeId", "metricId", "metricName"),
        {"typeId": pl.Int64, "metricId": pl.Int64, "metric": pl.String},
    ).drop_nulls("metric").unique(keys, keep="first", maintain_order=True)
    labels = labels.select(*keys, _unit(), pl.col("metric").cast(NAME))

    def build(rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.join(labels, on=keys, how="left", maintain_order="left").drop_nulls(["metric", "timestamp"])
        return rows.with_columns(_device()).rename({"timestamp": "ts_ns"}).select(_COLUMNS)

    yield from database.blocks(table, ("timestamp", "typeId", "metricId"), reals=("value",), build=build)


def _generic(database: NsysDatabase) -> Iterator[pl.DataFrame]:
    sources = {row[0]: row[1] for row in database.rows("GENERIC_EVENT_SOURCES", "sourceId", "data")}
    types = [
        kind for kind, source, described in database.rows("GENERIC_EVENT_TYPES", "typeId", "sourceId", "data")
        if isinstance(kind, int) and re.search("metric", f"{described} {sources.get(source, '')}", re.IGNORECASE)
    ]
    if not types:
        return

    def build(rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.filter(pl.col("typeId").is_in(types), pl.col("timestamp").is_not_null())
        values = pl.DataFrame(
            list(_values(rows, database.wrong)), orient="row",
            schema={"ts_ns": pl.Int64, "typeId": pl.Int64, "metric": pl.String, "value": pl.Float64},
        )
        return values.with_columns(_device(), _unit()).with_columns(pl.col("metric").cast(NAME)).select(_COLUMNS)

    yield from database.blocks("GENERIC_EVENTS", ("timestamp", "typeId"), ("data",), build=build)


def _values(rows: pl.DataFrame, faults: Faults) -> Iterator[tuple[int, int, str, float]]:
    """Every numeric field of every sample, whether written as a number or as text."""
    for time, kind, text in rows.select("timestamp", "typeId", "data").iter_rows():
        try:
            fields: Any = orjson.loads(text or "{}")
        except orjson.JSONDecodeError:
            continue
        for name, value in fields.items() if isinstance(fields, dict) else ():
            read, reason = number(value)
            if reason == NOT_FINITE:
                faults.wrong("GENERIC_EVENTS", str(name), reason)
            if read is not None:  # other fields are texts
                yield time, kind, str(name), float(read)


def _device() -> pl.Expr:
    return pl.format("GPU {}", pl.col("typeId") & 0xFF).cast(NAME).alias("device")


def _unit() -> pl.Expr:
    """The unit in a metric's name: '%' in 'SMs Active [Throughput %]', 'MHz' in 'GPC Clock Frequency [MHz]'; else ''"""
    inside = pl.col("metric").str.extract(_UNIT).fill_null("")
    plain = pl.when(inside.str.contains("^(?i:avg|sum|min|max|count)")).then(pl.lit("")).otherwise(inside)
    return pl.when(inside.str.ends_with("%")).then(pl.lit("%")).otherwise(plain).cast(NAME).alias("unit")
