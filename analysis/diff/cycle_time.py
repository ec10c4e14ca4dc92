"""How long a cycle takes in both runs, and what the judge says of it: the mean, since throughput is a mean.

The lengths of the first pair of processes are compared; of a job, the mean over its ranks. What is left out of the
comparison (first cycles, outliers) is listed with its reason, and the shape of each run's lengths stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from .judge import MARGIN, Floats, Form, Shape, Word, form, judge, outliers
from .prepare.samples import Matched, RunSamples

LARGE_PART = 0.25  # Share of an outlier's excess that a part of its account must make up to be a reason for it.
HOST_BUSY = ("oncpu", "sched")
NO_SINGLE_REASON = "no single reason"
Run = Literal["A", "B"]


class LeftOut(Struct, frozen=True):
    """A cycle that is not compared, its length, and why."""

    cycle: int
    ms: float
    reason: Literal["first", "outlier"]


class Outlier(Struct, frozen=True):
    """A cycle far from the rest of its run: its length, the excess over the median, and what it has more of: ``device``
    or causes of idle time, several if several; ``no single reason`` where none makes up a quarter of the excess, none
    where only its length is known."""

    run: Run
    cycle: int
    ms: float
    excess_ms: float
    reasons: tuple[str, ...] = ()


class CycleTime(Struct, frozen=True):
    """The lengths of the cycles of both runs in ms. ``mean_a_ms`` and ``mean_b_ms`` are of all cycles, ``compared_…``
    of those compared, which differ by ``mean_delta_ms`` with its 95% interval (None with one cycle a side). ``margin``:
    the share of A's mean within which a change counts as none. ``others``: further pairs of processes."""

    verdict: Word
    cycles_a: int
    cycles_b: int
    mean_a_ms: float
    mean_b_ms: float
    median_a_ms: float
    median_b_ms: float
    compared_a_ms: float
    compared_b_ms: float
    mean_delta_ms: float
    mean_low_ms: float | None
    mean_high_ms: float | None
    margin: float
    shape_a: Shape
    shape_b: Shape
    left_out_a: tuple[LeftOut, ...] = ()
    left_out_b: tuple[LeftOut, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    unit: str | None = None
    pid_a: int | None = None
    pid_b: int | None = None
    others: tuple[CycleTime, ...] = ()

    @property
    def ratio(self) -> float:
        """Mean of the compared cycles, B over A."""
        return self.compared_b_ms / self.compared_a_ms if self.compared_a_ms else 1.0

    @property
    def called(self) -> bool:
        """Whether the cycle is called slower or faster."""
        return self.verdict in ("slower", "faster")

    @property
    def slow_in_b(self) -> list[Outlier]:
        """The outliers of B that are longer than its other cycles."""
        return [one for one in self.outliers if one.run == "B" and one.excess_ms > 0]

    @property
    def unjudged(self) -> CycleTime:
        """The same figures without a word, for runs not shown to do the same work."""
        return replace(self, verdict="not judged", others=tuple(one.unjudged for one in self.others))


def cycle_time(matched: list[Matched], judged: bool) -> CycleTime:
    """The cycle time of two runs; ``judged``: whether they are shown to do the same work."""
    every = [of_pair(one) for one in matched]
    first = _of_job(matched) or every[0]
    others = [one for one in every[1:] if one.mean_delta_ms != every[0].mean_delta_ms]
    result = replace(first, others=tuple(others))
    return result if judged else result.unjudged


def _of_job(matched: list[Matched]) -> CycleTime | None:
    """The cycle time of two jobs: of each cycle the mean over the ranks that have it; None if they are none."""
    if matched[0].pair.rank is None or len(matched) < 2:
        return None
    sides = []
    for samples in ([one.a for one in matched], [one.b for one in matched]):
        lengths: dict[int, list[float]] = {}
        for one in samples:
            for number, ms in zip(*known_lengths(one), strict=True):
                lengths.setdefault(int(number), []).append(float(ms))
        most = max(map(len, lengths.values()), default=0)
        sides.append({number: float(np.mean(of)) for number, of in sorted(lengths.items()) if len(of) == most})
    if not all(sides):
        return None
    a, b = (np.array(list(side.values())) for side in sides)
    return compare_lengths(a, b, tuple(list(side) for side in sides))  # type: ignore[arg-type]


def known_lengths(side: RunSamples) -> tuple[list[int], Floats]:
    """The numbers and lengths (ms) of the cycles whose length is known: all marked ones, and guessed ones that are
    whole (what a guess lacks may be its end); of all cycles where these are fewer than two."""
    timed = side.whole if side.timed is None else side.timed
    keep = timed if timed.sum() >= 2 else np.ones(len(timed), dtype=bool)
    return side.cycles[keep].tolist(), side.cycle_ms[keep]


def of_pair(one: Matched) -> CycleTime:
    """The cycle time of one pair of processes, with what its outliers have more of."""
    (numbers_a, a), (numbers_b, b) = (known_lengths(side) for side in (one.a, one.b))
    result = compare_lengths(a, b, (numbers_a, numbers_b))
    sides = {"A": one.a, "B": one.b}
    found = tuple(replace(odd, reasons=_busy_reasons(one, sides[odd.run], odd)) for odd in result.outliers)
    return replace(result, pid_a=one.pair.pid_a, pid_b=one.pair.pid_b, outliers=found)


def compare_lengths(a: Floats, b: Floats, numbers: tuple[Sequence[int], Sequence[int]] | None = None) -> CycleTime:
    """Compare two sets of lengths in ms, neither empty; ``numbers`` are those of the cycles (default: from 1)."""
    names = numbers or (range(1, len(a) + 1), range(1, len(b) + 1))
    forms = form(a, names[0]), form(b, names[1])
    one = judge(a, b, forms=forms)
    return CycleTime(
        one.word, len(a), len(b), float(a.mean()), float(b.mean()), float(np.median(a)), float(np.median(b)), one.a,
        one.b, one.delta, one.low, one.high, MARGIN, forms[0].shape, forms[1].shape,
        _left_out(a, names[0], one.excluded(len(a), False), forms[0]),
        _left_out(b, names[1], one.excluded(len(b), True), forms[1]),
        (*_outliers("A", a, names[0], forms[0]), *_outliers("B", b, names[1], forms[1])),
    )


def _left_out(x: Floats, names: Sequence[int], places: Sequence[int], own: Form) -> tuple[LeftOut, ...]:
    first = next((at for at in range(len(x) + 1) if at not in places), 0)
    return tuple(LeftOut(names[at], float(x[at]), "first" if at < first else "outlier") for at in places)


def _outliers(run: Run, x: Floats, names: Sequence[int], own: Form) -> list[Outlier]:
    middle = float(np.median(x))
    return [Outlier(run, names[at], float(x[at]), float(x[at]) - middle) for at in outliers(x, own)]


def reasons_of(excess: float, more: dict[str, float]) -> tuple[str, ...]:
    """The parts of an outlier's account that make up a large part of its excess, largest first."""
    large = sorted((-ms / excess, reason) for reason, ms in more.items() if excess and ms / excess >= LARGE_PART)
    return tuple(reason for _, reason in large) or (NO_SINGLE_REASON,)


def _busy_reasons(one: Matched, side: RunSamples, odd: Outlier) -> tuple[str, ...]:
    """What an outlier has more of by the times of functions alone: on the device or on the host."""
    at = int(np.flatnonzero(side.cycles == odd.cycle)[0])
    more = {}
    for reason, values in (("host", host_busy(one, side)), ("device", device_busy(one, side))):
        if values is not None and not np.isnan(values[at]) and not np.isnan(values).all():
            more[reason] = float(values[at] - np.nanmedian(values))
    return reasons_of(odd.excess_ms, more) if more else ()


def host_busy(one: Matched, side: RunSamples) -> Floats | None:
    """CPU time per cycle, ms: from scheduler records, else from host functions; None without either."""
    kinds = one.functions["kind"].to_list()
    rows = [i for i, kind in enumerate(kinds) if kind in HOST_BUSY] or list(np.flatnonzero(one.on_host))
    return np.nansum(side.ms[rows], axis=0) if rows else None


def device_busy(one: Matched, side: RunSamples) -> Floats | None:
    """Summed device time per cycle, ms (NaN in cycles not recorded whole); None without a device."""
    rows = one.on_device
    return side.ms[rows].sum(axis=0) if rows.any() else None
