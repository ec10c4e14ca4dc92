"""Which functions changed: one row per process pair, function and device, with the time it lost per cycle.

Time per launch and launches per cycle are compared separately, then combined into milliseconds per cycle. A row is
flagged slower or faster only if chance is ruled out over the whole list (``permutation``), if the change exceeds the
function's own difference between two halves of the baseline, and if even the near end of its CI exceeds the usual
run-to-run noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar, get_args

import numpy as np
from msgspec import Struct

from ..prepare.samples import IDLE, Flags, Matched
from ..stats import permutation
from ..stats.robust_location import Floats, LocationShift, centre, location_shift, usual_variance
from .function_change import Call, Category, FunctionChange, category

LEVEL = 0.05  # False-alarm rate: share of comparisons without any difference in which some function is flagged.
FAMILY_LEVEL = 0.03  # The same for each of the two tested families (time per launch, launches), which overlap.
DOMINANCE = 0.75
"""Share of all pairs (cycle of A, cycle of B) that must show the change in its direction. If a function has two kinds
of cycles (a sampler, a cache that hits or misses) its centre can jump, but not this share. One odd cycle in five is
allowed."""
BETWEEN_RUNS = 0.02
"""Run-to-run difference of a steady function (clocks, placement), as a share; one run per side cannot show it."""
MATERIAL = 1e-5  # Share of a cycle below which a change is not flagged.
IDLE_MATERIAL = 0.01
"""The same for idle time: it is what the rest of the cycle leaves over, so a change too small to count in the cycle's
length does not count here either."""
IDLE_GRAIN = 0.01
"""Share of the cycle added to idle times before their logarithm is taken, so that a cycle without idle time can be
compared, and a microsecond more of very little idle time does not count."""
LEAST_CYCLES = 2
CATEGORIES: tuple[Category, ...] = get_args(Category)


_Row = TypeVar("_Row")
_Key = TypeVar("_Key")


class _FunctionSamples(Struct, frozen=True):
    """One function of one process pair: its launches per cycle and ln(ms per launch) on both sides, where known.
    ``seen`` and ``ran`` are grouping keys made of the cycles it was recorded in and those it ran in. ``grain_ms`` was
    added before the logarithm; it is 0 except for idle time."""

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
    grain_ms: float = 0.0


def _rows_of(one: Matched) -> list[_FunctionSamples]:
    sides = (one.a, one.b)
    seen = [side.seen for side in sides]
    known_as: dict[bytes, bytes] = {}  # most functions are seen in the same cycles
    idle = (one.functions["kind"] == IDLE).fill_null(False).to_numpy()
    grains = np.where(idle, IDLE_GRAIN * float(np.median(one.a.cycle_ms)), 0.0)
    ran = [flags & (side.launches > 0) & ((side.ms > 0) | idle[:, None]) for flags, side in zip(
        seen, sides, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(side.ms / side.launches + grains[:, None]) for side in sides]
    cycles = [side.cycles.astype(np.float64) for side in sides]
    names = one.functions.select("function", "device", "kind").rows()
    made = []
    for i in range(len(names)):
        at, on = [flags[i] for flags in seen], [flags[i] for flags in ran]
        times = [_where(side.ms[i], flags) for side, flags in zip(sides, at, strict=True)]
        keys = [number[flags].tobytes() for flags, number in zip((*at, *on), (*cycles, *cycles), strict=True)]
        of_a, of_b, ran_a, ran_b = (known_as.setdefault(key, key) for key in keys)
        function, device, kind = names[i]
        made.append(_FunctionSamples(
            one, function, device, kind, (_where(one.a.launches[i], at[0]), _where(one.b.launches[i], at[1])),
            (_where(logs[0][i], on[0]), _where(logs[1][i], on[1])), times[0], (of_a, of_b), (ran_a, ran_b),
            max(float(side.mean()) if len(side) else 0.0 for side in times), float(grains[i]),
        ))
    return made


def _where(values: Floats, known: Flags) -> Floats:
    """The known values; not copied if all are known."""
    result: Floats = values if known.all() else values[known]
    return result


def suspects(matched: list[Matched]) -> list[FunctionChange]:
    """One row per process pair, function and device, in the order of the pairs and their functions."""
    rows = [row for one in matched for row in _rows_of(one)]
    if not rows:
        return []
    priors = _priors(rows)
    material = [row.mean_ms >= MATERIAL * float(np.median(row.matched.a.cycle_ms)) for row in rows]
    times = _blocks([row.ran for row in rows], [row.log_ms for row in rows], priors, material)
    counts = _blocks([row.seen for row in rows], [row.launches for row in rows], priors, material)
    q = permutation.familywise_q({"time": times, "count": counts}, len(rows))
    shifts, noise = _launch_times(rows, priors), _noise(rows)
    return [_judged(*one) for one in zip(rows, shifts, noise, q["time"], q["count"], strict=True)]


def _priors(rows: list[_FunctionSamples]) -> Floats:
    """Per row, the usual variance of ln(time per launch) for functions of its category."""
    classes = [category(row.kind, row.device) for row in rows]
    grouped: dict[tuple[str, int], list[Floats]] = {}
    for row, name in zip(rows, classes, strict=True):
        for values in row.log_ms:
            if len(values) > 2:
                grouped.setdefault((name, len(values)), []).append(values)
    usual = {
        name: usual_variance([
            np.stack(few) for (of, n), values in grouped.items() if of == name for few in _pieces(values, n)
        ])
        for name in CATEGORIES
    }
    return np.array([usual[name] or usual["device"] for name in classes])


def _grouped(places: Iterable[int], key: Callable[[int], _Key]) -> dict[_Key, list[int]]:
    """Row indices by key, both in order of first appearance."""
    groups: dict[_Key, list[int]] = {}
    for place in places:
        groups.setdefault(key(place), []).append(place)
    return groups


def _pieces(rows: list[_Row], cycles: int) -> list[list[_Row]]:
    """The rows in batches of as many as are compared at once, with ``cycles`` values each."""
    step = permutation.together(cycles)
    return [rows[at : at + step] for at in range(0, len(rows), step)]


def _blocks(
    keys: list[tuple[bytes, bytes]], values: list[tuple[Floats, Floats]], priors: Floats, material: list[bool]
) -> list[permutation.Block]:
    """The rows worth testing, one block per set of cycles in which they are known."""
    worth = (i for i, few in enumerate(values) if material[i] and min(map(len, few)) >= LEAST_CYCLES)
    return [
        permutation.Block(
            np.array(places), [values[i][0] for i in places], [values[i][1] for i in places], priors[places],
        )
        for places in _grouped(worth, keys.__getitem__).values()
    ]


def _judged(
    row: _FunctionSamples, times: _LaunchTimes, noise: float | None, q_time: float, q_count: float
) -> FunctionChange:
    n_a, n_b = row.launches
    per_a, per_b = (float(centre(n)) if len(n) else 0.0 for n in (n_a, n_b))
    us_a, us_b = (_us(x, launched, row.grain_ms) for x, launched in ((times.a, per_a), (times.b, per_b)))
    a_ms, b_ms = per_a * (us_a or 0.0) / 1e3, per_b * (us_b or 0.0) / 1e3
    delta = b_ms - a_ms
    margin = _margin(a_ms + row.grain_ms, b_ms + row.grain_ms, times, n_a, n_b)
    bounded = bool(np.isfinite(margin))
    near = max(0.0, abs(delta) - margin)
    sure = max(0.0, min(near, abs(delta) - (noise or 0.0)))
    cycle_ms = float(np.median(row.matched.a.cycle_ms))
    q = float(np.nanmin([q_time, q_count])) if not np.isnan([q_time, q_count]).all() else None
    known_a, known_b = len(n_a) > 0, len(n_b) > 0
    launched = row.kind != IDLE  # idle time has no launches
    return FunctionChange(
        row.function, row.device, row.kind, category(row.kind, row.device), row.matched.pair.a, row.matched.pair.b,
        launches_a=per_a if known_a and launched else None, launches_b=per_b if known_b and launched else None,
        launch_us_a=us_a if launched else None, launch_us_b=us_b if launched else None,
        ratio=us_b / us_a if us_a and us_b else None, a_ms=a_ms if known_a else None,
        b_ms=b_ms if known_b else None, delta_ms=delta if known_a and known_b else None,
        ci_low_ms=delta - margin if bounded else None, ci_high_ms=delta + margin if bounded else None, q=q,
        verdict=_verdict(row, (a_ms, b_ms), (per_a, per_b), q, sure, cycle_ms), noise_ms=noise, sure_ms=sure,
        cycles_a=len(n_a), cycles_b=len(n_b),
    )


def _us(log_ms: float | None, launched: float, grain_ms: float) -> float | None:
    """µs per launch; 0 if no launch took any time, None if there were no launches."""
    if log_ms is not None:
        return max(0.0, float(np.exp(log_ms)) - grain_ms) * 1e3
    return 0.0 if launched else None


class _LaunchTimes(Struct, frozen=True):
    """ln(ms per launch) of both sides (None if it never ran), standard errors, and Student's t factor for 95%."""

    a: float | None
    b: float | None
    error_a: float
    error_b: float
    factor: float


