"""Kernels: which device activities take the time, how their latencies spread, and what holds them back.

One row per (name, kind, device). Copies and sets are activities too; a ``sync`` only waits and is not one. ``share``
is of the summed activity time, which counts overlapping streams twice; it is not the share of the wall time.
"""

from __future__ import annotations

from typing import Any, Literal

import polars as pl
from msgspec.structs import replace

from ..loaders.schema import NAME
from ..loaders.trace import Trace
from . import units
from .bound import MEANINGS, bound
from .column import Column, side_by_side
from .device_pairs import mapped, note
from .kernel_sources import KEYS, Kernels, kernels_of
from .options import Options
from .scope import scoped
from .sides import beside
from .view import Answer, CannotAnswer, Runs, View

COLUMNS = (
    Column("name", "kernel", "text", "name as recorded", width=34, order=0, elastic=True, pinned=True),
    Column("groups", "", "kinds", "clearly different kinds of launches behind the name, told by grid or duration",
           width=3, order=8),
    Column("kind", "kind", "text", "kernel, collective, memcpy or memset", width=10, order=9),
    Column("device", "device", "text", "device it ran on; empty where not recorded", width=7, order=8),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0),
    Column("share", "share", "fraction", "of the summed duration of all device activities", width=6, order=0),
    Column("count", "count", "count", "launches", width=7, order=2),
    Column("mean_ns", "mean", "ns", "mean duration", width=9, order=7),
    Column("min_ns", "min", "ns", "shortest launch", width=9, order=None),
    Column("p50_ns", "p50", "ns", "median duration (nearest rank)", width=9, order=4),
    Column("p99_ns", "p99", "ns", "duration 99% of the launches do not pass (nearest rank)", width=9, order=5),
    Column("max_ns", "max", "ns", "longest launch", width=9, order=None),
    Column("trend", "latency", "trend", "launches by latency, log axis from shortest to longest", width=12, order=6),
    Column("tensor", "tensor", "fraction", "tensor-core use of peak, by duration", width=12, order=3, bar=True),
    Column("dram", "DRAM", "fraction", "DRAM throughput of peak, weighted by duration", width=12, order=3, bar=True),
    Column("bound", "bound", "text", "; ".join(f"{k}: {v}" for k, v in MEANINGS.items()), width=7, order=3),
)
PAIRED = tuple(column for column in COLUMNS if column.name != "groups")
"""What two runs are compared by: kinds of launches do not correspond."""
_ORDER = {
    "name": 0, "total_ns_delta": 0, "total_ns_a": 1, "total_ns_b": 1, "mean_ns_delta": 2, "share_b": 3, "share_a": 4,
    "count_a": 5, "count_b": 5, "mean_ns_a": 6, "mean_ns_b": 6, "bound_a": 7, "bound_b": 7, "tensor_a": 8,
    "tensor_b": 8, "dram_a": 8, "dram_b": 8, "trend_a": 9, "trend_b": 9, "share_delta": 9, "device": 10, "kind": 11,
}
Side = Literal["a", "b"]
SUMS = ("total_ns", "count", "share")


def table(run: Trace, options: Options, side: Side = "a") -> tuple[pl.DataFrame, Kernels]:
    """All columns of the view for one run (scoped), most time first, and where they are from. Raises CannotAnswer."""
    kernels = kernels_of(scoped(run, options, side))
    if kernels is None:
        where = "" if (options.cycle if side == "a" else options.cycle_b) is None else " in this cycle"
        raise CannotAnswer(f"{run.info.label} holds no device activity{where}: no kernels, copies or sums of them.")
    total = pl.col("total_ns").sum()
    frame = kernels.frame.with_columns(
        share=pl.when(total > 0).then(pl.col("total_ns") / total), bound=bound(options.thresholds)
    )
    return frame.select(column.name for column in COLUMNS), kernels


