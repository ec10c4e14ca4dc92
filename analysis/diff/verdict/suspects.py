"""Which functions changed: one row per process pair, function and device, with what is surely lost per cycle.

Time per launch and launches per cycle are compared apart and brought together as milliseconds per cycle. A row is
called slower or faster only where chance is ruled out for the whole list (``deals``), where the change is more than the
function does by itself from one half of the baseline to the other, and where even the near end of its interval is
beyond what one run differs from the next by anyway.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ..prepare.samples import Matched
from ..stats import permutation
from ..stats.robust_location import Floats, Shift, centre, shift, usual_variance

LEVEL = 0.05
"""Of a hundred comparisons without any difference, in how many some function may be called changed."""
FAMILY_LEVEL = 0.03
"""The same for each of the two families that are tested (time per launch, launches), which overlap."""
DOMINANCE = 0.75
"""Of all pairs of a cycle of A and one of B, the share that must show the change in its direction: a function with two
kinds of cycles (a sampler, a cache that hits or not) has centres that jump, but not this.
One odd cycle in five passes."""
BETWEEN_RUNS = 0.02
"""A steady function differs by this share from run to run (clocks, placement); one run a side cannot show it."""
MATERIAL = 1e-5
"""Share of a cycle below which a change is no news."""
LEAST_CYCLES = 2
GROSS = 1.25
"""With too few cycles to rule chance out, only sides apart by this factor at their nearest are called changed."""
CLASSES = ("device", "host", "communication")

COLUMNS: dict[str, pl.DataType] = {
    "function": pl.String(), "device": pl.String(), "kind": pl.String(), "pid_a": pl.Int64(), "pid_b": pl.Int64(),
    "launches_a": pl.Float64(), "launches_b": pl.Float64(), "launch_us_a": pl.Float64(), "launch_us_b": pl.Float64(),
    "ratio": pl.Float64(), "a_ms": pl.Float64(), "b_ms": pl.Float64(), "delta_ms": pl.Float64(),
    "ci_low_ms": pl.Float64(), "ci_high_ms": pl.Float64(), "q": pl.Float64(), "verdict": pl.String(),
    "noise_ms": pl.Float64(), "sure_ms": pl.Float64(), "class": pl.String(), "cycles_a": pl.Int64(),
    "cycles_b": pl.Int64(),
}


class _Row(Struct, frozen=True):
    """One function of one process pair: its launches per cycle and ln(ms per launch) on both sides, where known.

    ``seen`` and ``ran`` tell the cycles it was recorded in and those it ran in, as keys to group by.
    """

    matched: Matched
    function: str
    device: str | None
    kind: str | None
    launches: tuple[Floats, Floats]
    log_ms: tuple[Floats, Floats]
    baseline_ms: Floats
    seen: tuple[bytes, bytes]
    ran: tuple[bytes, bytes]
    mean_ms: float


def _rows_of(one: Matched) -> list[_Row]:
    sides = (one.a, one.b)
    seen = [side.seen for side in sides]
    ran = [known & (side.launches > 0) & (side.ms > 0) for known, side in zip(seen, sides, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(side.ms / side.launches) for side in sides]
    cycles = [side.cycles.astype(np.float64) for side in sides]
    names = one.functions.select("function", "device", "kind").rows()
    made = []
    for i in range(len(names)):
        at, on = [known[i] for known in seen], [known[i] for known in ran]
        times = [side.ms[i, known] for side, known in zip(sides, at, strict=True)]
        function, device, kind = names[i]
        made.append(_Row(
            one, function, device, kind, (one.a.launches[i, at[0]], one.b.launches[i, at[1]]),
            (logs[0][i, on[0]], logs[1][i, on[1]]), times[0], (cycles[0][at[0]].tobytes(), cycles[1][at[1]].tobytes()),
            (cycles[0][on[0]].tobytes(), cycles[1][on[1]].tobytes()),
            max(float(side.mean()) if len(side) else 0.0 for side in times),
        ))
    return made


def kind_class(kind: str | None, device: str | None) -> str:
    """'device', 'host' or 'communication'."""
    if kind == "collective":
        return "communication"
    return "host" if device == "Host" else "device"


def suspects(matched: list[Matched]) -> pl.DataFrame:
    """One row per process pair, function and device (``COLUMNS``), not yet in order."""
    rows = [row for one in matched for row in _rows_of(one)]
    if not rows:
        return pl.DataFrame(schema=COLUMNS)
    priors = _priors(rows)
    material = [row.mean_ms >= MATERIAL * float(np.median(row.matched.a.cycle_ms)) for row in rows]
    times = _blocks([row.ran for row in rows], [row.log_ms for row in rows], priors, material)
    q_time = permutation.chance(times, "time", len(rows))
    q_count = permutation.chance(_blocks([row.seen for row in rows], [row.launches for row in rows], priors, material),
                           "count", len(rows))
    moved, noise = _moved(rows, priors), _noise(rows)
    table = [_judged(*known) for known in zip(rows, moved, noise, q_time, q_count, strict=True)]
    return pl.DataFrame(table, schema=COLUMNS, orient="row", strict=False)


def _priors(rows: list[_Row]) -> Floats:
    """The usual variance of ln(time per launch) for functions of the row's class."""
    classes = [kind_class(row.kind, row.device) for row in rows]
    grouped: dict[tuple[str, int], list[Floats]] = {}
    for row, name in zip(rows, classes, strict=True):
        for values in row.log_ms:
            if len(values) > 2:
                grouped.setdefault((name, len(values)), []).append(values)
    usual = {
        name: usual_variance([np.stack(values) for (of, _), values in grouped.items() if of == name])
        for name in CLASSES
    }
    return np.array([usual[name] or usual["device"] for name in classes])


