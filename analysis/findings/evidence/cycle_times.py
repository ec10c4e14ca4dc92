"""How even a run's cycles are: the excess of outliers and warm-up cycles over the median of their kind."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...contract.options import Options
from ...cycles.completeness import like
from ...cycles.detection import counted_cycles


class Excess(Struct, frozen=True):
    """Some cycles: their numbers, the longest of them with its time, and their total time above the median, ns."""

    cycles: tuple[int, ...]
    longest: int
    longest_ns: int
    above_ns: int


class CycleTimes(Struct, frozen=True):
    """All cycles: number, median in ns (of the most common kind), outliers and warm-up."""

    count: int
    median_ns: float
    slow: Excess | None
    warm_up: Excess | None


def cycle_times_of(run: Trace, options: Options) -> CycleTimes | None:
    """The times of the run's cycles; None if it has no cycles with timestamps."""
    frame = counted_cycles(run, options).frame
    if frame.is_empty() or frame["start_ns"].null_count():
        return None
    kind = like(frame)
    steady = frame.filter(~pl.col("warm_up"))
    medians = steady.group_by(kind).agg(median=pl.col("dur_ns").median(), each=pl.len())
    rows = frame.join(medians, on=kind, how="left", nulls_equal=True).with_columns(
        above=pl.col("dur_ns") - pl.col("median"))
    commonest = medians.sort("each", "median", descending=True)
    if commonest.is_empty():
        return None
    return CycleTimes(
        frame.height, float(commonest["median"][0]),
        _excess(rows.filter("outlier")),
        _excess(rows.filter("warm_up")),
    )


def _excess(rows: pl.DataFrame) -> Excess | None:
    if rows.is_empty():
        return None
    longest = rows.sort("dur_ns", descending=True)
    return Excess(
        tuple(longest["cycle"].to_list()), int(longest["cycle"][0]), int(longest["dur_ns"][0]),
        int(rows["above"].sum()),
    )
