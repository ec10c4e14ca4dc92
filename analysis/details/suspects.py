"""Details of a row of the diff: verdict, both distributions on one axis, metrics in A and B, launching operators.

All of it comes from the same samples as the row, so that picture and verdict agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.options import SIDES, Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.callers import operators_of_launches
from ..core.distribution import histogram
from ..core.metrics import metric
from ..core.text import display
from ..cycles.scope import scoped
from ..diff.headline import LEAST_TO_COMPARE
from ..diff.judge import Floats
from ..diff.prepare.prepared import Prepared, prepared
from ..diff.prepare.samples import HOST, SWAPPED, Matched, of_process, work_of
from ..diff.reference import compare
from ..diff.resources import recorded_units
from ..idle.cause_meanings import idle_name
from ..idle.causes import named_cause
from ..kernels.launch_index import launch_index
from .glances import Glances, latency_section
from .listed import Row, Runs, row_section

MOST_LAUNCHERS = 5
CELLS = 40  # Width of a run's sparkline; with more cycles each cell shows its longest.


class BothSides(Struct, frozen=True):
    """Times of a function in A and in B, in units of ``unit_ns``."""

    a: Floats
    b: Floats
    unit_ns: float

    @property
    def shape(self) -> dict[str, Any]:
        """Histogram of both for a ``Section``, edges in ns."""
        shape = histogram(self.a, self.b)
        return shape | {"edges_ns": [edge * self.unit_ns for edge in shape["edges_ns"]]}


class OverCycles(Struct, frozen=True):
    """A function in each cycle that recorded it: ms per cycle, and µs per launch (mean of the cycle)."""

    ms: BothSides
    us: BothSides


class MetricChange(Struct, frozen=True):
    """Means of one metric while the function ran, in its natural unit, and the p-value of their difference."""

    metric: str
    mu_a: float
    mu_b: float
    unit: str
    p: float | None


class PartDetails(Struct, frozen=True):
    """A row folded into this one: launches and ms per cycle in both runs (medians over the cycles that recorded it)."""

    name: str
    launches_a: float
    launches_b: float
    a_ms: float
    b_ms: float


class FunctionDetails(Struct, frozen=True):
    """The data on one function; None where not recorded. ``launchers``: per run, the operators that launch it and how
    often."""

    cycles: OverCycles | None
    launches: BothSides | None
    metrics: tuple[MetricChange, ...]
    launchers: tuple[pl.DataFrame, pl.DataFrame]
    parts: tuple[PartDetails, ...] = ()


class MatchedFunctions(Struct, frozen=True):
    """The functions of two runs by name and device; ``ready`` is None if either run has no work per cycle."""

    ready: Prepared | None
    places: dict[tuple[str, str | None], list[tuple[Matched, int]]]

    def located(
        self, function: str, device: str | None, pid_a: int | None, pid_b: int | None, rank: int | None = None
    ) -> tuple[Matched, int]:
        """The pair of processes with the function, and its row there; None as pid or rank matches any. Raises KeyError.
        """
        for one, row in self.places.get((function, device), ()):
            pair = one.pair
            if pid_a in (None, pair.pid_a) and pid_b in (None, pair.pid_b) and rank in (None, pair.rank):
                return one, row
        raise KeyError(function)

    def in_b(self, function: str, device: str | None) -> tuple[str, str | None]:
        """Names of the function and its device in B."""
        if self.ready is None:
            return function, device
        where = next((theirs for theirs, own in self.ready.moved.items() if own == device), device)
        return self.ready.names.get((function, device), function), where


def matched_functions(runs: tuple[Trace, Trace], options: Options) -> MatchedFunctions:
    """The functions of both runs, matched once for any number of lookups."""
    works = work_of(runs[0], options), work_of(runs[1], options)
    if works[0].rows.is_empty() or works[1].rows.is_empty():
        return MatchedFunctions(None, {})
    ready = prepared(*works, options)
    places: dict[tuple[str, str | None], list[tuple[Matched, int]]] = {}
    for one in ready.matched:
        for row, (name, device, _) in enumerate(one.functions.rows()):
            places.setdefault((name, device), []).append((one, row))
    return MatchedFunctions(ready, places)


def function_details(
    runs: tuple[Trace, Trace], options: Options, function: str, device: str | None,
    pid_a: int | None = None, pid_b: int | None = None, rank: int | None = None,
) -> FunctionDetails:
    """The function on that device in both runs. Raises KeyError if neither run has it."""
    functions = matched_functions(runs, options)
    cycles: OverCycles | None = None
    metrics: tuple[MetricChange, ...] = ()
    parts: tuple[PartDetails, ...] = ()
    if functions.ready is not None:
        one, row = functions.located(function, device, pid_a, pid_b, rank)
        parts = _parts(functions.ready, one, function, device)
        cycles = _over_cycles(one, row)
        if min(one.a.cycles.size, one.b.cycles.size) < LEAST_TO_COMPARE:
            cycles = None  # the launches were judged
        metrics = _metrics(functions.ready, one, function, device, runs)
    there, where = functions.in_b(function, device)
    launches = BothSides(_launches(runs[0], function, device, rank), _launches(runs[1], there, where, rank), 1.0)
    launched = bool(len(launches.a) or len(launches.b))
    if cycles is None and not launched and not parts:
        raise KeyError(function)
    return FunctionDetails(cycles, launches if launched else None, metrics,
                           (_launchers(runs[0], function), _launchers(runs[1], there)), parts)


def _parts(ready: Prepared, one: Matched, function: str, device: str | None) -> tuple[PartDetails, ...]:
    """The swapped kernels of an operator, or the host functions that make up a cause of idle time."""
    place = next(at for at, other in enumerate(ready.matched) if other is one)
    kernels = {part for part, whole in ready.parts.items() if whole == (place, function, device)}

    def belongs(name: str, where: str | None, kind: str | None) -> bool:
        cause = named_cause(name, kind) if where == HOST else None
        return (place, name, where) in kernels or (cause is not None and idle_name(cause) == function)

    result = []
    for row, (name, where, kind) in enumerate(one.functions.rows()):
        if belongs(name, where, kind):
            (n_a, a), (n_b, b) = (
                (float(np.median(values[row, side.seen[row]])) if side.seen[row].any() else 0.0
                 for values in (side.launches, side.ms)) for side in (one.a, one.b)
            )
            result.append(PartDetails(name, n_a, n_b, a, b))
    return tuple(sorted(result, key=lambda part: -abs(part.b_ms - part.a_ms)))


def _over_cycles(one: Matched, row: int) -> OverCycles:
    ms, us = [], []
    for side in (one.a, one.b):
        times, launches = side.ms[row, side.seen[row]], side.launches[row, side.seen[row]]
        ran = launches > 0
        ms.append(times)
        us.append(times[ran] / launches[ran] * 1e3)
    return OverCycles(BothSides(ms[0], ms[1], 1e6), BothSides(us[0], us[1], 1e3))


def _metrics(
    ready: Prepared, one: Matched, function: str, device: str | None, runs: tuple[Trace, Trace]
) -> tuple[MetricChange, ...]:
    """All metrics of the function, most suspicious first, in natural units."""
    matching = (pl.col("function") == function) & pl.col("device").eq_missing(pl.lit(device, pl.String))
    a, b = (of_process(work.metrics, pid).filter(matching)
            for work, pid in zip(ready.works, (one.pair.a, one.pair.b), strict=True))
    if a.is_empty() and b.is_empty():
        return ()
    recorded = recorded_units(runs)
    result = []
    for name, mu_a, mu_b, p in compare(a, b).select(pl.col("metric").cast(pl.String), "mu_a", "mu_b", "p_mu").rows():
        kind = metric(name, recorded.get(name), max(mu_a or 0.0, mu_b or 0.0))
        result.append(MetricChange(name, mu_a / kind.divisor, mu_b / kind.divisor, kind.unit, p))
    return tuple(result)


def _launches(run: Trace, function: str, device: str | None, rank: int | None) -> Floats:
    if not run.has("kernels"):
        return np.empty(0)
    matching = (pl.col("name") == function) & pl.col("device").eq_missing(pl.lit(device, pl.String))
    if rank is not None:
        matching &= pl.col("rank") == rank
    spans = run.kernels.filter(matching).select(pl.col("dur_ns").cast(pl.Float64).drop_nulls()).collect()
    return spans["dur_ns"].to_numpy()


def _launchers(run: Trace, function: str) -> pl.DataFrame:
    """The operators that launch the function, most launches first; empty where not recorded."""
    operators = operators_of_launches(run)
    if operators is None:
        return pl.DataFrame()
    names = run.kernels.select("name").collect(engine="streaming").with_columns(op=operators)
    named = names.filter(pl.col("name") == function).select(name=pl.col("op").cast(pl.String)).drop_nulls()
    return named.group_by("name").len().sort("len", "name", descending=[True, False]).head(MOST_LAUNCHERS)


def suspect_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The evidence for the row, from the same samples as its verdict; empty where only aggregates were compared."""
    if len(runs) != 2:
        return []
    try:
        details = function_details(
            (runs[0], runs[1]), options, row["function"], row["device"], *_pids(row), row.get("rank"))
    except KeyError:
        return []
    sections = [_verdict_section(row)]
    if row.get("parts") and details.parts:
        sections.append(_parts_section(details.parts))
    if details.cycles is not None:
        sections.append(_distribution("Time per cycle", details.cycles.ms))
        sections.append(_distribution("Time per launch, mean of each cycle", details.cycles.us))
    elif details.launches is not None:
        sections.append(Section("Launches", shape=details.launches.shape))
    if details.metrics:
        sections.append(_metrics_section(details.metrics))
    for side, launchers in zip("AB", details.launchers, strict=True):
        sections += row_section(f"Launched by · {side}", launchers, (display, units.count), ("operator", "launches"))
    return sections