def _launch_times(rows: list[_FunctionSamples], priors: Floats) -> list[_LaunchTimes]:
    """The time per launch of each row; rows with the same numbers of cycles are computed together."""
    from scipy.special import stdtrit

    made: list[_LaunchTimes] = [_LaunchTimes(None, None, 0.0, 0.0, 2.36)] * len(rows)
    grouped = _grouped(range(len(rows)), lambda i: (len(rows[i].log_ms[0]), len(rows[i].log_ms[1])))
    some = (((n_a, n_b), few) for (n_a, n_b), places in grouped.items() for few in _pieces(places, n_a + n_b))
    for (n_a, n_b), places in some:
        if not n_a and not n_b:
            continue
        # a function that only one side has is compared with itself, and only that side's numbers are used
        a, b = (np.stack([rows[i].log_ms[side if (n_a, n_b)[side] else 1 - side] for i in places]) for side in (0, 1))
        one: LocationShift = location_shift(a, b, priors[places])
        factor = float(stdtrit(one.freedom[0], 0.975))
        for place, i in enumerate(places):
            made[i] = _LaunchTimes(
                float(one.a[place]) if n_a else None, float(one.b[place]) if n_b else None,
                float(one.error_a[place]) if n_a else 0.0, float(one.error_b[place]) if n_b else 0.0, factor,
            )
    return made


