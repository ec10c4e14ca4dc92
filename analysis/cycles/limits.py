"""A run limited to a process, a rank, a device and a time window: the limits of ``scope`` other than cycles.

Every table that has rows must support the limit, or the query is refused: a scope that is printed but not applied
would be worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from msgspec.structs import replace

from ...loaders.schema import columns_of
from ...loaders.trace import Trace
from ..communication.rank_clocks import ahead, clocks_of, on_first_clock
from ..contract.options import Options, Scope
from ..contract.view import ScopeRefused
from ..core import units
from ..core.call_tree import calls_where
from ..core.device_pairs import natural
from . import assignment, reduced
from .detection import find_cycles
from .sourced_cycles import GUESSED, IGNORED, LIMITED, WINDOWED

_BY = {
    "pid": ("kernels", "host", "metrics", "cycles", "profile", "comparison"),
    "rank": ("kernels", "host", "metrics", "allocations", "cycles"),
    "device": ("kernels", "host", "metrics", "allocations", "cycles", "profile", "kernel_stats", "comparison"),
    "window": ("kernels", "host", "metrics", "allocations", "cycles", "profile"),
}
"""The tables that each limit can be applied to."""
_TOTALS = ("profile", "operators", "kernel_stats", "host_stats", "breakdown", "comparison")


def restricted(run: Trace, scope: Scope, options: Options) -> Trace:
    """The run limited to that process, rank, device and window; the scope's cycle is ignored. Raises ScopeRefused."""
    if reduced.is_reduced(run):
        return reduced.restricted(run, scope)
    for name, wanted in (("pid", scope.pid), ("rank", scope.rank), ("device", scope.device)):
        if wanted is not None:
            _refuse_totals(run, name, f"{name} {wanted}" if name != "device" else str(wanted))
    windowed = scope.from_ns is not None or scope.to_ns is not None
    if windowed:
        _refuse_totals(run, "window", "a window of time")
    if options.cycle_anchor is not None or not run.has("cycles"):
        # detected once, in the whole run: a part of it would give other cycles
        schema = columns_of(run.cycles).names()
        cycles = find_cycles(run, options)
        run = _derived(run, cycles.frame.select(schema), cycles.guessed, cycles.ignored)
    if scope.rank is not None:
        run = _of_rank(run, scope.rank)
    if scope.pid is not None:
        run = _of_process(run, scope.pid)
    if scope.device is not None:
        run = _of_device(run, scope.device)
    return _of_window(run, scope) if windowed else run


def _derived(run: Trace, cycles: pl.DataFrame, guessed: bool, ignored: str | None) -> Trace:
    info = replace(run.info, facts={**run.info.facts, LIMITED: True, GUESSED: guessed, IGNORED: ignored})
    return replace(run, info=info, cycles=cycles.lazy())


def _refuse_totals(run: Trace, limit: str, what: str) -> None:
    for name in _TOTALS:
        if name not in _BY[limit] and run.has(name):
            raise ScopeRefused(
                f"{run.info.label} holds sums over the whole run (table {name}); they cannot be limited to {what}."
            )


def _refuse(run: Trace, kind: str, wanted: object, have: Iterable[object], plural: str) -> ScopeRefused:
    named = reduced.listed(have)
    there = f"it has {named}" if named else f"it names no {plural}"
    return ScopeRefused(f"{run.info.label} has no {kind} {wanted}; {there}.")


def _distinct(tables: Iterable[pl.LazyFrame], column: str) -> set[Any]:
    result: set[Any] = set()
    for table in tables:
        values = table.select(pl.col(column).unique()).collect(engine="streaming")[column]
        result |= set((values.cast(pl.String) if values.dtype == pl.Categorical else values).drop_nulls().to_list())
    return result


def _of_rank(run: Trace, rank: int) -> Trace:
    there = run.info.ranks or tuple(sorted(_distinct((run.kernels, run.host, run.cycles), "rank")))
    if rank not in there:
        raise _refuse(run, "rank", rank, there, "ranks")
    if len(there) == 1:
        return run
    matching = pl.col("rank") == rank
    tables = {name: run.table(name).filter(matching) for name in ("kernels", "cycles")}
    tables["host"] = calls_where(run.host, matching)
    for name in ("metrics", "allocations", "call_chains"):
        tables[name] = run.table(name).filter(matching | pl.col("rank").is_null())
    return _about(run.with_tables(**tables), ranks=(rank,))


