"""The cycles of a reduced dataset: their windows and device figures were measured when it was made, and are read here.

A dataset can be limited to a rank, a device or a cycle, because its tables name these, but not to a process or a time
window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import polars as pl
from msgspec.structs import replace

from ...loaders import schema
from ...loaders.trace import REDUCED, PartOf, Trace
from ..contract.options import Scope
from ..contract.view import ScopeRefused
from .assignment import WINDOW
from .step_times import BOUNDS, FIGURES, NOTHING, StepTimes

MEASURED = (*WINDOW, "records", "main_device", *FIGURES, *BOUNDS)
_KEYS = ("rank", "cycle", "start_ns")
_BY_RANK = (
    "cycles", "profile", "kernel_stats", "breakdown", "rank_sums", "device_sums", "cycle_sums", "cycle_device_sums",
    "collectives", "idle_causes", "idle_gaps", "findings",
)
_BY_DEVICE = "profile", "kernel_stats", "device_sums", "cycle_device_sums", "collectives", "idle_causes", "idle_gaps"
_BY_CYCLE = ("profile", "cycle_sums", "cycle_device_sums", "collectives", "idle_gaps")
_WHOLE_RUN = ("kernel_stats", "idle_causes", "breakdown", "findings")
"""Tables of sums over all cycles, which cannot be split by cycle."""
_OF_THE_RANK = ("rank", "host", "source", "epoch_ns", "bytes", "label", "host_recorded")
"""Columns of ``rank_sums`` that are not sums."""
_TIMES, _MOST_TAKEN = ("busy_ns", "comm_ns", "exposed_ns"), ("memory_peak", "memory_reserved", "memory_total")
LACKING = (
    "This dataset was reduced by an older version, without figures of single cycles: what each device did in one is "
    "empty here. Reduce the job again."
)
_MOST = 12  # Devices and ranks named in a refusal.


def is_reduced(run: Trace) -> bool:
    """Whether the run is a reduced dataset."""
    return REDUCED in run.info.facts


def with_figures(run: Trace, cycles: pl.DataFrame) -> pl.DataFrame:
    """The cycles with ``MEASURED`` as it was; null where the dataset has none."""
    sums = run.cycle_sums.select(*_KEYS, *MEASURED).unique(_KEYS, keep="first").collect(engine="streaming")
    return cycles.join(sums, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")


def times(cycles: pl.DataFrame) -> StepTimes:
    """The times of the cycles (with ``MEASURED``) on their main devices: the dataset holds no others."""
    rows = cycles.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64)).filter(pl.col("device_ns").is_not_null())
    return replace(NOTHING, devices=rows.rename({"main_device": "device"}).select(NOTHING.devices.columns))


def outside(run: Trace) -> tuple[int, int, float | None]:
    """Number of device activities before the first cycles, and between or after; share of device time in cycles."""
    sums = run.rank_sums.select(pl.col("before", "elsewhere", "in_cycles_ns", "activities_ns").sum()).collect()
    before, elsewhere, inside, total = sums.row(0)
    return before, elsewhere, inside / total if total else None


def anchor(run: Trace) -> str | None:
    """The anchor that the cycles of all ranks were taken from; None where ranks differ."""
    labels = run.rank_sums.select(pl.col("label").drop_nulls().unique()).collect()["label"]
    return str(labels[0]) if len(labels) == 1 else None


def restricted(run: Trace, scope: Scope) -> Trace:
    """The dataset limited to that rank and device. Raises ScopeRefused for a limit it lacks or cannot apply."""
    label = run.info.label
    if (scope.pid, scope.from_ns, scope.to_ns) != (None, None, None):
        what = "a window of time" if scope.pid is None else "a process"
        raise ScopeRefused(f"{label} is a reduced dataset: it holds sums of each rank, which cannot be limited to "
                           f"{what}. Open the recordings of a rank for that.")
    if scope.rank is not None:
        if scope.rank not in run.info.ranks:
            raise ScopeRefused(f"{label} has no rank {scope.rank}; it has {listed(run.info.ranks)}.")
        run = _of_ranks(run, [scope.rank])
    if scope.device is not None:
        run = _of_device(run, scope.device)
    return run


def _of_ranks(run: Trace, ranks: Collection[int]) -> Trace:
    matching = pl.col("rank").is_in(sorted(ranks))
    tables = {name: run.table(name).filter(matching) for name in _BY_RANK}
    return replace(run.with_tables(**tables), info=replace(run.info, ranks=tuple(sorted(ranks))))


def _of_device(run: Trace, device: str) -> Trace:
    there = run.device_sums.select("rank", pl.col("device").cast(pl.String)).collect()
    users = there.filter(pl.col("device") == device)["rank"].to_list()
    if not users:
        devices_there = listed(there["device"].unique().sort())
        raise ScopeRefused(f"{run.info.label} has no device {device}; it has {devices_there}.")
    if there.filter(pl.col("rank").is_in(users))["device"].n_unique() > 1:
        raise ScopeRefused(f"{run.info.label} holds sums of each rank, and a rank of {device} used other devices, too: "
                           "its cycles cannot be limited to one.")
    scope = _of_ranks(run, users)
    on_it = pl.col("device") == device
    tables = {name: scope.table(name).filter(on_it) for name in _BY_DEVICE}
    devices = tuple(one for one in scope.info.devices if one.id == device)
    return replace(scope.with_tables(**tables), info=replace(scope.info, devices=devices))


def of_cycle(run: Trace, cycles: pl.DataFrame) -> Trace:
    """The dataset limited to these cycles (rows of ``detection``), without its sums over all cycles."""
    which = cycles.lazy().select("rank", "cycle").unique()
    tables = {name: _joined(run.table(name), which, "semi") for name in _BY_CYCLE}
    return _in_cycles(run, cycles, tables, _sums(tables["cycle_device_sums"]))


def without(run: Trace, cycles: pl.DataFrame, left_out: pl.DataFrame) -> Trace:
    """The dataset without the cycles ``left_out``: with ``cycles``, and what belongs to no cycle."""
    which = left_out.lazy().select("rank", "cycle").unique()
    tables = {name: _joined(run.table(name), which, "anti") for name in _BY_CYCLE}
    theirs = _sums(_joined(run.cycle_device_sums, which, "semi"))
    less = run.device_sums.join(theirs, on=["rank", "device"], how="left", nulls_equal=True, suffix="_less")
    rest = less.select(
        "rank", "device", *(pl.col(name) - pl.col(f"{name}_less").fill_null(0) for name in _TIMES), *_MOST_TAKEN
    )
    return _in_cycles(run, cycles, tables, rest if run.has("cycle_device_sums") else rest.clear())


def _in_cycles(run: Trace, cycles: pl.DataFrame, tables: dict[str, pl.LazyFrame], devices: pl.LazyFrame) -> Trace:
    """The run with these per-cycle tables and device sums, without its sums over all cycles."""
    tables |= {name: run.table(name).clone().clear() for name in _WHOLE_RUN}
    tables["device_sums"] = schema.conform("device_sums", devices)
    tables["rank_sums"] = schema.conform("rank_sums", run.rank_sums.select(_OF_THE_RANK))
    part = replace(run, part_of=PartOf(run))
    return part.with_tables(**tables, cycles=cycles.select(schema.columns_of(run.cycles).names()).lazy())


def _joined(table: pl.LazyFrame, which: pl.LazyFrame, how: Literal["semi", "anti"]) -> pl.LazyFrame:
    return table.join(which, on=["rank", "cycle"], how=how, nulls_equal=True, maintain_order="left")


def _sums(rows: pl.LazyFrame) -> pl.LazyFrame:
    """``cycle_device_sums`` with one row per device: times summed, memory at its maximum."""
    measured = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _TIMES]
    return rows.group_by("rank", "device", maintain_order=True).agg(*measured, pl.col(_MOST_TAKEN).max())


def lacking(run: Trace) -> tuple[str, ...]:
    """A note on why devices have no figures, if the dataset was made by an older version."""
    return (LACKING,) if is_reduced(run) and not run.has("device_sums") else ()


def listed(there: Iterable[object]) -> str:
    """The existing names for an error message: at most ``_MOST``, and the number of the rest."""
    names = [str(one) for one in there]
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