def _pids(row: Row) -> tuple[int | None, int | None]:
    """The row's pids as numbers; None where it has none."""
    a, b = (int(pid) if pid is not None and str(pid).lstrip("-").isdigit() else None
            for pid in (row["pid_a"], row["pid_b"]))
    return a, b


def _verdict_section(row: Row) -> Section:
    """The row's verdict, change with confidence interval, false-alarm rate and noise floor."""
    rows = [("verdict", f"{row['verdict']}" + (f", {row['path']}" if row["path"] else ""))]
    if row["delta_ms"] is not None:
        interval = ""
        if row["ci_low_ms"] is not None and row["ci_high_ms"] is not None:
            low, high = units.rough_figure(row["ci_low_ms"]), units.rough_figure(row["ci_high_ms"])
            interval = f", 95% CI {low}…{high}"
        rows.append(("per cycle", units.amount(row["delta_ms"], signed=True) + interval))
    if row.get("us_per_gflop_a"):
        a, b = row["us_per_gflop_a"], row["us_per_gflop_b"]
        rows.append(("per FLOP", f"{units.number(a)} → {units.number(b)} µs per GFLOP, {units.factor(b / a)}: a launch "
                     "of B does other work"))
    if row["q"] is not None:
        rows.append(("chance", f"q = {units.number(row['q'])} (false-alarm rate over the list)"))
        rows.append(("samples", _samples(row)))
    if row.get("noise_ms") is not None:
        rows.append(("noise", f"within A: up to {units.amount(row['noise_ms'])}"))
    return Section("Confidence", tuple(rows))


