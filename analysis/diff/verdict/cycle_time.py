"""Did the cycle get slower at all? The shift with its CI, the spread, and the slow cycles with what they have more of.

The shift is the Hodges-Lehmann estimate: half the pairs of cycles differ by more. A few slow cycles among many hardly
move it; they are listed as outliers instead, since "two outliers" is another answer than "all cycles a little slower".
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ...core.distribution import fence
from ..prepare.samples import Matched, RunSamples
from ..stats.robust_location import Floats, hodges_lehmann

LEAST_SHIFT = 0.01  # A shift below this share of the cycle counts as unchanged, however significant.
CLEAR = 0.1  # A CI that includes zero decides nothing if its half-width exceeds this share of the cycle.
LARGE_PART = 0.25  # Share of a slow cycle's excess that host or device time must make up to be named as its reason.
SLOW = 3.0
"""Cycles this many spreads above the median are left out to see whether they make a comparison undecided..."""
FEW = 1 / 3  # ...if they are at most this share of their run.
HOST_BUSY = ("oncpu", "sched")
CycleCall = Literal["slower", "faster", "unchanged", "cannot tell", "not comparable"]
Reason = Literal["host", "device", "idle"]  # What a slow cycle has more of.


class SlowCycle(Struct, frozen=True):
    """A cycle far slower than the rest of its run; ``more_…`` is relative to the usual cycles, None where unknown. If
    only the time of the cycle is known, ``cycle`` is None and ``reasons`` is empty."""

    run: Literal["A", "B"]
    cycle: int | None
    ms: float
    excess_ms: float
    more_host_ms: float | None = None
    more_device_ms: float | None = None
    reasons: tuple[Reason, ...] = ()


class CycleTime(Struct, frozen=True):
    """How long a cycle takes in both runs, in ms; ``shift_ms`` with its 95% CI, None with too few cycles.
    ``undecided_by`` are the slow cycles without which the comparison would be decided, ``outliers`` the outliers of
    each run. ``unit`` names one sample if that is not a cycle ("per call of gemm"). ``others`` are further pairs of
    processes whose shift differs."""

    verdict: CycleCall
    cycles_a: int
    cycles_b: int
    mean_a_ms: float
    mean_b_ms: float
    median_a_ms: float
    median_b_ms: float
    shift_ms: float
    ci_low_ms: float | None
    ci_high_ms: float | None
    spread_a_ms: float
    spread_b_ms: float
    outliers: tuple[SlowCycle, ...] = ()
    undecided_by: tuple[SlowCycle, ...] = ()
    unit: str | None = None
    pid_a: int | None = None
    pid_b: int | None = None
    others: tuple[CycleTime, ...] = ()

    @property
    def ratio(self) -> float:
        """Median cycle time, B over A."""
        return self.median_b_ms / self.median_a_ms if self.median_a_ms else 1.0

    @property
    def of_other_work(self) -> CycleTime:
        """The same times for cycles that do different work: neither run is called faster."""
        return replace(
            self, verdict="not comparable", undecided_by=(), others=tuple(one.of_other_work for one in self.others)
        )

    @property
    def slow_in_b(self) -> list[SlowCycle]:
        """The slow cycles of B."""
        return [one for one in self.outliers if one.run == "B"]


def cycle_time(matched: list[Matched]) -> CycleTime:
    """The cycle time of the first process pair; other pairs whose shift differs are its ``others``."""
    compared = [_of_pair(one) for one in matched]
    first = compared[0]
    return replace(first, others=tuple(other for other in compared[1:] if other.shift_ms != first.shift_ms))


def compare_lengths(a: Floats, b: Floats) -> CycleTime:
    """Compare two sets of cycle times in ms, neither empty; slow cycles are found by their time alone."""
    middle, low, high = hodges_lehmann(a, b)
    bounded = bool(np.isfinite(low))
    sides: tuple[tuple[Literal["A", "B"], Floats], ...] = ("A", a), ("B", b)
    return CycleTime(
        verdict=_verdict(float(np.median(a)), middle, low, high), cycles_a=len(a), cycles_b=len(b),
        mean_a_ms=float(a.mean()), mean_b_ms=float(b.mean()), median_a_ms=float(np.median(a)),
        median_b_ms=float(np.median(b)), shift_ms=middle, ci_low_ms=low if bounded else None,
        ci_high_ms=high if bounded else None, spread_a_ms=spread(a), spread_b_ms=spread(b),
        outliers=tuple(
            SlowCycle(run, None, float(side[i]), float(side[i]) - float(np.median(side[~slow])))
            for run, side in sides for slow in [side > fence(side)] for i in np.flatnonzero(slow)
        ),
    )


def _of_pair(one: Matched) -> CycleTime:
    a, b = one.a.cycle_ms, one.b.cycle_ms
    compared = compare_lengths(a, b)
    decisive = _undecided_by(a, b) if compared.verdict == "cannot tell" else None
    outliers, undecided_by = (
        (*_slow_cycles("A", one.a, one, slow[0]), *_slow_cycles("B", one.b, one, slow[1])) if slow is not None else ()
        for slow in ((a > fence(a), b > fence(b)), decisive)
    )
    return replace(compared, pid_a=one.pair.pid_a, pid_b=one.pair.pid_b, outliers=outliers, undecided_by=undecided_by)


def _undecided_by(a: Floats, b: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Masks of the few slow cycles without which the comparison is decided; None if it is not decided even then."""
    slow_a, slow_b = (side > np.median(side) + SLOW * spread(side) for side in (a, b))
    if slow_a.sum() > FEW * len(a) or slow_b.sum() > FEW * len(b) or not (slow_a.any() or slow_b.any()):
        return None
    return (slow_a, slow_b) if compare_lengths(a[~slow_a], b[~slow_b]).verdict != "cannot tell" else None