def facts_of(frame: pl.DataFrame) -> dict[str, Any]:
    """Totals of a kernel table, ns and launches, by kind."""
    known = pl.col("total_ns").count() > 0
    by_kind = frame.group_by(pl.col("kind").cast(pl.String)).agg(
        pl.when(known).then(pl.col("total_ns").sum()), pl.col("count").sum()
    )
    kinds = {kind: {"total_ns": ns, "count": count} for kind, ns, count in sorted(by_kind.rows())}
    return {
        "kernels": frame.height, "launches": int(frame["count"].sum()), "total_ns": int(frame["total_ns"].sum()),
        "by_kind": kinds,
    }


def coverage(run: Trace, options: Options, frame: pl.DataFrame, side: Side = "a") -> float | None:
    """Share of the run's device activity time that the table is about: 1 unless it is limited to a cycle."""
    if (options.cycle if side == "a" else options.cycle_b) is None:
        return 1.0
    whole = kernels_of(run)
    total = int(whole.frame["total_ns"].sum()) if whole else 0
    return int(frame["total_ns"].sum()) / total if total else None


def sentence(run: Trace, facts: dict[str, Any]) -> str:
    """One line: launches, kernel time, copies, and whether the times are of a serialised replay."""
    kinds = facts["by_kind"]
    work = [kinds[kind] for kind in ("kernel", "collective") if kind in kinds]
    moved = [kinds[kind] for kind in ("memcpy", "memset") if kind in kinds]
    parts = []
    if work:
        parts.append(units.counted(sum(kind["count"] for kind in work), "launch", "launches"))
        times = [kind["total_ns"] for kind in work if kind["total_ns"] is not None]
        parts.append(f"{units.duration(sum(times))} of kernel time" if times else "durations not recorded")
    if moved:
        parts.append(f"{units.counted(sum(kind['count'] for kind in moved), 'copy or set', 'copies and sets')}, "
                     f"{units.duration(sum(kind['total_ns'] or 0 for kind in moved))}")
    return " · ".join(parts) + (", serialised replay" if run.info.serialised else "")


def notes_of(run: Trace, kernels: Kernels) -> tuple[str, ...]:
    """What a reader of this run's kernel table must know."""
    replayed = ("Launches were replayed one by one: totals are of serialised replays, not wall time.",)
    return (*kernels.notes, *(replayed if run.info.serialised else ()))


def build(runs: Runs, options: Options) -> Answer:
    """Kernels of one run by total time, or of two side by side by the size of the change."""
    if len(runs) == 1:
        frame, kernels = table(runs[0], options)
        facts = facts_of(frame) | {"coverage": coverage(runs[0], options, frame)}
        return Answer(frame.lazy(), facts, (sentence(runs[0], facts),), notes_of(runs[0], kernels))
    (frame_a, kernels_a), (frame_b, kernels_b) = table(runs[0], options, "a"), table(runs[1], options, "b")
    facts = {
        "a": facts_of(frame_a) | {"coverage": coverage(runs[0], options, frame_a, "a")},
        "b": facts_of(frame_b) | {"coverage": coverage(runs[1], options, frame_b, "b")},
    }
    summary = tuple(f"{side}: {sentence(run, facts[side.lower()])}" for side, run in zip("AB", runs, strict=True))
    notes = dict.fromkeys((*notes_of(runs[0], kernels_a), *notes_of(runs[1], kernels_b)))
    moved = mapped(_devices(frame_a), _devices(frame_b))
    if moved:
        frame_b = frame_b.with_columns(pl.col("device").cast(pl.String).replace(moved).cast(NAME))
    joined = beside(frame_a, frame_b, PAIRED, KEYS, SUMS)
    return Answer(joined.lazy(), facts, summary, (*notes, *note(moved)))


def _devices(frame: pl.DataFrame) -> list[str | None]:
    return frame["device"].unique().cast(pl.String).to_list()


def _for_two(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns for two runs, of which a narrow terminal keeps what tells a change: totals, the mean's, where it went."""
    return tuple(replace(column, order=_ORDER.get(column.name, column.order and 9)) for column in columns)


VIEW = View("kernels", COLUMNS, build, pair_columns=_for_two(side_by_side(PAIRED, KEYS)), scopes_itself=True)