def _blocks(
    keys: list[tuple[bytes, bytes]], values: list[tuple[Floats, Floats]], priors: Floats, material: list[bool]
) -> list[permutation.Block]:
    """The rows worth testing, those known in the same cycles together."""
    grouped: dict[tuple[bytes, bytes], list[int]] = {}
    for i, key in enumerate(keys):
        if material[i] and min(len(side) for side in values[i]) >= LEAST_CYCLES:
            grouped.setdefault(key, []).append(i)
    return [
        permutation.Block(
            np.array(places), np.stack([values[i][0] for i in places]), np.stack([values[i][1] for i in places]),
            priors[places],
        )
        for places in grouped.values()
    ]


def _judged(row: _Row, moved: _Moved, noise: float | None, q_time: float, q_count: float) -> tuple[object, ...]:
    """The row's numbers and verdict in the order of COLUMNS."""
    n_a, n_b = row.launches
    per_a, per_b = (float(centre(n)) if len(n) else 0.0 for n in (n_a, n_b))
    us_a, us_b = (float(np.exp(x)) * 1e3 if x is not None else None for x in (moved.a, moved.b))
    a_ms, b_ms = per_a * (us_a or 0.0) / 1e3, per_b * (us_b or 0.0) / 1e3
    delta = b_ms - a_ms
    margin = _margin(a_ms, b_ms, moved, n_a, n_b)
    near = max(0.0, abs(delta) - margin)
    sure = max(0.0, min(near, abs(delta) - (noise or 0.0)))
    cycle_ms = float(np.median(row.matched.a.cycle_ms))
    q = float(np.nanmin([q_time, q_count])) if not np.isnan([q_time, q_count]).all() else None
    verdict = _verdict(row, (a_ms, b_ms), (q_time, q_count), sure, cycle_ms)
    ratio = us_b / us_a if us_a and us_b else None
    known_a, known_b = len(n_a) > 0, len(n_b) > 0
    return (
        row.function, row.device, row.kind, row.matched.pair.a, row.matched.pair.b, per_a if known_a else None,
        per_b if known_b else None, us_a, us_b, ratio, a_ms if known_a else None, b_ms if known_b else None,
        delta if known_a and known_b else None, delta - margin if np.isfinite(margin) else None,
        delta + margin if np.isfinite(margin) else None, q, verdict, noise, sure, kind_class(row.kind, row.device),
        len(n_a), len(n_b),
    )


class _Moved(Struct, frozen=True):
    """ln(ms per launch) of both sides (None where it never ran), their errors, and Student's factor for 95%."""

    a: float | None
    b: float | None
    error_a: float
    error_b: float
    factor: float


def _moved(rows: list[_Row], priors: Floats) -> list[_Moved]:
    """The shift of each row; rows with as many cycles on either side are computed together."""
    from scipy.special import stdtrit

    found: list[_Moved] = [_Moved(None, None, 0.0, 0.0, 2.36)] * len(rows)
    grouped: dict[tuple[int, int], list[int]] = {}
    for i, row in enumerate(rows):
        grouped.setdefault((len(row.log_ms[0]), len(row.log_ms[1])), []).append(i)
    for (n_a, n_b), places in grouped.items():
        if not n_a and not n_b:
            continue
        # a function only one side has is compared with itself: only that side's numbers are taken
        a, b = (np.stack([rows[i].log_ms[side if (n_a, n_b)[side] else 1 - side] for i in places]) for side in (0, 1))
        one: Shift = shift(a, b, priors[places])
        factor = float(stdtrit(one.freedom[0], 0.975))
        for place, i in enumerate(places):
            found[i] = _Moved(
                float(one.a[place]) if n_a else None, float(one.b[place]) if n_b else None,
                float(one.error_a[place]) if n_a else 0.0, float(one.error_b[place]) if n_b else 0.0, factor,
            )
    return found