def _verdict(base: float, middle: float, low: float, high: float) -> CycleCall:
    if not np.isfinite(low):
        return "cannot tell"
    if low <= 0 <= high:
        return "unchanged" if (high - low) / 2 <= CLEAR * base else "cannot tell"
    if abs(middle) < LEAST_SHIFT * base:
        return "unchanged"
    return "slower" if middle > 0 else "faster"


def spread(values: Floats) -> float:
    """1.48 times the median absolute deviation: a standard deviation robust to outliers."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def host_busy(one: Matched, side: RunSamples) -> Floats | None:
    """CPU time per cycle, ms: from scheduler records, else from host functions; None without either."""
    kinds = one.functions["kind"].to_list()
    rows = [i for i, kind in enumerate(kinds) if kind in HOST_BUSY] or list(np.flatnonzero(one.on_host))
    return np.nansum(side.ms[rows], axis=0) if rows else None


def device_busy(one: Matched, side: RunSamples) -> Floats | None:
    """Summed device time per cycle, ms (NaN in cycles not recorded whole); None without a device."""
    rows = one.on_device
    return side.ms[rows].sum(axis=0) if rows.any() else None


def _slow_cycles(run: Literal["A", "B"], side: RunSamples, one: Matched, slow: NDArray[np.bool_]) -> list[SlowCycle]:
    if not slow.any():
        return []
    usual = float(np.median(side.cycle_ms[~slow]))
    busy: tuple[tuple[Reason, Floats | None], ...] = ("host", host_busy(one, side)), ("device", device_busy(one, side))
    made = []
    for at in np.flatnonzero(slow):
        excess = float(side.cycle_ms[at]) - usual
        more = {reason: _more(values, int(at), slow) for reason, values in busy}
        reasons = tuple(reason for reason, ms in more.items() if ms is not None and ms >= LARGE_PART * excess)
        made.append(SlowCycle(
            run, int(side.cycles[at]), float(side.cycle_ms[at]), excess, more["host"], more["device"],
            reasons or ("idle",),
        ))
    return made


def _more(values: Floats | None, at: int, slow: NDArray[np.bool_]) -> float | None:
    """The excess over the median of the usual cycles; None where unknown."""
    if values is None or np.isnan(values[at]) or np.isnan(values[~slow]).all():
        return None
    return round(float(values[at] - np.nanmedian(values[~slow])), 6)
