"""The clearly different kinds of launches behind one kernel name.

A templated kernel is one name for many problem sizes: BERT's 293 ``Kernel`` launches are three kinds of GEMM. Launches
are sorted by duration (or grids by mean duration) and split where the next one is longer by a clear factor. Groups too
small to matter join their neighbour.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ..contract.options import Thresholds
from ..core import units
from ..core.quantiles import Codes, Ints, Latencies, codes, dense, latencies, room_for, stable_order
from .columns import bound

GAP = 1.4  # Neighbouring durations that differ by more than this factor are different kinds.
GRID_GAP = 1.25  # The same for mean durations of different grids, which are different problems to begin with.
Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
LEAST_SHARE = 0.05  # A kind has at least this share of the launches, and at least two.


def cut(values: Floats, weights: Ints | None, begin: Ints, gap: float) -> Ints:
    """Start of each kind among the atoms, at least one per group. Atoms are sorted by (group, value); ``weights`` is
    the number of launches per atom (None: one each) and ``begin`` the first atom of each group."""
    opens = np.zeros(len(values), dtype=bool)
    far = values[:-1] * values.dtype.type(gap)
    np.greater(values[1:], np.maximum(far, gap, out=far), out=opens[1:])
    opens[begin] = True
    first = np.flatnonzero(opens)
    if len(first) == len(begin):
        return first
    of = np.searchsorted(begin, first, side="right") - 1
    size, whole = _sums(weights, first, len(values)), _sums(weights, begin, len(values))
    large = size >= np.maximum(2, np.ceil(LEAST_SHARE * whole))[of]
    before: Ints = np.cumsum(large) - large
    run_of_group = np.searchsorted(first, begin)
    keep = large & (before > before[run_of_group][of])
    keep[run_of_group] = True
    kinds: Ints = first[keep]
    return kinds


def per_group(first: Ints, begin: Ints) -> Ints:
    """Number of kinds per group, from the starts of kinds and groups."""
    return np.diff(np.searchsorted(first, begin), append=len(first))


def _sums(weights: Ints | None, first: Ints, count: int) -> Ints:
    """Total weight of each run, which lasts from one ``first`` to the next."""
    if weights is None:
        return np.diff(first, append=count)
    return np.add.reduceat(weights, first)


def by_duration(latencies: Latencies) -> Ints:
    """Start of each kind in ``latencies.sorted_ns``, found by gaps between durations."""
    return cut(latencies.sorted_ns.astype(np.float32), None, latencies.starts, GAP)


class ByGrid(Struct, frozen=True):
    """Kinds by the mean duration of each grid: grids with similar means are one kind. An atom is the launches of one
    group with the same grid. ``code`` is the atom's code, per launch; ``atoms`` are the codes that occur, ``order``
    sorts them by (group, mean), and ``first`` and ``begin`` are the starts of each kind and each group in that
    order."""

    code: Codes
    atoms: Ints
    order: Ints
    first: Ints
    begin: Ints

    @property
    def per_group(self) -> Ints:
        """Number of kinds per group."""
        return per_group(self.first, self.begin)

    def kinds(self) -> Ints:
        """The kind of each launch, numbered from 0 over all groups."""
        kind = np.zeros(int(self.atoms[-1]) + 1, dtype=np.int64)
        kind[self.atoms[self.order]] = of_atoms(self.first, len(self.atoms))
        return kind[self.code]


def by_grid(group_of: Codes, grid: Codes, durations: Ints, groups: int) -> ByGrid:
    """Kinds of launches from the group, grid code and duration of each launch; at least one launch. Every group number
    below ``groups`` must occur; grid codes may have gaps."""
    low = int(grid.min())
    many = int(grid.max()) - low + 1
    if groups * many > room_for(len(grid)):
        grid, seen = dense(grid)
        low, many = 0, len(seen)
    code: Codes = group_of.astype(np.int64)
    code *= many
    code += grid
    code -= low
    place = None
    if groups * many > room_for(len(code)):
        code, place = dense(code)
    launches = np.bincount(code)
    atoms = np.flatnonzero(launches != 0)
    totals = np.bincount(code, weights=durations)
    if len(atoms) < len(launches):
        launches, totals = launches[atoms], totals[atoms]
    means = (totals / launches).astype(np.float32)
    group = atoms // many if place is None else group_of[place].astype(np.int64)
    order = stable_order((group << 32) | means.view(np.uint32))  # the bits of non-negative floats sort like the floats
    begin = np.searchsorted(group, np.arange(groups))
    return ByGrid(code, atoms, order, cut(means[order], launches[order], begin, GRID_GAP), begin)


def of_atoms(first: Ints, atoms: int) -> Ints:
    """The kind of each atom, numbered from 0 over all groups, from the starts of kinds."""
    return np.repeat(np.arange(len(first)), np.diff(first, append=atoms))


_NAMED = 3  # Grids named in a label; any others are counted.


def kinds(launches: pl.DataFrame, thresholds: Thresholds | None = None) -> pl.DataFrame:
    """The kinds of one kernel's launches (``dur_ns grid tensor dram`` each), most time first. Columns: ``label count
    total_ns share mean_ns p50_ns min_ns max_ns tensor dram bound``; a single row if all launches are alike. Launches
    without a duration are left out."""
    rows = launches.drop_nulls("dur_ns").sort("dur_ns")
    durations = rows["dur_ns"].to_numpy()
    one = np.zeros(len(durations), dtype=np.int64)
    kind, grids = one, False
    if len(durations):
        kind = of_atoms(by_duration(latencies(one, durations, 1)), len(durations))
        if rows["grid"].null_count() < rows.height:
            grouped = by_grid(one, codes(rows["grid"]), durations, 1)
            kind, grids = (grouped.kinds(), True) if grouped.per_group[0] > 1 else (kind, False)
    time, total = pl.col("dur_ns"), pl.col("dur_ns").sum()
    frame = rows.with_columns(pl.Series("kind", kind)).group_by("kind").agg(
        count=pl.len().cast(pl.Int64), total_ns=total, mean_ns=time.mean(),
        p50_ns=time.sort().get((pl.len() + 1) // 2 - 1), min_ns=time.min(), max_ns=time.max(),
        tensor=_weighted("tensor"), dram=_weighted("dram"),
        grids=pl.col("grid").cast(pl.String).unique().sort(),
    )
    frame = frame.with_columns(
        share=pl.col("total_ns") / pl.col("total_ns").sum(), bound=bound(thresholds or Thresholds()),
        label=pl.Series([_label(row, grids) for row in frame.to_dicts()], dtype=pl.String),
    )
    return frame.sort("total_ns", "label", descending=[True, False]).select(
        "label", "count", "total_ns", "share", "mean_ns", "p50_ns", "min_ns", "max_ns", "tensor", "dram", "bound"
    )


def _weighted(column: str) -> pl.Expr:
    """Duration-weighted mean over the measured launches; null if none was measured."""
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
