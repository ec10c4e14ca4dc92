"""The kernels of one run, one row per name, kind and device, with summary sentence and notes.

Copies and memsets are activities too; a ``sync`` only waits and is not one. ``share`` is the share of the summed
activity time, which counts overlapping streams twice; it is not a share of wall time.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.options import Options, Side
from ..contract.view import CannotAnswer
from ..core import units
from ..cycles.scope import scoped
from .columns import COLUMNS, bound
from .launch_index import commonest
from .peak_shares import MOST, SHARES, left_to_roofline, shares_of_kernels
from .sources import KEYS, Grain, Kernels, kernels_of


def table(run: Trace, options: Options, side: Side = "a", grain: Grain = "rank") -> tuple[pl.DataFrame, Kernels]:
    """All columns of the view for one run (scoped), most time first, and their source. Raises CannotAnswer. The last
    three results are cached: overview, findings and the view need the same ones."""
    key = options, side, grain
    return run.remember("kernels", key, lambda: _table(run, options, side, grain), most=3)


def _table(run: Trace, options: Options, side: Side, grain: Grain) -> tuple[pl.DataFrame, Kernels]:
    scope = scoped(run, options, side)
    if grain == "rank" and not several_ranks(run):
        grain = "device"
    kernels = kernels_of(scope, grain)
    if kernels is None:
        where = "" if (options.cycle if side == "a" else options.cycle_b) is None else " in this cycle"
        raise CannotAnswer(f"{run.info.label} holds no device activity{where}: no kernels, copies or sums of them.")
    total = pl.col("total_ns").sum()
    frame = kernels.frame.with_columns(
        share=pl.when(total > 0).then(pl.col("total_ns") / total), bound=bound(options.thresholds)
    )
    if kernels.source == "kernels":
        frame = frame.join(shares_of_kernels(run, scope.kernels, grain), on=KEYS, how="left", nulls_equal=True,
                           maintain_order="left")
        by_work = bound(options.thresholds, tensor="compute_of_peak", dram="memory_of_peak")
        frame = frame.with_columns(bound=pl.coalesce("bound", pl.when(pl.col("kind") == "kernel").then("~" + by_work)))
    else:
        frame = frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in SHARES)
    operators = commonest(run, scope.kernels, grain) if kernels.source == "kernels" else kernels.operators
    if operators is not None:
        frame = frame.join(operators, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
    else:
        frame = frame.with_columns(op=pl.lit(None, NAME))
    return frame.select(column.name for column in COLUMNS), kernels


def several_ranks(run: Trace) -> bool:
    """Whether the run is a job of several ranks."""
    return len(run.info.ranks) > 1


def facts_of(frame: pl.DataFrame) -> dict[str, Any]:
    """Totals of a kernel table, ns and launches, by kind."""
    timed = pl.col("total_ns").count() > 0
    by_kind = frame.group_by(pl.col("kind").cast(pl.String)).agg(
        pl.when(timed).then(pl.col("total_ns").sum()), pl.col("count").sum()
    )
    kinds = {kind: {"total_ns": ns, "count": count} for kind, ns, count in sorted(by_kind.rows())}
    return {
        "kernels": frame.height, "launches": int(frame["count"].sum()), "total_ns": int(frame["total_ns"].sum()),
        "by_kind": kinds,
    }


def coverage(run: Trace, options: Options, frame: pl.DataFrame, side: Side = "a") -> float | None:
    """Share of the run's device activity time that the table covers: 1 unless limited to a cycle."""
    if (options.cycle if side == "a" else options.cycle_b) is None:
        return 1.0
    whole = kernels_of(run)
    total = int(whole.frame["total_ns"].sum()) if whole else 0
    return int(frame["total_ns"].sum()) / total if total else None


def sentence(run: Trace, facts: dict[str, Any]) -> str:
    """One line: launches, kernel time, copies, and whether the times come from serialised replays."""
    kinds = facts["by_kind"]
    work = [kinds[kind] for kind in ("kernel", "collective") if kind in kinds]
    moved = [kinds[kind] for kind in ("memcpy", "memset") if kind in kinds]
    parts = []
    copies, in_copies = (sum(kind[what] or 0 for kind in moved) for what in ("count", "total_ns"))
    if work:
        launches = units.counted(copies + sum(kind["count"] for kind in work), "launch", "launches")
        among = units.counted(copies, "of them a copy or set", "of them copies and sets")
        parts.append(f"{launches}, {among}" if moved else launches)
        times = [kind["total_ns"] for kind in work if kind["total_ns"] is not None]
        parts.append(f"{units.duration(sum(times))} of kernel time" if times else "durations not recorded")
    if moved:
        count = "copies and sets" if work else units.counted(copies, "copy or set", "copies and sets")
        parts.append(f"{units.duration(in_copies)} of {count}" if work else f"{count}, {units.duration(in_copies)}")
    return " · ".join(parts) + (", serialised replay" if run.info.serialised else "")


def notes_of(run: Trace, kernels: Kernels) -> tuple[str, ...]:
    """The notes on this run's kernel table."""
    replayed = ("Launches were replayed one by one: totals are of serialised replays, not wall time.",)
    large = (f"More than {units.count(MOST)} launches: shares of the peaks are in the roofline view (p) only.",)
    return (*kernels.notes, *(replayed if run.info.serialised else ()), *(large if left_to_roofline(run) else ()))
