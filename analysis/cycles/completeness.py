"""Which cycles the recorder saw whole: the one rule, for everything that speaks of cycles.

A cycle is told by the number of its device activities beside that of its like: the cycles of its kind and rank. One
without any is not whole while others have some. Where most have the same number, one with fewer is not whole if no
other cycle has that number (lost records are never lost twice in the same number; a pattern repeats). The first and the
last one with records, which a recording cuts, are not whole with clearly fewer. Numbers that differ from cycle to cycle
anyway, as those of a serving engine do, prove nothing in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

LIKE = 0.995
"""Where most cycles hold the same number of device activities, one with fewer than this share may not be whole."""
EDGE = 0.8
"""A first or last cycle with fewer than this share of the usual number is not whole, whatever the others hold."""
Counts = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


def like(frame: pl.DataFrame) -> str:
    """The column that says which cycles are like each other: their kind, or the rhythms of one sequence."""
    sources, kinds = (frame[name].cast(pl.String) for name in ("source", "kind"))
    return "label" if sources.eq("pattern").any() and kinds.eq("step").all() else "kind"


def whole(frame: pl.DataFrame) -> list[bool]:
    """Whether each cycle was recorded whole; ``frame`` has the table's columns and ``records``."""
    found = np.ones(frame.height, dtype=bool)
    rows = frame.with_row_index("row").filter(pl.col("records").is_not_null())
    same = like(frame)
    # ranks may hold different work, and so are held against themselves; that several lost alike is no chance
    times = rows.group_by(same, "records").agg(pl.len().alias("times"))
    rows = rows.join(times, on=[same, "records"], how="left", nulls_equal=True, maintain_order="left")
    rows = rows.sort("start_ns", maintain_order=True, nulls_last=True)
    for _, group in rows.group_by("rank", same, maintain_order=True):
        seen = _whole(group["records"].to_numpy(), group["times"].to_numpy() == 1)
        found[group["row"].to_numpy()] = seen
    return [bool(one) for one in found]


def _whole(records: Counts, alone: Flags) -> Flags:
    """The rule for the cycles of one kind and rank, in order; ``alone`` are those whose number no other cycle has."""
    some = np.flatnonzero(records > 0)
    if not len(some):
        return np.ones(len(records), dtype=bool)  # nobody recorded devices at all
    full: Flags = records > 0
    usual = float(np.median(records[some]))
    uniform = 2 * (np.abs(records[some] - usual) <= (1 - LIKE) * usual).sum() >= len(some)
    if uniform:
        full &= ~((records < LIKE * usual) & alone)
    for edge in (some[0], some[-1]):
        full[edge] &= bool(records[edge] >= EDGE * usual)
    return full
