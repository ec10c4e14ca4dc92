"""One row of the diff per process pair, function and device: its time per cycle in both runs, and what the judge says.

A row's samples are its totals in the cycles that its device was seen whole in. A called row is named after the larger
part of its change: more or fewer launches, or slower or faster ones; so ``slower`` always means a longer launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from .function_change import Call, FunctionChange, category
from .judge import (
    LEVEL,
    ONE_LEVEL,
    ROW_FLOOR,
    Floats,
    Ints,
    compared,
    form,
    may_have_levels,
    parts_of_change,
    q_values,
    welch,
)
from .prepare.samples import IDLE, Flags, Matched, RunSamples

MATERIAL = 1e-5  # Share of a cycle below which a change of a row is not called...
IDLE_MATERIAL = 0.01  # ...and one of idle time, which is what the rest of the cycle leaves over.
HALVES = 3.92  # Two halves of n times differ by at most this many standard deviations / √n, in 95 of 100 halvings.
TOGETHER = 1_000_000  # Times of rows judged at once.


class _Tested(Struct, frozen=True):
    """A row's change per cycle in ms, both ends of its interval and p (None: too few cycles), both means in ms and in
    launches, and the number of compared cycles. NaN means are unknown."""

    ms: tuple[float, float]
    launches: tuple[float, float]
    delta: float
    interval: tuple[float | None, float | None, float | None]
    cycles: tuple[int, int]
    noise: float | None = None
    always: bool = False


def function_rows(matched: list[Matched], judged: bool) -> list[FunctionChange]:
    """One row per process pair, function and device, in the order of the pairs and their functions; ``judged``: whether
    both runs are shown to do the same work."""
    tests = [_tested(one) for one in matched]
    p = [test.interval[2] for some in tests for test in some]
    q = iter(q_values(p))
    rows = []
    for one, some in zip(matched, tests, strict=True):
        cycle_ms = float(one.a.cycle_ms.mean())
        for names, test in zip(one.functions.select("function", "device", "kind").rows(), some, strict=True):
            rows.append(_row(one, names, test, next(q), cycle_ms, judged))
    return rows


def _tested(one: Matched) -> list[_Tested]:
    """The test of every function of a pair of processes; those seen in the same cycles are tested together."""
    result: list[_Tested | None] = [None] * one.functions.height
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    seen = one.a.seen, one.b.seen
    for row in range(one.functions.height):
        groups.setdefault((seen[0][row].tobytes(), seen[1][row].tobytes()), []).append(row)
    for rows in groups.values():
        at = seen[0][rows[0]], seen[1][rows[0]]
        step = max(1, TOGETHER // max(1, int(at[0].sum() + at[1].sum())))
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            for row, test in zip(some, _together(one, some, at), strict=True):
                result[row] = test
    return [test for test in result if test is not None]


def _together(one: Matched, rows: list[int], at: tuple[Flags, Flags]) -> list[_Tested]:
    a, b = (_values(side, rows, known) for side, known in zip((one.a, one.b), at, strict=True))
    if not a[0].shape[1] or not b[0].shape[1]:
        return [_unseen((a, b), place) for place in range(len(rows))]
    result: list[_Tested | None] = [None] * len(rows)
    for used, places in _used(a[0], b[0]):
        ms, counts = ([np.ascontiguousarray(side[of][places][:, keep]) for side, keep in zip((a, b), used, strict=True)]
                      for of in (0, 1))
        delta, low, high, p = welch(ms[0], ms[1])
        means = [(x.mean(axis=1), n.mean(axis=1)) for x, n in zip(ms, counts, strict=True)]
        always = (counts[0].min(axis=1) > 0) | (counts[1].min(axis=1) > 0)
        middle = np.median(ms[0], axis=1, keepdims=True)
        spread: Floats = HALVES * 1.4826 * np.median(np.abs(ms[0] - middle), axis=1) / np.sqrt(ms[0].shape[1])
        for i, place in enumerate(places):
            result[place] = _Tested(
                (float(means[0][0][i]), float(means[1][0][i])), (float(means[0][1][i]), float(means[1][1][i])),
                float(delta[i]), (_known(low[i]), _known(high[i]), _known(p[i])), (len(used[0]), len(used[1])),
                float(spread[i]) if len(used[0]) >= 4 else None,
                bool(always[i]),
            )
    return [test for test in result if test is not None]


def _unseen(sides: tuple[tuple[Floats, Floats], ...], place: int) -> _Tested:
    """A function that one side could not see in any cycle: its mean there is unknown."""
    ms, launches = ([float(side[i][place].mean()) if side[i].shape[1] else float("nan") for side in sides]
                    for i in (0, 1))
    return _Tested((ms[0], ms[1]), (launches[0], launches[1]), ms[1] - ms[0], (None, None, None),
                   (sides[0][0].shape[1], sides[1][0].shape[1]))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _values(side: RunSamples, rows: list[int], known: Flags) -> tuple[Floats, Floats]:
    """ms and launches of these rows in the cycles where they are known."""
    every = known.all()
    return tuple(x[rows] if every else x[rows][:, known] for x in (side.ms, side.launches))  # type: ignore[return-value]


def _used(a: Floats, b: Floats) -> Iterator[tuple[tuple[Ints, Ints], list[int]]]:
    """The places of the compared times of both sides, and the rows that they are those of."""
    odd = may_have_levels(a) | may_have_levels(b)
    few = min(a.shape[1], b.shape[1])
    # the first of a run goes where it is its extreme: the only other thing that rows without levels differ in
    first = np.zeros(len(a), dtype=bool)
    if few >= 4:
        for x in (a, b):
            first |= ((x[:, 0] == x.min(axis=1)) | (x[:, 0] == x.max(axis=1))) & (x[:, 0] != x[:, 1])
    for flag in (False, True):
        places = np.flatnonzero(~odd & (first == flag)).tolist()
        if places:
            yield (np.arange(int(flag), a.shape[1]), np.arange(int(flag), b.shape[1])), places
    for place in np.flatnonzero(odd).tolist():
        forms = tuple(form(x[place]) if may_have_levels(x[place : place + 1])[0] else ONE_LEVEL for x in (a, b))
        yield compared(a[place], b[place], (forms[0], forms[1])), [place]


def _row(
    one: Matched, names: tuple[Any, ...], test: _Tested, q: float | None, cycle_ms: float, judged: bool
) -> FunctionChange:
    function, device, kind = names
    known = [not np.isnan(ms) for ms in test.ms]
    launched = kind != IDLE
    per = [n if ok and launched else None for n, ok in zip(test.launches, known, strict=True)]
    each = [1e3 * ms / n if n else None for ms, n in zip(test.ms, per, strict=True)]
    both = all(known)
    low, high, p = test.interval
    call = call_of(test.ms, (per[0], per[1]), (test.delta, low, high), q, judged, always=test.always,
                   least_ms=(MATERIAL if launched else IDLE_MATERIAL) * cycle_ms)
    return FunctionChange(
        function, device, kind, category(kind, device), one.pair.a, one.pair.b, per[0], per[1], each[0], each[1],
        each[1] / each[0] if each[0] and each[1] else None, test.ms[0] if known[0] else None,
        test.ms[1] if known[1] else None, test.delta if both else None, low if both else None, high if both else None,
        p, q, call, noise_ms=test.noise, cycles_a=test.cycles[0], cycles_b=test.cycles[1],
        sure_ms=0.0 if low is None or high is None else max(0.0, low, -high),
    )


def call_of(
    ms: Sequence[float], launches: tuple[float | None, float | None], change: tuple[float, float | None, float | None],
    q: float | None, judged: bool, *, least_ms: float = 0.0, always: bool = True,
) -> Call:
    """The word for a row: its ms and launches in both runs (None: they have none), Δ with its interval, and q.
    ``always``: whether a function that only one run has is in all of that run's cycles."""
    a, b = launches
    delta, low, high = change
    sure = q is not None and q <= LEVEL and low is not None and high is not None and (low > 0 or high < 0)
    if a is not None and b is not None and (a == 0) != (b == 0):
        if max(ms) < least_ms / 10 or not (always or sure):
            return "~"
        return "new" if a == 0 else "gone"
    if not judged:
        return "not judged"
    if low is None or q is None:
        return "too few cycles"
    if not sure or abs(delta) < max(ROW_FLOOR * ms[0], least_ms):
        return "~"
    if a and b:
        by_count, by_time = parts_of_change((a, b), (ms[0] / a, ms[1] / b))
        if abs(by_count) > abs(by_time):
            return "more launches" if delta > 0 else "fewer launches"
    return "slower" if delta > 0 else "faster"