def _samples(row: Row) -> str:
    """What was judged: the cycles of both runs, else their launches, whose spread is not that of steps."""
    a, b = row.get("cycles_a"), row.get("cycles_b")
    if a is not None and b is not None:
        return f"{units.count(a)} and {units.counted(b, 'cycle', 'cycles')}"
    of = "calls" if row.get("kind") == SWAPPED else "launches"
    return (f"{units.number(row['launches_a'])} and {units.number(row['launches_b'])} {of} a step: they spread less "
            "than steps do")


def _parts_section(parts: tuple[PartDetails, ...]) -> Section:
    """The rows folded into this one."""
    rows = tuple(
        (display(one.name), f"{units.number(one.launches_a)} → {units.number(one.launches_b)}",
         units.amount(one.a_ms, one.b_ms), units.amount(one.b_ms - one.a_ms, signed=True))
        for one in parts[:MOST]
    )
    return Section("Parts, per cycle", rows, ("function", "launches", "time", "Δ"))


def _distribution(title: str, samples: BothSides) -> Section:
    rows = tuple(
        (f"{name} median", f"{units.duration(float(np.median(values)) * samples.unit_ns)} ± "
         f"{units.duration(_spread(values) * samples.unit_ns)}, {units.counted(len(values), 'cycle', 'cycles')}")
        for name, values in (("A", samples.a), ("B", samples.b)) if len(values)
    )
    return Section(title, rows, shape=samples.shape)


