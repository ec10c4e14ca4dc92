"""Changed resources: per metric and device, the change, its significance, and the functions that ran under it.

One row per (metric, device), however many functions it was read under. The most likely cause comes first: capacities
that shrank, then rooms (memory, disks) that filled, then the process's own use, which is a symptom. Capacities rank by
how much of them was lost, and higher if the functions that ran under them got slower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..core import metrics as m
from .judge import Floats, q_values
from .prepare.samples import Work, of_process
from .reference import compare

LEVEL = 0.05
STEADY = 0.01  # Readings are never trusted to better than this, in natural log.
LEAST = 0.02  # Changes below this, in natural log, are not reported.
_ROLES: dict[m.Role, int] = {"capacity": 0, "room": 1, "own use": 2}
Key = tuple[str, str]  # Metric and device.


class ChangedResource(Struct, frozen=True):
    """A metric on one device: means in its natural unit, and ``loss``, how much less of it there is (natural log).
    ``seen_by`` counts the functions it was read under, ``functions`` those of them that got slower. The 95% CI of the
    loss is None if only means are known."""

    metric: str
    device: str
    mu_a: float
    mu_b: float
    unit: str
    log_change: float | None
    q: float
    functions: int
    role: m.Role
    seen_by: int
    pid_a: int | None
    pid_b: int | None
    loss: float
    loss_low: float | None = None
    loss_high: float | None = None


class Reading(Struct, frozen=True):
    """A resource with the p-value of its change, before correction for multiple testing."""

    resource: ChangedResource
    p: float


def foremost_cause(resources: Iterable[ChangedResource]) -> ChangedResource | None:
    """The capacity most likely to have slowed the run; None if none shrank."""
    return next((row for row in resources if row.role == "capacity" and row.loss > 0), None)


def readings(work: Work, pid: int | None) -> pl.DataFrame:
    """Per (metric, device, cycle): μ averaged over the functions it was read under, weighted by their time."""
    rows = of_process(work.metrics, pid)
    weight = pl.col("dur_ns").clip(1)
    return rows.group_by("metric", "device", "cycle", maintain_order=True).agg(
        ((pl.col("mu") * weight).sum() / weight.sum()).alias("mu")
    )


def resources(
    work_a: Work, work_b: Work, pids: list[tuple[int | None, int | None]], units: dict[str, str],
    slowed: Collection[tuple[str, str]], cycle_ratio: float,
) -> list[ChangedResource]:
    """The changed resources, most likely cause first. ``units`` are those of the recorded counters, ``slowed`` the
    (function, device) that got slower, ``cycle_ratio`` the cycle time of B over A."""
    made = []
    under = _functions_under(work_b)
    for pid_a, pid_b in pids:
        sides = _series(readings(work_a, pid_a)), _series(readings(work_b, pid_b))
        for key in [key for key in sides[0] if key in sides[1]]:
            name, device = key
            if m.is_memory_counter(name):
                continue
            largest = max(float(np.max(side[key])) for side in sides)
            one = m.metric(name, units.get(name), largest)
            use_a, use_b = (
                centre(side[one.own_use, device]) if one.own_use and (one.own_use, device) in side else 0.0
                for side in sides
            )
            own = own_use(one, (use_a, use_b), centre(sides[0][key]), cycle_ratio)
            values = sides[0][key] / one.divisor, sides[1][key] / one.divisor
            seen = under.get(key) or set()
            made.append(_reading(one, device, values, own, (pid_a, pid_b), seen, len(seen & set(slowed))))
    return ranked(_one_per_device(made))


def _series(frame: pl.DataFrame) -> dict[Key, Floats]:
    groups = frame.sort("cycle").group_by("metric", "device", maintain_order=True)
    return {(str(key[0]), str(key[1])): group["mu"].to_numpy() for key, group in groups}


def own_use(one: m.Metric, processor: tuple[float, float], traffic: float, cycle_ratio: float) -> tuple[float, float]:
    """The process's own use of the metric in A and in B, natural units. ``processor`` is the reading of ``one.own_use``
    on both sides, ``traffic`` that of the metric itself in A: a shorter cycle moves the same bytes, so more per second
    (for a longer one A's figure is kept)."""
    if one.means == "processor":
        return processor
    if one.means == "traffic":
        mine = traffic / one.divisor
        return mine, mine / min(cycle_ratio, 1.0) if cycle_ratio else mine
    return 0.0, 0.0


def _reading(
    one: m.Metric, device: str, values: tuple[Floats, Floats], own: tuple[float, float],
    pids: tuple[int | None, int | None], seen: Collection[tuple[str, str]], slower: int,
) -> Reading:
    from scipy.special import stdtr, stdtrit

    loads = [m.load(one, side, np.full(len(side), used)) for side, used in zip(values, own, strict=True)]
    loss = centre(loads[1]) - centre(loads[0])
    n_a, n_b = len(loads[0]), len(loads[1])
    squares = sum(float(side.var()) * len(side) for side in loads) + 2 * STEADY**2
    error = float(np.sqrt(squares / max(n_a + n_b - 2 + 2, 1) * (1 / n_a + 1 / n_b)))
    freedom = float(n_a + n_b)
    p = float(2 * stdtr(freedom, -abs(loss) / error)) if min(n_a, n_b) > 1 else 1.0
    margin = float(stdtrit(freedom, 0.975)) * error
    mean_a, mean_b = (float(side.mean()) for side in values)
    resource = ChangedResource(
        one.name, device, mean_a, mean_b, one.unit, log_change(mean_a, mean_b), 1.0, slower, one.role, len(seen),
        *pids, loss, loss - margin, loss + margin,
    )
    return Reading(resource, p)


def log_change(a: float, b: float) -> float | None:
    """ln(B / A); None if either side has none."""
    return float(np.log(b / a)) if a > 0 and b > 0 else None


def centre(values: Floats) -> float:
    """The mean without a fifth of the readings at each end, at least one from three readings on."""
    cut = max(1, len(values) // 5) if len(values) >= 3 else 0
    return float(np.sort(values)[cut : len(values) - cut].mean())


def _functions_under(work_b: Work) -> dict[Key, set[tuple[str, str]]]:
    """The functions that each (metric, device) was read under in B."""
    under: dict[Key, set[tuple[str, str]]] = {}
    rows = work_b.metrics.lazy().select("metric", "function", "device").unique().collect(engine="streaming")
    for metric, function, device in rows.rows():
        under.setdefault((metric, device), set()).add((function, device))
    return under


def _one_per_device(readings: list[Reading]) -> list[Reading]:
    """One reading per (metric, device): that of the process pair for which it changed most."""
    best: dict[Key, Reading] = {}
    for reading in readings:
        key = reading.resource.metric, reading.resource.device
        if key not in best or abs(reading.resource.loss) > abs(best[key].resource.loss):
            best[key] = reading
    return list(best.values())


def ranked(readings: list[Reading]) -> list[ChangedResource]:
    """The changed resources, ranked, with the false-discovery rate controlled over all readings."""
    q = q_values([reading.p for reading in readings])
    rows = [
        replace(reading.resource, q=1.0 if value is None else value) for reading, value in zip(readings, q, strict=True)
    ]
    changed = [row for row in rows if abs(row.loss) >= LEAST and row.q <= LEVEL]
    if not changed:  # too few cycles for significance: the large changes, with their q
        changed = [row for row in rows if abs(row.loss) >= 10 * LEAST]
    # of two names with the same change (gpu_frequency, gpu_sm_frequency) the more specific first
    return sorted(changed, key=lambda row: (_rank(row), -_score(row), -len(row.metric), row.device))


def _score(row: ChangedResource) -> float:
    if row.role == "own use":
        return abs(row.loss)
    return max(row.loss, 0.0) * (1 + (row.functions / row.seen_by if row.seen_by else 0.0))


def _rank(row: ChangedResource) -> int:
    """Sort key by role; a capacity or room that grew took nothing away and ranks with own use."""
    place = 2 * _ROLES[row.role]
    return place if row.loss > 0 else place + 1 if row.role == "own use" else 2 * _ROLES["own use"]


_KEYS = ["function", "device", "pid_a", "pid_b"]
_FILLED = ["metric", "mu_a", "mu_b", "unit", "suspicion"]


def with_metrics(table: pl.DataFrame, scored: pl.DataFrame, changed: Sequence[ChangedResource]) -> pl.DataFrame:
    """``table`` with ``metric mu_a mu_b unit`` of the most telling metric (natural units) and the largest ``suspicion``
    of each row's metrics."""
    if scored.is_empty():
        return table
    rank = pl.DataFrame(
        [(row.metric, row.device, place) for place, row in enumerate(changed)],
        schema={"metric": pl.String, "device": pl.String, "place": pl.Int64}, orient="row",
    )
    best = (
        scored.join(rank, on=["metric", "device"], how="left", nulls_equal=True, maintain_order="left")
        .sort("place", "suspicion", descending=[False, True], nulls_last=True, maintain_order=True)
        .group_by(_KEYS, maintain_order=True)
        .agg(pl.col("metric", "mu_a", "mu_b", "unit").first(), pl.col("suspicion").max())
    )
    return table.drop(_FILLED).join(best, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")


def _readings(work: Work, pid: int | None) -> pl.DataFrame:
    """The process's metrics without its own memory counters, which do not explain why it took longer."""
    names = work.metrics["metric"].unique().cast(pl.String).drop_nulls()
    own = [name for name in names if m.is_memory_counter(name)]
    rows = of_process(work.metrics, pid)
    return rows.filter(~pl.col("metric").cast(pl.String).is_in(own)) if own else rows


def scored_metrics(works: tuple[Work, Work], table: pl.DataFrame, units: dict[str, str]) -> pl.DataFrame:
    """The reference scores per process pair, function and metric, μ in natural units."""
    pieces = []
    for pid_a, pid_b in table.select("pid_a", "pid_b").unique(maintain_order=True).rows():
        a, b = (_readings(work, pid) for work, pid in zip(works, (pid_a, pid_b), strict=True))
        if a.is_empty() and b.is_empty():
            continue
        both = pl.lit(pid_a, pl.Int64).alias("pid_a"), pl.lit(pid_b, pl.Int64).alias("pid_b")
        pieces.append(compare(a, b).with_columns(*both, pl.col("function", "metric", "device").cast(pl.String)))
    if not pieces:
        return pl.DataFrame()
    scores = pl.concat(pieces)
    largest = scores.group_by("metric", maintain_order=True).agg(pl.max_horizontal("mu_a", "mu_b").max())
    metrics = [m.metric(name, units.get(name), most or 0.0) for name, most in largest.rows()]
    natural = pl.DataFrame(
        [(one.name, one.unit, one.divisor) for one in metrics],
        schema={"metric": pl.String, "unit": pl.String, "divisor": pl.Float64}, orient="row",
    )
    joined = scores.join(natural, on="metric", how="left", maintain_order="left")
    return joined.with_columns(pl.col("mu_a", "mu_b") / pl.col("divisor")).drop("divisor")


def recorded_units(runs: Iterable[Trace]) -> dict[str, str]:
    """Metric → unit, for every counter that has one."""
    result: dict[str, str] = {}
    for run in runs:
        pairs = run.metrics.select(pl.col("metric", "unit").cast(pl.String)).unique().collect(engine="streaming")
        result |= {metric: unit for metric, unit in pairs.rows() if metric and unit}
    return result
