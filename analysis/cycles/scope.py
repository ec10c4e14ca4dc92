"""A run limited to a scope: a process, a rank, a device, a time window, a cycle.

A limited run is a Trace like any other, with lazy tables, so that no view knows about scope and none can forget it.
Activities and host slices are filtered by process and rank, activities by device; a window keeps what begins in it. The
cycles are those of the whole run, so that a cycle means the same in every scope. A cycle keeps the device activities
launched in it (see ``assignment``), whenever they ran, the host slices that begin in it, and the samples in its window.
A limit that does not exist in the run, or that a table of sums cannot apply, is refused with a list of what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import polars as pl
from msgspec.structs import replace

from ...loaders.schema import columns_of
from ...loaders.trace import PartOf, Trace
from ..contract.options import Options, Scope, Side
from ..contract.view import ScopeRefused
from ..core.call_tree import calls_where

if TYPE_CHECKING:
    from .detection import Cycles

Window = tuple[int | None, int, int]  # Rank, begin and end, ns.


def scoped(run: Trace, options: Options, side: Side = "a") -> Trace:
    """The run, limited to the scope that the options give for that side. Raises ScopeRefused."""
    return _of_cycle(scoped_any_cycle(run, options, side), options, side)


def scoped_any_cycle(run: Trace, options: Options, side: Side = "a", window: bool = True) -> Trace:
    """``scoped`` without the limit to a cycle; with ``window`` False also without the time window."""
    scope = options.any_cycle().scope(side) if window else Scope(
        None, options.scope(side).pid, options.scope(side).rank, options.device)
    if scope == Scope():
        return run
    from .limits import restricted

    def make() -> Trace:
        part = restricted(run, scope, options)
        return part if part is run else replace(part, part_of=PartOf(run))

    return _remembered(run, scope, options, make)


def _of_cycle(run: Trace, options: Options, side: Side) -> Trace:
    cycle = options.scope(side).cycle
    if cycle is None and options.warm_up:
        return run
    if cycle is None:
        return _remembered(run, Scope(), options, lambda: _steady(run, options))
    return _remembered(run, Scope(cycle), options, lambda: _cut(run, cycle, options))


def _remembered(run: Trace, scope: Scope, options: Options, make: Callable[[], Trace]) -> Trace:
    """The limited run, the same object each time, because results are cached with the run object."""
    return run.remember("scope", (scope, options.cycle_anchor, options.warm_up), make)


def _cut(run: Trace, wanted: int, options: Options) -> Trace:
    from . import assignment, reduced  # imported late: without a cycle in the scope they are not needed
    from .detection import find_cycles

    cycles = find_cycles(run, options)
    require_cycle(run, cycles, wanted)
    matching = cycles.frame.filter(pl.col("cycle") == wanted)
    if reduced.is_reduced(run):
        return reduced.of_cycle(run, matching)
    windows = matching.select("rank", *assignment.WINDOW).rows()
    kernels = assignment.in_cycles(run, cycles.frame, cycles.device_time)
    part = PartOf(run, one_cycle=True, launched_outside=cycles.device_time, some_cycles=True)
    return replace(run, part_of=part).with_tables(
        kernels=kernels.filter(pl.col("cycle") == wanted).select(columns_of(run.kernels).names()),
        host=calls_where(run.host, moment_in("start_ns", _bounds(matching))),
        metrics=run.metrics.filter(moment_in("ts_ns", windows)),
        allocations=run.allocations.filter(moment_in("start_ns", windows)),
        call_chains=run.call_chains.filter(moment_in("start_ns", windows)),
        cycles=matching.select(columns_of(run.cycles).names()).lazy(),
        profile=run.profile.filter(pl.col("cycle") == wanted),
    )


def with_host_of_parent(run: Trace) -> Trace | None:
    """Cycles found on the device, with the host slices of the run they are part of: their work may have been launched
    before they began. None for other runs, which hold every launch call themselves."""
    part = run.part_of
    if part is None or not part.launched_outside:
        return None
    inside = replace(part, launched_outside=False)
    return run.remember("host of parent", (), lambda: replace(run, part_of=inside).with_tables(host=part.parent.host))


def _steady(run: Trace, options: Options) -> Trace:
    """The run without its warm-up cycles; unchanged where it has none."""
    from . import assignment, reduced
    from .detection import find_cycles

    cycles = find_cycles(run, options)
    first = cycles.frame.filter("warm_up")
    if first.is_empty():
        return run
    if reduced.is_reduced(run):
        return reduced.without(run, cycles.frame.filter(~pl.col("warm_up")), first)
    kernels = assignment.in_cycles(run, cycles.frame, cycles.device_time)
    theirs = kernels.join(
        first.lazy().select("rank", "cycle"), on=["rank", "cycle"], how="semi", nulls_equal=True
    ).select("index")
    return replace(run, part_of=PartOf(run, some_cycles=True)).with_tables(
        kernels=run.kernels.join(theirs, on="index", how="anti", maintain_order="left"),
        host=calls_where(run.host, ~moment_in("start_ns", _bounds(first))),
        cycles=cycles.frame.select(columns_of(run.cycles).names()).lazy(),
    )


def _bounds(cycles: pl.DataFrame) -> Iterable[Window]:
    """Rank, start and end of the cycles."""
    return cycles.select("rank", "start_ns", end=pl.col("start_ns") + pl.col("dur_ns")).rows()


def moment_in(column: str, windows: Iterable[Window]) -> pl.Expr:
    """Whether the moment in a column lies in a window of the row's ``rank``; a window without a rank is for all."""
    inside = pl.lit(False)
    for rank, first, last in windows:
        if first is not None:
            here = pl.col(column).is_between(first, last, closed="left")
            inside = inside | (here if rank is None else here & (pl.col("rank").is_null() | (pl.col("rank") == rank)))
    return inside


def require_cycle(run: Trace, cycles: Cycles, wanted: int | None) -> None:
    """Raises ScopeRefused if the run does not have that cycle; None always passes."""
    numbers = cycles.frame["cycle"].to_list()
    if wanted is None or wanted in numbers:
        return
    if wanted in cycles.inside:
        raise ScopeRefused(f"{run.info.label}: cycle {wanted} lies inside cycle {cycles.inside[wanted]}.")
    there = "it has no cycles"
    if numbers:
        first, last = min(numbers), max(numbers)
        there = f"it has cycles {first} to {last}" if first != last else f"it has cycle {first} only"
    raise ScopeRefused(f"{run.info.label} has no cycle {wanted}; {there}.")
