"""What one row of the diff rests on: both distributions on one axis, its metrics before and after, who launches it.

This is what opens on Enter. Everything is from the same samples as the row, so that the picture and the verdict agree.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...contract.options import Options
from ...core.distribution import histogram
from ...core.metrics import Role, metric
from ...idle.causes import named_cause
from ..prepare.idle_time import idle_name
from ..prepare.prepared import Prepared, prepared
from ..prepare.samples import HOST, Matched, Work, of_process, work_of
from ..stats.reference import compare
from ..stats.robust_location import Floats
from ..verdict.cycle_time import spread
from ..verdict.resources import recorded_units

MOST_LAUNCHERS = 5


class BothSides(Struct, frozen=True):
    """The samples of A and B, and how many of them lie in each bin between ``edges``, all in one unit."""

    edges: tuple[float, ...]
    counts_a: tuple[int, ...]
    counts_b: tuple[int, ...]
    values_a: Floats
    values_b: Floats


class SideSummary(Struct, frozen=True):
    """Median and spread of one side, in its samples' unit, and how many there are."""

    median: float
    spread: float
    count: int


def summary(values: Floats) -> SideSummary | None:
    """What a side comes to; None for one without samples."""
    return SideSummary(float(np.median(values)), spread(values), len(values)) if len(values) else None


class MetricChange(Struct, frozen=True):
    """What one metric read while the function ran: means in its natural unit, and the p-value of their difference."""

    metric: str
    mu_a: float
    mu_b: float
    unit: str
    role: Role
    p: float | None
    suspicion: float


class Launcher(Struct, frozen=True):
    """An operator that launches the function, and how often."""

    name: str
    launches: int


class PartDetails(Struct, frozen=True):
    """A row folded into this one: launches and ms per cycle in both runs (medians of the cycles it is known in)."""

    name: str
    launches_a: float
    launches_b: float
    a_ms: float
    b_ms: float


class FunctionDetails(Struct, frozen=True):
    """What is known of one function. ``cycles_ms`` are its ms per cycle, ``per_launch_us`` its µs per launch (mean of
    each cycle), ``launches_ns`` the ns of every launch; None where that was not recorded. ``numbers_a`` and
    ``numbers_b`` are the cycles it is known in."""

    cycles_ms: BothSides | None
    per_launch_us: BothSides | None
    launches_ns: BothSides | None
    numbers_a: tuple[int, ...]
    numbers_b: tuple[int, ...]
    metrics: tuple[MetricChange, ...]
    launchers_a: tuple[Launcher, ...]
    launchers_b: tuple[Launcher, ...]
    parts: tuple[PartDetails, ...] = ()


def function_details(
    runs: tuple[Trace, Trace], options: Options, function: str, device: str | None,
    pid_a: int | None = None, pid_b: int | None = None, rank: int | None = None,
) -> FunctionDetails:
    """The function on that device in both runs. KeyError where neither run has it."""
    functions = matched_functions(runs, options)
    per_cycle: OverCycles | None = None
    metrics: tuple[MetricChange, ...] = ()
    parts: tuple[PartDetails, ...] = ()
    if functions.ready is not None:
        one, row = functions.located(function, device, pid_a, pid_b, rank)
        parts = _parts(functions.ready, one, function, device)
        per_cycle = _over_cycles(one, row)
        metrics = _metrics(functions.ready.works, one, function, device, runs)
    there, where = functions.in_b(function, device)
    launches = _launches(runs[0], function, device, rank), _launches(runs[1], there, where, rank)
    known = any(len(side) for side in launches)
    if per_cycle is None and not known:
        raise KeyError(function)
    return FunctionDetails(
        per_cycle.ms if per_cycle else None, per_cycle.us if per_cycle else None,
        _both(*launches) if known else None, per_cycle.numbers_a if per_cycle else (),
        per_cycle.numbers_b if per_cycle else (), metrics, _launchers(runs[0], function), _launchers(runs[1], there),
        parts,
    )


class OverCycles(Struct, frozen=True):
    """A function cycle by cycle: ms per cycle, µs per launch, and the numbers of the cycles it is known in."""

    ms: BothSides
    us: BothSides
    numbers_a: tuple[int, ...]
    numbers_b: tuple[int, ...]


class MatchedFunctions(Struct, frozen=True):
    """The functions of two runs by name and device; ``ready`` is None where one of them records no work per cycle."""

    ready: Prepared | None
    places: dict[tuple[str, str | None], list[tuple[Matched, int]]]

    def located(
        self, function: str, device: str | None, pid_a: int | None, pid_b: int | None, rank: int | None = None
    ) -> tuple[Matched, int]:
        """The pair of processes that has it, and its row there; a pid or rank that is None may be any. KeyError for
        none."""
        for one, row in self.places.get((function, device), ()):
            pair = one.pair
            if pid_a in (None, pair.pid_a) and pid_b in (None, pair.pid_b) and rank in (None, pair.rank):
                return one, row
        raise KeyError(function)

    def over_cycles(
        self, function: str, device: str | None, pid_a: int | None, pid_b: int | None, rank: int | None
    ) -> OverCycles:
        """The function in each cycle of both. KeyError where it is in neither."""
        return _over_cycles(*self.located(function, device, pid_a, pid_b, rank))

    def in_b(self, function: str, device: str | None) -> tuple[str, str | None]:
        """What the function and its device are called in B."""
        if self.ready is None:
            return function, device
        where = next((theirs for theirs, mine in self.ready.moved.items() if mine == device), device)
        return self.ready.names.get((function, device), function), where