def _of_process(run: Trace, pid: int) -> Trace:
    there = _distinct((run.kernels, run.host, run.profile), "pid")
    for column in ("pid_a", "pid_b"):
        there |= _distinct((run.comparison,), column)
    if pid not in there:
        raise _refuse(run, "process", pid, sorted(there), "processes")
    kernels = assignment.launched(run).drop("launch_ns", "assumed_ns", "earlier")
    if len(there) == 1:  # an activity without a process and without a launch call can only belong to this one
        kernels = kernels.with_columns(pl.col("pid").fill_null(pid))
    matching = pl.col("pid") == pid
    host = calls_where(run.host, matching)
    cycles = run.cycles
    if run.has("profile"):
        of_profile = run.profile.filter(matching).select("cycle", start_ns="cycle_start_ns").unique()
        cycles = cycles.join(of_profile, on=["cycle", "start_ns"], how="semi", nulls_equal=True, maintain_order="left")
    recorded = pl.col("pid_a").is_null() | (pl.col("pid_a") == pid) | (pl.col("pid_b") == pid)
    process = run.with_tables(
        kernels=kernels.filter(matching), host=host, metrics=run.metrics.filter(matching | pl.col("pid").is_null()),
        profile=run.profile.filter(matching), comparison=run.comparison.filter(recorded), cycles=cycles,
        call_chains=run.call_chains.filter(matching),
    )
    ranks = _distinct((process.kernels, process.host), "rank")
    if ranks and len(run.info.ranks) > 1:
        here = pl.col("rank").is_null() | pl.col("rank").is_in(sorted(ranks))
        process = process.with_tables(cycles=cycles.filter(here), metrics=process.metrics.filter(here))
    return _about(process, ranks=tuple(sorted(ranks)))


def _of_device(run: Trace, device: str) -> Trace:
    tables = (run.kernels, run.kernel_stats, run.profile, run.comparison)
    there: set[str] = (_distinct(tables, "device") or _distinct((run.metrics,), "device")) - {"Host"}
    if device not in there:
        raise _refuse(run, "device", device, sorted(there, key=natural), "devices")
    on_it, host_too = pl.col("device") == device, pl.col("device").is_null() | (pl.col("device") == "Host")
    kernels = run.kernels.filter(on_it)
    users = _distinct((kernels,), "rank")
    of_user = pl.col("rank").is_null() | pl.col("rank").is_in(sorted(users)) if users else pl.lit(True)
    here = of_user & ~_elsewhere(run, device)
    on_device = run.with_tables(
        kernels=kernels, host=calls_where(run.host, here), call_chains=run.call_chains.filter(here),
        cycles=run.cycles.filter(of_user),
        metrics=run.metrics.filter(on_it | host_too, of_user), profile=run.profile.filter(on_it | host_too),
        allocations=run.allocations.filter(on_it),
        kernel_stats=run.kernel_stats.filter(on_it), comparison=run.comparison.filter(on_it | host_too),
    )
    return _about(on_device, ranks=tuple(sorted(users)))


def _elsewhere(run: Trace, device: str) -> pl.Expr:
    """Whether a host slice is of a process that launched work, but none on this device."""
    used = assignment.launched(run).group_by("pid", "device").agg().drop_nulls().collect(engine="streaming")
    here = used.filter(pl.col("device") == device)["pid"].unique().to_list()
    others = [pid for pid in used["pid"].unique().to_list() if pid not in here]
    return pl.col("pid").is_in(others).fill_null(False) if here and others else pl.lit(False)