def _margin(a_ms: float, b_ms: float, times: _LaunchTimes, n_a: Floats, n_b: Floats) -> float:
    """Half the width of the 95% CI of Δ ms per cycle: errors of time per launch and of launches, in quadrature."""
    relative = []
    for n, error in ((n_a, times.error_a), (n_b, times.error_b)):
        if len(n) == 0:
            return float("inf")
        mean = float(n.mean())
        spread = float(n.std(ddof=1)) / np.sqrt(len(n)) if len(n) > 1 else 0.0
        relative.append(np.hypot(error, spread / mean if mean else 0.0))
    return float(times.factor * np.hypot(a_ms * relative[0], b_ms * relative[1]))


def _noise(rows: list[_FunctionSamples]) -> list[float | None]:
    """Noise floor: ms per cycle by which two halves of A differ at most in 95 of 100 halvings; None below 4 cycles."""
    made: list[float | None] = [None] * len(rows)
    grouped = _grouped(range(len(rows)), lambda i: len(rows[i].baseline_ms))
    for places in [few for n, alike in grouped.items() if n >= 4 for few in _pieces(alike, n)]:
        noise = permutation.half_noise(np.stack([rows[i].baseline_ms for i in places]))
        for i, value in zip(places, noise, strict=True):
            made[i] = float(value)
    return made