def _metrics_section(metrics: tuple[MetricChange, ...]) -> Section:
    rows = tuple(
        (display(one.metric), units.number(one.mu_a), units.number(one.mu_b), one.unit,
         units.MISSING if one.p is None else units.number(one.p)) for one in metrics[:MOST]
    )
    capped = f", {MOST} of {len(metrics)}" if len(metrics) > MOST else ""
    return Section(f"Metrics while it ran{capped}", rows, ("metric", "A", "B", "unit", "p"))


def function_glance(runs: Runs, options: Options) -> Glances:
    """The sections of a row of the diff for the pane beside the list: histogram of both runs' launches on one axis, and
    time per cycle; empty for a finished comparison."""
    if len(runs) != 2 or any(run.has("comparison") for run in runs):
        return lambda row: []
    functions = matched_functions((runs[0], runs[1]), options)
    indexes = [launch_index(run, scoped(run, options, side), with_ways=False)
               for run, side in zip(runs, SIDES, strict=True)]

    def of(row: Row) -> list[Section]:
        function, device = row["function"], row["device"]
        try:
            one, at = functions.located(function, device, *_pids(row), row.get("rank"))
            few = min(one.a.cycles.size, one.b.cycles.size) < LEAST_TO_COMPARE
            cycles = None if few else _over_cycles(one, at)
        except KeyError:
            cycles = None
        places = (function, device), functions.in_b(function, device)
        spans = [index.durations(index.groups(name, device=where))
                 for index, (name, where) in zip(indexes, places, strict=True)]
        if any(map(len, spans)):
            latency = latency_section(spans)
        elif cycles is not None:
            latency = Section("Time per launch, mean of each cycle", shape=cycles.us.shape)
        else:
            return [_verdict_section(row)] if row.get("launches_a") is not None else []  # not for a group's head
        return [_verdict_section(row), latency, *(_by_cycle(cycles.ms) if cycles is not None else [])]

    return of


def _by_cycle(ms: BothSides) -> list[Section]:
    """Sparklines of both runs' cycles in order, on one scale, with median and range."""
    a, b = _thinned(ms.a.tolist()), _thinned(ms.b.tolist())
    line = units.sparkline([*a, *b])
    rows = []
    for side, drawn, values in (("A", line[: len(a)], ms.a), ("B", line[len(a) :], ms.b)):
        if len(values):
            low, middle, high = (units.duration(float(at) * 1e6) for at in np.quantile(values, (0, 0.5, 1)))
            rows.append((side, display(drawn), middle, f"{low} to {high}"))
    return [Section("Time per cycle, in order", tuple(rows), ("", "cycles", "median", "range"))] if rows else []


def _thinned(values: list[float]) -> list[float]:
    if len(values) <= CELLS:
        return values
    return [max(values[len(values) * at // CELLS : len(values) * (at + 1) // CELLS]) for at in range(CELLS)]


def _spread(values: Floats) -> float:
    """1.48 times the median absolute deviation: a standard deviation robust to outliers."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))