def matched_functions(runs: tuple[Trace, Trace], options: Options) -> MatchedFunctions:
    """The functions of both runs, matched once for any number of questions."""
    works = work_of(runs[0], options), work_of(runs[1], options)
    if works[0].rows.is_empty() or works[1].rows.is_empty():
        return MatchedFunctions(None, {})
    ready = prepared(*works, options)
    places: dict[tuple[str, str | None], list[tuple[Matched, int]]] = {}
    for one in ready.matched:
        for row, (name, device, _) in enumerate(one.functions.rows()):
            places.setdefault((name, device), []).append((one, row))
    return MatchedFunctions(ready, places)


def _parts(ready: Prepared, one: Matched, function: str, device: str | None) -> tuple[PartDetails, ...]:
    """The kernels of an operator that were swapped, or the host's functions that are a cause of idle time."""
    place = next(at for at, other in enumerate(ready.matched) if other is one)
    kernels = {part for part, whole in ready.parts.items() if whole == (place, function, device)}

    def belongs(name: str, where: str | None, kind: str | None) -> bool:
        cause = named_cause(name, kind) if where == HOST else None
        return (place, name, where) in kernels or (cause is not None and idle_name(cause) == function)

    made = []
    for row, (name, where, kind) in enumerate(one.functions.rows()):
        if belongs(name, where, kind):
            (n_a, a), (n_b, b) = (
                (float(np.median(values[row, side.seen[row]])) if side.seen[row].any() else 0.0
                 for values in (side.launches, side.ms)) for side in (one.a, one.b)
            )
            made.append(PartDetails(name, n_a, n_b, a, b))
    return tuple(sorted(made, key=lambda part: -abs(part.b_ms - part.a_ms)))


def _over_cycles(one: Matched, row: int) -> OverCycles:
    numbers, ms, us = [], [], []
    for side in (one.a, one.b):
        known = side.seen[row]
        times, launches = side.ms[row, known], side.launches[row, known]
        ran = launches > 0
        numbers.append(tuple(side.cycles[known].tolist()))
        ms.append(times)
        us.append(times[ran] / launches[ran] * 1e3)
    return OverCycles(_both(ms[0], ms[1]), _both(us[0], us[1]), numbers[0], numbers[1])


def _both(a: Floats, b: Floats) -> BothSides:
    shape = histogram(a, b)
    return BothSides(tuple(shape["edges_ns"]), tuple(shape["a"]), tuple(shape["b"]), a, b)


def _metrics(
    works: tuple[Work, Work], one: Matched, function: str, device: str | None, runs: tuple[Trace, Trace]
) -> tuple[MetricChange, ...]:
    """All its metrics, most suspicious first, natural units."""
    mine = (pl.col("function") == function) & pl.col("device").eq_missing(pl.lit(device, pl.String))
    pids = one.pair.a, one.pair.b
    sides = [of_process(work.metrics, pid).filter(mine) for work, pid in zip(works, pids, strict=True)]
    if all(side.is_empty() for side in sides):
        return ()
    units = recorded_units(runs)
    made = []
    for name, mu_a, mu_b, p, suspicion in compare(sides[0], sides[1]).select(
        pl.col("metric").cast(pl.String), "mu_a", "mu_b", "p_mu", "suspicion"
    ).rows():
        kind = metric(name, units.get(name), max(mu_a or 0.0, mu_b or 0.0))
        made.append(MetricChange(name, mu_a / kind.divisor, mu_b / kind.divisor, kind.unit, kind.role, p, suspicion))
    return tuple(made)


def _launches(run: Trace, function: str, device: str | None, rank: int | None) -> Floats:
    if not run.has("kernels"):
        return np.empty(0)
    mine = (pl.col("name") == function) & pl.col("device").eq_missing(pl.lit(device, pl.String))
    if rank is not None:
        mine &= pl.col("rank") == rank
    spans = run.kernels.filter(mine).select(pl.col("dur_ns").cast(pl.Float64).drop_nulls()).collect()
    return spans["dur_ns"].to_numpy()


def _launchers(run: Trace, function: str) -> tuple[Launcher, ...]:
    """The operators that launch it, by external id, most launches first; empty where that was not recorded."""
    if not run.has("kernels") or not run.has("host"):
        return ()
    ids = run.kernels.filter((pl.col("name") == function) & pl.col("op_id").is_not_null()).select("op_id", "rank")
    ops = run.host.filter((pl.col("kind") == "op") & pl.col("external_id").is_not_null()).select(
        pl.col("name").cast(pl.String), "external_id", "rank"
    )
    named = ids.join(ops, left_on=["op_id", "rank"], right_on=["external_id", "rank"], nulls_equal=True)
    counted = named.group_by("name").len().sort("len", "name", descending=[True, False]).head(MOST_LAUNCHERS).collect()
    return tuple(Launcher(name, count) for name, count in counted.rows())