def _margin(a_ms: float, b_ms: float, moved: _Moved, n_a: Floats, n_b: Floats) -> float:
    """Half the width of the 95% interval of Δ ms per cycle: time per launch and launches, errors added in squares."""
    relative = []
    for n, error in ((n_a, moved.error_a), (n_b, moved.error_b)):
        if len(n) == 0:
            return float("inf")
        mean = float(n.mean())
        spread = float(n.std(ddof=1)) / np.sqrt(len(n)) if len(n) > 1 else 0.0
        relative.append(np.hypot(error, spread / mean if mean else 0.0))
    return float(moved.factor * np.hypot(a_ms * relative[0], b_ms * relative[1]))


def _noise(rows: list[_Row]) -> list[float | None]:
    """ms per cycle by which two random halves of the baseline differ, at most, in 95 of 100 halvings; None for few."""
    found: list[float | None] = [None] * len(rows)
    grouped: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        if len(row.baseline_ms) >= 4:
            grouped.setdefault(len(row.baseline_ms), []).append(i)
    for places in grouped.values():
        noise = permutation.half_noise(np.stack([rows[i].baseline_ms for i in places]))
        for i, value in zip(places, noise, strict=True):
            found[i] = float(value)
    return found


def _verdict(
    row: _Row, ms: tuple[float, float], q: tuple[float, float], sure: float, cycle_ms: float
) -> str:
    a_ms, b_ms = ms
    cycles_a, cycles_b = (len(side) for side in row.launches)
    changed = sure >= max(MATERIAL * cycle_ms, BETWEEN_RUNS * max(a_ms, b_ms))
    appeared = a_ms == 0 or b_ms == 0
    what = ("new" if a_ms == 0 else "gone") if appeared else ("slower" if b_ms > a_ms else "faster")
    if a_ms == b_ms == 0 or max(a_ms, b_ms) < MATERIAL * cycle_ms:
        return "~"
    if permutation.enough(cycles_a, cycles_b) and _resolved(cycles_a, cycles_b):
        sure_enough = changed and np.nanmin([*q, 1.0]) <= FAMILY_LEVEL
        return what if sure_enough and (appeared or _dominant(row.log_ms, row.launches)) else "~"
    if min(cycles_a, cycles_b) >= LEAST_CYCLES and _gross(row, appeared):
        return what
    return "too few cycles"


def _resolved(n_a: int, n_b: int) -> bool:
    """Whether the deal as it was can be rarer than LEVEL (its mirror image counts where sides are equal)."""
    from math import comb

    return (2 if n_a == n_b else 1) / comb(n_a + n_b, n_b) <= FAMILY_LEVEL


def _dominant(*compared: tuple[Floats, Floats]) -> bool:
    """Whether nearly all pairs of cycles show the change, in time per launch or in launches."""
    for a, b in compared:
        larger = np.sign(b[None, :] - a[:, None])
        if larger.size and max((larger > 0).mean(), (larger < 0).mean()) >= DOMINANCE:
            return True
    return False


def _gross(row: _Row, appeared: bool) -> bool:
    """Sides so far apart that a handful of cycles is enough, or a function only one side has, in all its cycles."""
    n_a, n_b = row.launches
    if appeared:
        there = n_a if n_a.any() else n_b
        return bool((there > 0).all()) and min(len(n_a), len(n_b)) >= 2
    a, b = (np.exp(side) * n[n > 0] for side, n in zip(row.log_ms, (n_a, n_b), strict=True))
    if min(len(a), len(b)) < LEAST_CYCLES:
        return False
    return bool(b.min() > GROSS * a.max() or a.min() > GROSS * b.max())


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """Regressions, then improvements, then the rest; within each device, host, communication; by what is sure."""
    verdicts = {"slower": 0, "new": 0, "faster": 1, "gone": 1}
    return table.sort(
        pl.col("verdict").replace_strict(verdicts, default=2, return_dtype=pl.Int8),
        pl.col("class").replace_strict({name: i for i, name in enumerate(CLASSES)}, default=0, return_dtype=pl.Int8),
        -pl.col("sure_ms").fill_null(0.0), -pl.col("delta_ms").abs().fill_null(0.0),
        "function", "device", "pid_a", "pid_b",
        maintain_order=True, nulls_last=True,
    )