def require_window(run: Trace, scope: Scope) -> None:
    """Raises ScopeRefused for a window that ends before it begins or begins after the run, and for untimed launches."""
    first, end = scope.from_ns or 0, scope.to_ns
    if end is not None and end <= first:
        raise ScopeRefused(f"The window ends at {units.duration(end)}, before it begins at {units.duration(first)}.")
    if run.kernels.select(pl.col("start_ns").is_null().any()).collect(engine="streaming").item():
        raise ScopeRefused(f"{run.info.label} has launches without times: they cannot be limited to a window of time.")
    bounds = _bounds(on_first_clock(run, clocks_of(run)))
    if bounds is not None and first >= bounds[1]:
        raise _nothing_there(run)


def _of_window(run: Trace, scope: Scope) -> Trace:
    require_window(run, scope)
    clock = ahead(clocks_of(run))
    first = pl.lit(scope.from_ns or 0) + clock
    end = None if scope.to_ns is None else pl.lit(scope.to_ns) + clock

    def inside(column: str) -> pl.Expr:
        late = pl.lit(True) if scope.from_ns is None else pl.col(column) >= first
        return late if end is None else late & (pl.col(column) < end)

    cycles = run.cycles.filter(inside("start_ns"))
    if end is not None:  # the window may cut off the last cycle
        whole = pl.col("start_ns") + pl.col("dur_ns") <= end
        cycles = cycles.with_columns(complete=pl.col("complete").fill_null(True) & whole)
    window = run.with_tables(
        kernels=run.kernels.filter(inside("start_ns")), host=calls_where(run.host, inside("start_ns")),
        metrics=run.metrics.filter(inside("ts_ns")), profile=run.profile.filter(inside("cycle_start_ns")),
        cycles=cycles, allocations=_alive(run.allocations, first, end),
        call_chains=run.call_chains.filter(inside("start_ns")),
    )
    if not any(window.has(name) for name in ("kernels", "host", "metrics", "profile", "cycles")):
        raise _nothing_there(run)
    about = _about(window, ranks=run.info.ranks)
    return replace(about, info=replace(about.info, facts={**about.info.facts, WINDOWED: True}))


def _alive(allocations: pl.LazyFrame, first: pl.Expr, end: pl.Expr | None) -> pl.LazyFrame:
    """Memory held at any time in the window, whenever it was allocated; its time before the window is cut off."""
    starts = pl.col("start_ns").fill_null(0)
    until = starts + pl.col("dur_ns")
    held = until.is_null() | (until > first)
    before = pl.col("start_ns").is_null() | (pl.col("start_ns") < first)
    rest = allocations.filter(held if end is None else held & (starts < end))
    return rest.with_columns(
        start_ns=pl.when(~before).then("start_ns").otherwise(first),
        dur_ns=pl.when(before).then(until - first).otherwise("dur_ns"),
        tid=pl.when(~before).then("tid"),  # the slices it was allocated in are outside the window
    )


def _nothing_there(run: Trace) -> ScopeRefused:
    bounds = _bounds(on_first_clock(run, clocks_of(run)))
    there = "it has no times" if bounds is None else f"it lasts from {' to '.join(map(units.duration, bounds))}"
    return ScopeRefused(f"{run.info.label} has nothing in this window; {there}.")


def _bounds(run: Trace) -> tuple[int, int] | None:
    """Begin and end of the run, ns; None without times."""
    bounds = [
        run.table(name).select(a=pl.col(start).min(), b=(pl.col(start) + pl.col(span)).max()).collect().row(0)
        for name, start, span in (("kernels", "start_ns", "dur_ns"), ("host", "start_ns", "dur_ns"),
                                  ("cycles", "start_ns", "dur_ns"), ("profile", "cycle_start_ns", "cycle_ns"))
    ]
    starts, ends = [a for a, _ in bounds if a is not None], [b for _, b in bounds if b is not None]
    return (min(starts), max(ends)) if starts and ends else None


def _about(run: Trace, ranks: tuple[int, ...]) -> Trace:
    """The run, with ``info`` limited to the ranks and devices that are left in it."""
    there = _distinct((run.kernels, run.kernel_stats, run.profile), "device")
    devices = tuple(device for device in run.info.devices if device.id in there) if there else run.info.devices
    facts = {**run.info.facts, LIMITED: True}
    rest = ranks if run.info.ranks else ()
    return replace(run, info=replace(run.info, devices=devices, ranks=rest, facts=facts))
