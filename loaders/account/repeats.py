"""Events that a file holds twice, in every recorded value: the first counts.

Merging tools and recorders that flush twice repeat events bit by bit. Only events with a start and a duration above 0
can be told to be repeats: two instants, or two launches without times, may be two.
"""

from __future__ import annotations

import polars as pl

_KEYS = {
    "kernels": ("start_ns", "dur_ns", "name", "kind", "device", "stream", "lane", "rank", "correlation", "op_id"),
    "host": ("start_ns", "dur_ns", "name", "kind", "pid", "tid", "rank", "correlation", "external_id"),
}
_COUNTED = ("kernel", "collective", "memcpy", "memset", "op", "runtime", "driver", "annotation", "dataloader")
"""Kinds that are counted once: other slices, as of a sampler, may rightly be equal."""


def repeated(table: str, frame: pl.LazyFrame) -> pl.Series | None:
    """Which rows repeat an earlier one; None if none does."""
    rows = frame.select(_KEYS[table]).collect(engine="streaming")
    able = (rows["dur_ns"] > 0).fill_null(False) & rows["start_ns"].is_not_null()
    able &= rows["kind"].is_in(_COUNTED).fill_null(False)
    mask = able & ~rows.with_columns(pl.col(pl.Categorical).to_physical()).hash_rows(seed=1).is_first_distinct()
    return mask if mask.any() else None