def _verdict(
    row: _FunctionSamples, ms: tuple[float, float], launches: tuple[float, float], q: float | None, sure: float,
    cycle_ms: float,
) -> Call:
    a_ms, b_ms = ms
    cycles_a, cycles_b = (len(side) for side in row.launches)
    least = IDLE_MATERIAL if row.kind == IDLE else MATERIAL
    changed = sure >= max(least * cycle_ms, BETWEEN_RUNS * max(a_ms, b_ms))
    # a function that was launched but took no time is not missing
    appeared = (launches[0] == 0) != (launches[1] == 0)
    call: Call = ("new" if launches[0] == 0 else "gone") if appeared else ("slower" if b_ms > a_ms else "faster")
    if max(a_ms, b_ms) < MATERIAL * cycle_ms:
        return "~"
    if permutation.enough(cycles_a, cycles_b) and _resolved(cycles_a, cycles_b):
        beyond_chance = changed and q is not None and q <= FAMILY_LEVEL
        return call if beyond_chance and (appeared or _dominant(row.log_ms, row.launches)) else "~"
    if appeared and _throughout(row):
        return call
    return "too few cycles"


def _resolved(n_a: int, n_b: int) -> bool:
    """Whether q can reach FAMILY_LEVEL with so many cycles (if n_a = n_b the mirrored assignment counts as well)."""
    return (2 if n_a == n_b else 1) / permutation.ways(n_a, n_b) <= FAMILY_LEVEL


def _dominant(*compared: tuple[Floats, Floats]) -> bool:
    """Whether at least DOMINANCE of all pairs of cycles show the change, in time per launch or in launches."""
    for a, b in compared:
        pairs = len(a) * len(b)
        ordered = np.sort(a)
        larger = int(np.searchsorted(ordered, b, side="left").sum())
        smaller = pairs - int(np.searchsorted(ordered, b, side="right").sum())
        if pairs and max(larger, smaller) / pairs >= DOMINANCE:
            return True
    return False


def _throughout(row: _FunctionSamples) -> bool:
    """Whether a function that one side lacks is in every cycle of the other, and both have at least two cycles."""
    n_a, n_b = row.launches
    there = n_a if n_a.any() else n_b
    return bool((there > 0).all()) and min(len(n_a), len(n_b)) >= LEAST_CYCLES


CHANGED_LAUNCH = 0.1  # A median time per launch that changed by at most this share is not mentioned.
LEAST_FUNCTIONS = 3  # With fewer functions in both runs no median is given.


class LaunchChange(Struct, frozen=True):
    """The median ratio (B over A) of the time per launch over the functions in both runs, and their number."""

    category: Literal["device", "host"]
    functions: int
    ratio: float


def judge_by_launch(rows: Sequence[FunctionChange]) -> None:
    """Keep "slower" and "faster" only if the time per launch moved too: cycles with other work hold other launches."""
    for row in rows:
        if row.kind == IDLE:
            row.verdict = "~"  # idle times of cycles with different work are not comparable
        towards = (row.ratio or 1.0) - 1.0 if row.verdict == "slower" else 1.0 - (row.ratio or 1.0)
        if row.verdict in ("slower", "faster") and towards < BETWEEN_RUNS:
            row.verdict = "~"


def per_launch(rows: Sequence[FunctionChange]) -> tuple[LaunchChange, ...]:
    """The time-weighted median ratio over the functions both runs have, for device and host, where it changed."""
    made = []
    categories: tuple[Literal["device", "host"], ...] = ("device", "host")
    for where in categories:
        both = [
            (row.launch_us_b / row.launch_us_a, row.launch_us_a * min(row.launches_a, row.launches_b)) for row in rows
            if row.category == where and row.launch_us_a and row.launch_us_b and row.launches_a and row.launches_b
        ]
        if len(both) < LEAST_FUNCTIONS:
            continue
        ratio, weight = np.array(sorted(both)).T
        middle = float(ratio[np.searchsorted(np.cumsum(weight), weight.sum() / 2)])
        if abs(middle - 1) > CHANGED_LAUNCH:
            made.append(LaunchChange(where, len(both), middle))
    return tuple(made)
