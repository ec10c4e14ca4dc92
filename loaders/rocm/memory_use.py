"""How much memory of each device is allocated over time, from its allocations and frees.

A free names only an address, so its size and device are those of the allocation that was last made there; one whose
allocation was not recorded changes nothing.
"""

from __future__ import annotations

import polars as pl

from .recording import Recording


def add(recording: Recording, blocks: list[pl.DataFrame]) -> None:
    """Add the metric ``memory allocated`` of the whole run.

    Its blocks of rows have ``at key free size device`` (ns, address, bool, B, text).
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
    recording.samples(sized.select(
        "device", ts_ns="at", metric=pl.lit("memory allocated"), unit=pl.lit("B"),
        value=pl.col("change").cum_sum().over("device"),
    ), "memory allocations")
