"""What changed outside the functions: per metric and device, how much, how significantly, and who saw it.

One line per (metric, device), however many functions it was read under. The most likely cause comes first: capacities
that shrank before rooms that filled, before what the process itself uses, which is a symptom; among capacities by what
was lost of them, and more so where the functions that ran under it got slower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...core import metrics as m
from ..prepare.samples import Work, of_process
from ..stats.fdr import q_values
from ..stats.robust_location import Floats, centre

LEVEL = 0.05
STEADY = 0.01
"""Readings are never trusted to less than this much of a logarithm."""
LEAST = 0.02
"""A change of less than this much of a logarithm is no news."""
_ROLES: dict[m.Role, int] = {"capacity": 0, "room": 1, "own use": 2}
Key = tuple[str, str]
"""Metric and device."""


class ChangedResource(Struct, frozen=True):
    """A metric on one device: means in its natural unit, and ``loss``, how much less there is of it (a logarithm).

    ``seen_by`` counts the functions it was read under, ``functions`` those of them that got slower. The interval of the
    loss is None where only means are known.
    """

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
    """A resource with the p-value of its change, before those of all resources are corrected together."""

    resource: ChangedResource
    p: float


def foremost_cause(resources: Iterable[ChangedResource]) -> ChangedResource | None:
    """The capacity most likely to have taken something from the run; None where none shrank."""
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
    """What changed, most likely cause first.

    ``units`` are those of the recorded counters, ``slowed`` the (function, device) that got slower, ``cycle_ratio`` how
    many times as long a cycle takes in B (own use of a bus per second falls by as much).
    """
    found = []
    under = _functions_under(work_b)
    for pid_a, pid_b in pids:
        sides = _series(readings(work_a, pid_a)), _series(readings(work_b, pid_b))
        for key in [key for key in sides[0] if key in sides[1]]:
            name, device = key
            if m.is_memory_counter(name):
                continue
            largest = max(float(np.max(side[key])) for side in sides)
            one = m.metric(name, units.get(name), largest)
            use = tuple(side.get((one.own_use, device)) if one.own_use else None for side in sides)
            own = own_use(one, (_centre(use[0]), _centre(use[1])), float(centre(sides[0][key])), cycle_ratio)
            values = sides[0][key] / one.divisor, sides[1][key] / one.divisor
            seen = under.get(key) or set()
            found.append(_reading(one, device, values, own, (pid_a, pid_b), seen, len(seen & set(slowed))))
    return ranked(_one_per_device(found))


def _series(frame: pl.DataFrame) -> dict[Key, Floats]:
    groups = frame.sort("cycle").group_by("metric", "device", maintain_order=True)
    return {(str(key[0]), str(key[1])): group["mu"].to_numpy() for key, group in groups}


def _centre(values: Floats | None) -> float:
    return float(centre(values)) if values is not None else 0.0


def own_use(
    one: m.Metric, processor: tuple[float, float], traffic: float, cycle_ratio: float
) -> tuple[float, float]:
    """What the process itself uses of it on each side, natural units.

    ``processor`` is the reading of ``one.own_use`` on both sides, ``traffic`` that of the metric itself in A: a cycle
    that takes longer moves as many bytes, so fewer a second.
    """
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
    loss = float(centre(loads[1]) - centre(loads[0]))
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
    """The logarithm of how many times as much there is in B; None where one side has none."""
    return float(np.log(b / a)) if a > 0 and b > 0 else None


def _functions_under(work_b: Work) -> dict[Key, set[tuple[str, str]]]:
    """The functions each metric of each device was read under."""
    found: dict[Key, set[tuple[str, str]]] = {}
    for metric, function, device in _distinct(work_b.metrics).rows():
        found.setdefault((metric, device), set()).add((function, device))
    return found


def _distinct(metrics: pl.DataFrame) -> pl.DataFrame:
    return metrics.lazy().select("metric", "function", "device").unique().collect(engine="streaming")


def _one_per_device(found: list[Reading]) -> list[Reading]:
    """One reading per (metric, device): of several process pairs that read it, the one it changed most for."""
    best: dict[Key, Reading] = {}
    for reading in found:
        key = reading.resource.metric, reading.resource.device
        if key not in best or abs(reading.resource.loss) > abs(best[key].resource.loss):
            best[key] = reading
    return list(best.values())


def ranked(found: list[Reading]) -> list[ChangedResource]:
    """False discoveries controlled over all that were read; the unchanged ones left out."""
    q = q_values([reading.p for reading in found])
    rows = [
        replace(reading.resource, q=1.0 if value is None else value) for reading, value in zip(found, q, strict=True)
    ]
    changed = [row for row in rows if abs(row.loss) >= LEAST and row.q <= LEVEL]
    if not changed:  # too few cycles to be sure of any: the clear ones, with their q
        changed = [row for row in rows if abs(row.loss) >= 10 * LEAST]
    # of two names with the same change (gpu_frequency, gpu_sm_frequency) the more specific first
    return sorted(changed, key=lambda row: (_rank(row), -_score(row), -len(row.metric), row.device))


def _score(row: ChangedResource) -> float:
    if row.role == "own use":
        return abs(row.loss)
    return max(row.loss, 0.0) * (1 + (row.functions / row.seen_by if row.seen_by else 0.0))


def _rank(row: ChangedResource) -> int:
    """A capacity that grew took nothing from anybody: it comes after those that shrank."""
    place = 2 * _ROLES[row.role]
    return place if row.loss > 0 else place + 1 if row.role == "own use" else 2 * _ROLES["own use"]
