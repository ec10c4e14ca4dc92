"""``memory_record.csv``: memory the framework allocated and reserved on each NPU over time."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from .. import schema
from ..kineto import dialect
from ..kineto.columns import NULL, nanoseconds
from .details import read

_OF = "PTA"
"""The framework's own allocator; the others are the graph engine, both together, and the whole process."""
_MEGABYTE = 1 << 20
_LARGEST = 256 << 20
_COLUMNS = dict(
    zip([metric for metric, _ in dialect.MEMORY_TOTALS], ["Total Allocated(MB)", "Total Reserved(MB)"], strict=True)
)


def samples(path: Path, zero: int, rank: int | None) -> pl.LazyFrame:
    """Rows of ``metrics`` in bytes, counted from the absolute time ``zero``; none where the file has none."""
    if path.stat().st_size > _LARGEST:
        return schema.empty("metrics")
    table = read(path.read_bytes())
    if not {"Component", "Timestamp(us)", "Device Type", *_COLUMNS.values()} <= set(table.columns):
        return schema.empty("metrics")
    own = table.filter(pl.col("Component") == _OF)
    times = [NULL if text is None else nanoseconds(text.strip()) for text in own["Timestamp(us)"].to_list()]
    own = own.with_columns(
        pl.Series("ts_ns", [None if time == NULL else time for time in times], dtype=pl.Int64) - zero
    ).drop_nulls("ts_ns").sort("ts_ns", maintain_order=True)
    made = [
        own.select(
            "ts_ns", pl.lit(metric).alias("metric"), pl.col("Device Type").str.replace(":", " ").alias("device"),
            (pl.col(column).str.strip_chars().cast(pl.Float64, strict=False) * _MEGABYTE).alias("value"),
            unit=pl.lit("B"),
            rank=pl.lit(rank, pl.Int64),
        ).drop_nulls("value")
        for metric, column in _COLUMNS.items()
    ]  # fmt: skip
    return schema.conform("metrics", pl.concat(made).lazy())
