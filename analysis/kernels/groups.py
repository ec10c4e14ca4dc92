"""The rows a kernel opens into: one for each clearly different kind of launch behind its name.

Launches with different grids are different problems, so grids tell kinds apart where they are recorded and take clearly
different times; else gaps between durations do. This is the same division that ``groups`` in the kernels view counts.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ..contract.options import Thresholds
from ..core import units
from ..core.quantiles import codes, latencies
from . import launch_groups
from .bound import bound

_NAMED = 3
"""Grids named in a label; more are counted."""


def kinds(launches: pl.DataFrame, thresholds: Thresholds | None = None) -> pl.DataFrame:
    """The kinds of one kernel's launches (``dur_ns grid tensor dram`` of each), most time first.

    Columns: ``label count total_ns share mean_ns p50_ns min_ns max_ns tensor dram bound``; one row where all launches
    are alike. Launches without a duration are left out.
    """
    rows = launches.drop_nulls("dur_ns").sort("dur_ns")
    durations = rows["dur_ns"].to_numpy()
    one = np.zeros(len(durations), dtype=np.int64)
    kind, by_grid = one, False
    if len(durations):
        kind = launch_groups.of_atoms(launch_groups.by_duration(latencies(one, durations, 1)), len(durations))
        if rows["grid"].null_count() < rows.height:
            told = launch_groups.by_grid(one, codes(rows["grid"]), durations, 1)
            kind, by_grid = (told.kinds(), True) if told.per_group[0] > 1 else (kind, False)
    time, total = pl.col("dur_ns"), pl.col("dur_ns").sum()
    frame = rows.with_columns(pl.Series("kind", kind)).group_by("kind").agg(
        count=pl.len().cast(pl.Int64), total_ns=total, mean_ns=time.mean(),
        p50_ns=time.sort().get((pl.len() + 1) // 2 - 1), min_ns=time.min(), max_ns=time.max(),
        tensor=_weighted("tensor"), dram=_weighted("dram"),
        grids=pl.col("grid").cast(pl.String).unique().sort(),
    )
    frame = frame.with_columns(
        share=pl.col("total_ns") / pl.col("total_ns").sum(), bound=bound(thresholds or Thresholds()),
        label=pl.Series([_label(row, by_grid) for row in frame.to_dicts()], dtype=pl.String),
    )
    return frame.sort("total_ns", "label", descending=[True, False]).select(
        "label", "count", "total_ns", "share", "mean_ns", "p50_ns", "min_ns", "max_ns", "tensor", "dram", "bound"
    )


def _weighted(column: str) -> pl.Expr:
    """Mean weighted by duration over the launches that were measured, null where none was."""
    weight = pl.max_horizontal("dur_ns", 1).filter(pl.col(column).is_not_null())
    value = pl.col(column).filter(pl.col(column).is_not_null()).cast(pl.Float64)
    return pl.when(pl.col(column).count() > 0).then((value * weight).sum() / weight.sum())


def _label(row: dict[str, object], by_grid: bool) -> str:
    grids = row["grids"]
    if by_grid and isinstance(grids, list):
        named = [str(grid) for grid in grids if grid is not None]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        return f"grid {'; '.join(named[:_NAMED])}{more}"
    low, high = row["min_ns"], row["max_ns"]
    assert isinstance(low, int) and isinstance(high, int)
    return units.duration(low) if low == high else f"{units.duration(low)} to {units.duration(high)}"
