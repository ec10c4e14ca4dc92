"""Which series stepped to a new level, in which run and by how much, at five false steps per hundred whole histories.

A step has to pass four tests, each of which was needed on synthetic runs (``docs/history.md`` has the figures): its
gain is beyond chance over everything tested; it is a step and not a slope; it is not certainly smaller than 2%; and the
common factor of the runs does not explain it. Two odd runs at an end are no step, three are: one bad night looks like a
new level, so last runs that stand out are listed separately as unconfirmed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from . import levels
from .noise import FEWEST_RUNS, CommonFactor, Flags, Floats, common_factor, medians, memory_of, noise_of

ALARMS = 0.05
"""Expected steps by chance in a whole history, over all series and runs together."""
FEWEST_AFTER = 3
"""Runs at the new level that a step needs to be reported."""
SMALLEST = 0.02
"""Steps that are certainly smaller are not reported, and no gate can be set below this."""
SMALLEST_IDLE = 0.005
"""Share of the cycle below which a change of an idle cause is not reported."""
IDLE_OFFSET = 0.001
"""Share of the cycle added to idle causes, whose time may be 0, before the logarithm."""
_SURELY = 2.33  # Standard errors: 99 of 100 steps of the smallest size pass.
_DRIFT = 0.0025  # What slow drift may add to a step's size, or take from it, as a standard error of the logarithm.
_LINE_ERROR = 0.001
_LARGEST = 30.0  # Largest logarithm of a step: a factor beyond 10¹³ is no ratio of times.
_BACK = 20  # Runs on each side from which a step's size is taken.
_AROUND = 40  # Runs on each side over which it must be more than a slope.
_BEYOND_A_SLOPE = 6.0
_NEAR_COMMON = 3  # Most runs between a step and the common step that explains it.
_EXPLAINED = (-0.25, 1.35)  # A series' raw step within these multiples of the common step is explained by it.
_UNCONFIRMED = 7.0  # Standard deviations by which the last runs must be off.
_PLACES = 6.0  # Other runs are possible for a step if they cost less than this, in squared standard deviations.

CYCLE, KERNEL, COLLECTIVE, COPY, OP, IDLE, COMMON = "cycle", "kernel", "collective", "copy", "op", "idle", "common"
BUSY, ALL = "busy", "all causes"  # Kind and name of all busy time, name of all idle time.
KINDS = (CYCLE, BUSY, KERNEL, COLLECTIVE, COPY, OP, IDLE)


class SeriesOfRuns(Struct, frozen=True):
    """Time per cycle (ns) of every series in every run, ``(series, runs)``, NaN where a run lacks it. ``kinds`` are
    from ``KINDS``; ``cycle_ns`` is the median cycle time of the runs, ``clock_noise`` the relative spread of each
    series that comes from the resolution of the recorded times (None: no such spread)."""

    kinds: tuple[str, ...]
    names: tuple[str, ...]
    per_cycle: Floats
    cycle_ns: float
    clock_noise: Floats | None = None

    def of_kind(self, kind: str) -> Flags:
        """Which series are of that kind."""
        result: Flags = np.array([one == kind for one in self.kinds], dtype=bool)
        return result

    @property
    def offset_ns(self) -> Floats:
        """The time added to each series before its logarithm is taken."""
        return np.where(self.of_kind(IDLE), IDLE_OFFSET * self.cycle_ns, 0.0)

    @property
    def logarithms(self) -> Floats:
        """The tested values: ln(time per cycle + offset), NaN where missing."""
        shifted = self.per_cycle + self.offset_ns[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Floats = np.where((shifted > 0) & np.isfinite(shifted), np.log(shifted), np.nan)
        return result


class LevelStep(Struct, frozen=True):
    """A new level of a series (its row; -1 for the common factor) from run ``index`` on. Levels, in ns per cycle, are
    of up to 20 runs on either side, without the common factor. ``change`` is relative; for an idle cause, to its time
    plus a thousandth of the cycle. ``low``..``high`` is its 95% CI, ``first``..``last`` the runs in which it may have
    happened, ``expected`` the number of such steps expected by chance in the whole history. ``share`` is the series'
    share in the common factor; for a common step ``carries`` counts the kernels with a share of at least half."""

    series: int
    index: int
    change: float
    low: float
    high: float
    before_ns: float
    after_ns: float
    first: int
    last: int
    runs_after: int
    expected: float
    share: float
    carries: int | None = None

    @property
    def q(self) -> float:
        """The false-alarm rate of such a step over everything tested."""
        return min(1.0, self.expected)

    @property
    def cost_ns(self) -> float:
        """The time it added to every cycle."""
        return self.after_ns - self.before_ns


class Unconfirmed(Struct, frozen=True):
    """The last run, or both of the last two, are off by more than seven standard deviations: a step or bad runs."""

    series: int
    index: int
    change: float
    runs: int


class Judged(Struct, frozen=True):
    """``steps``, costliest first; ``noise`` of one run per series without the common factor (NaN if the series is in
    too few runs to be tested); ``spread`` of the common factor from run to run, None without one; ``deviations`` of
    each run of a series from its level, in standard deviations (NaN where missing or not tested)."""

    series: SeriesOfRuns
    common: CommonFactor
    noise: Floats
    spread: float | None
    steps: tuple[LevelStep, ...]
    unconfirmed: tuple[Unconfirmed, ...]
    deviations: Floats

    @property
    def tested(self) -> Flags:
        """Which series are in enough runs to be tested."""
        return np.isfinite(self.noise)

    def of_series(self, row: int) -> tuple[LevelStep, ...]:
        """The steps of one series in the order of the runs."""
        return tuple(sorted((one for one in self.steps if one.series == row), key=lambda one: one.index))


def gain_needed(runs: int, tested: int) -> float:
    """The gain (squared standard deviations saved) a change needs so that chance makes ``ALARMS`` changes among
    ``tested`` values of series of up to ``runs`` runs; fitted on 12 to 200 runs, normal and with 2% outliers."""
    return max(20.0, float(np.log(0.25 * tested / ALARMS)) / _decay(runs))


def by_chance(gain: float, runs: int, tested: int) -> float:
    """The number of changes with such a gain expected by chance among all ``tested`` values."""
    return float(0.25 * tested * np.exp(-_decay(runs) * gain))


def _decay(runs: int) -> float:
    return 0.38 - 1.6 / max(runs, 8)


class _Scaled(Struct, frozen=True):
    """The rows to test, the common factor last if there is one, in standard deviations (``scale``) from ``centre``;
    these are larger where consecutive runs are correlated."""

    values: Floats
    centre: Floats
    scale: Floats
    cap: float
    tested: int
    offset_ns: Floats

    def level_ns(self, row: int, level: float) -> float:
        """A level as time per cycle, ns."""
        return max(0.0, float(np.exp(self.centre[row] + level * self.scale[row]) - self.offset_ns[row]))


def judge(series: SeriesOfRuns) -> Judged:
    """Find the steps. With fewer than eight runs nothing is tested."""
    logarithms = series.logarithms
    common = common_factor(logarithms, series.of_kind(KERNEL))
    rest = logarithms - common.share[:, None] * common.factor
    rows = np.vstack([rest, common.factor]) if common.removed else rest
    enough = np.isfinite(rows).sum(axis=1) >= FEWEST_RUNS
    noise = np.where(enough, noise_of(rows), np.nan)
    if series.clock_noise is not None:
        noise[: len(logarithms)] = np.maximum(noise[: len(logarithms)], series.clock_noise)
    spread = float(noise[-1]) if common.removed else None
    tested = int(np.isfinite(logarithms[enough[: len(logarithms)]]).sum())
    own = noise[: len(logarithms)]
    if not tested:
        return Judged(series, common, own, spread, (), (), np.full(logarithms.shape, np.nan))
    memory = memory_of(rows[enough])
    scale = np.where(enough, noise, 1.0) * np.sqrt((1 + memory) / (1 - memory))
    centre = np.where(enough, medians(rows), 0.0)
    penalty = gain_needed(rows.shape[1], tested)
    offset = np.append(series.offset_ns, 0.0)[: len(rows)]
    values = np.where(enough[:, None], (rows - centre[:, None]) / scale[:, None], np.nan)
    scaled = _Scaled(values, centre, scale, float(np.sqrt(penalty / 2 - 1)), tested, offset)
    begins = levels.changes(values, penalty, scaled.cap)
    steps = [
        step for row in np.flatnonzero(begins.any(axis=1)) for step in _steps_of(scaled, int(row), begins[row])
        if not _is_free(series, step)
    ]
    last = len(logarithms)
    of_common = [_as_common(series, common, step) for step in steps if step.series == last]
    steps = [
        replace(step, share=float(common.share[step.series])) for step in steps
        if step.series != last and not _is_explained(step, common, of_common)
    ]
    ordered = sorted((*of_common, *steps), key=lambda step: (-step.cost_ns, step.series, step.index))
    unconfirmed = [
        one for row in np.flatnonzero(enough) for one in _unconfirmed(scaled, int(row), begins[row])
        if not _is_free(series, one)
    ]
    renamed = [one if one.series != last else Unconfirmed(-1, one.index, one.change, one.runs) for one in unconfirmed]
    apart = np.array([_deviations(values[row], begins[row]) for row in range(last)]).reshape(logarithms.shape)
    return Judged(
        series, common, own, spread, tuple(ordered), tuple(sorted(renamed, key=lambda one: -abs(one.change))), apart)


def _deviations(values: Floats, begins: Flags) -> Floats:
    """Each run minus the median of the level it is in."""
    ends = [0, *np.flatnonzero(begins).tolist(), len(values)]
    parts = [values[begin:end] for begin, end in pairwise(ends)]
    return np.concatenate([part - medians(part[None, :]) for part in parts])


def _steps_of(scaled: _Scaled, row: int, begins: Flags) -> list[LevelStep]:
    """The changes of one series that pass the tests; the common factor is tested later."""
    values, scale, cap = scaled.values[row], float(scaled.scale[row]), scaled.cap
    there = np.isfinite(values)
    ends = [0, *np.flatnonzero(begins).tolist(), len(values)]
    result = []
    for begin, at, end in zip(ends, ends[1:], ends[2:], strict=False):
        if not there[begin:at].any() or not there[at:end].any():
            continue
        gain = levels.level_of(values[begin:end], cap)[0]
        gain -= levels.level_of(values[begin:at], cap)[0] + levels.level_of(values[at:end], cap)[0]
        expected = by_chance(gain, int(there.sum()), scaled.tested)
        _, before, left = levels.level_of(_near(values, max(begin, at - _BACK), at, begin), cap)
        _, after, right = levels.level_of(_near(values, at, min(end, at + _BACK), end), cap)
        size = float(np.clip((after - before) * scale, -_LARGEST, _LARGEST))
        error = float(np.hypot(scale * np.sqrt(1 / left + 1 / right), _DRIFT))
        if expected > ALARMS or abs(np.expm1(size)) + _SURELY * error < SMALLEST:
            continue
        start = max(begin, at - _AROUND)
        saved, jump, jump_error = levels.step_against_slope(values[start : min(end, at + _AROUND)], at - start, cap)
        surely = abs(jump) * scale + _SURELY * float(np.hypot(jump_error * scale, _LINE_ERROR))
        if saved < _BEYOND_A_SLOPE or surely < SMALLEST or jump * size < 0:
            continue
        first, last = _places(values, begin, at, end, (before, after), cap)
        result.append(LevelStep(
            row, at, float(np.expm1(size)), float(np.expm1(max(size - 1.96 * error, -_LARGEST))),
            float(np.expm1(min(size + 1.96 * error, _LARGEST))), scaled.level_ns(row, before),
            scaled.level_ns(row, after), first, last, int(there[at:].sum()), expected, 0.0,
        ))
    return result


def _near(values: Floats, begin: int, end: int, whole: int) -> Floats:
    """The runs next to a step; all runs on its side if the near ones lack the series."""
    some = values[begin:end]
    if np.isfinite(some).any():
        return some
    return values[min(begin, whole) : max(end, whole)]


def _places(
    values: Floats, begin: int, at: int, end: int, both: tuple[float, float], cap: float
) -> tuple[int, int]:
    """The first and the last run in which the step may have happened: those that hardly cost more than ``at``."""
    before, after = (np.minimum((values - level) ** 2, cap * cap) for level in both)
    worse = np.nan_to_num(after - before)  # extra cost of each run at the new level instead of the old
    left = np.cumsum(worse[begin:at][::-1])[::-1]  # for a step at begin, …, at − 1
    right = np.cumsum(-worse[at:end])  # for a step at at + 1, …, end
    early, late = np.flatnonzero(left < _PLACES), np.flatnonzero(right < _PLACES)
    first = begin + int(early[0]) if len(early) else at
    last = at + 1 + int(late[-1]) if len(late) else at
    return max(first, 1), min(last, len(values) - 1)


def _is_free(series: SeriesOfRuns, one: LevelStep | Unconfirmed) -> bool:
    """Whether it belongs to an idle cause and is too small to cost anything."""
    if one.series >= len(series.kinds) or series.kinds[one.series] != IDLE:
        return False
    least = SMALLEST_IDLE * series.cycle_ns
    if isinstance(one, LevelStep):
        return abs(one.cost_ns) < least
    usual = float(np.nanmedian(series.per_cycle[one.series]))
    return bool(abs(one.change) * (usual + IDLE_OFFSET * series.cycle_ns) < least)


def _as_common(series: SeriesOfRuns, common: CommonFactor, step: LevelStep) -> LevelStep:
    """The step of the common factor, with its effect on the sum of the kernels and how many kernels carry it."""
    kernels = series.of_kind(KERNEL)
    near = series.per_cycle[kernels, max(0, step.index - _BACK) : step.index]
    before, share = np.nan_to_num(medians(near)), common.share[kernels]
    after = before * np.exp(share * np.log1p(step.change))
    return replace(
        step, series=-1, before_ns=float(before.sum()), after_ns=float(after.sum()), share=1.0,
        carries=int((share >= 0.5).sum()),
    )


def _is_explained(step: LevelStep, common: CommonFactor, of_common: list[LevelStep]) -> bool:
    """Whether a step at the same time as a common step is no more than that step's effect on the series, whose share is
    only roughly known if it is noisy."""
    for one in of_common:
        whole = float(np.log1p(one.change))
        raw = sorted(float(np.log1p(end)) / whole + float(common.share[step.series]) for end in (step.low, step.high))
        at_once = abs(step.index - one.index) <= _NEAR_COMMON or step.first <= one.index <= step.last
        if at_once and raw[0] <= _EXPLAINED[1] and raw[1] >= _EXPLAINED[0]:
            return True
    return False


def _unconfirmed(scaled: _Scaled, row: int, begins: Flags) -> list[Unconfirmed]:
    """The last one or two runs of a series if they are far off the level before them; empty if a step is near."""
    values = scaled.values[row]
    there = np.flatnonzero(np.isfinite(values))
    starts = np.flatnonzero(begins)
    since = int(starts[-1]) if len(starts) else 0
    if there[-1] != len(values) - 1 or since > there[-FEWEST_AFTER]:
        return []
    for runs in (2, 1):
        usual = values[max(since, int(there[-runs]) - _BACK) : there[-runs]]
        if not np.isfinite(usual).any():
            continue
        off = values[there[-runs:]] - levels.level_of(usual, scaled.cap)[1]
        change = float(np.expm1(np.clip(np.median(off) * scaled.scale[row], -_LARGEST, _LARGEST)))
        if (np.abs(off) > _UNCONFIRMED).all() and len(set(np.sign(off))) == 1 and abs(change) >= SMALLEST:
            return [Unconfirmed(row, int(there[-runs]), change, runs)]
    return []


class Drift(Struct, frozen=True):
    """A series (its row) that rises or falls run by run: ``per_run`` as a share of its mean, ``change`` over all tested
    runs, ``q`` the false-alarm rate over all series."""

    series: int
    per_run: float
    change: float
    q: float


_SURE_SLOPE = 6.0  # Standard errors that a slope must differ from 0.


def drifts(series: SeriesOfRuns) -> tuple[Drift, ...]:
    """The series that a line explains better than the best step does, largest change first; idle causes may be 0 and
    are left out."""
    from scipy.special import stdtr

    tested = ~np.isnan(series.per_cycle).all(axis=0)
    times = series.per_cycle[:, tested]
    rows = np.flatnonzero(np.isfinite(times).all(axis=1) & (times > 0).all(axis=1) & ~series.of_kind(IDLE))
    n = times.shape[1]
    if n < FEWEST_RUNS or not len(rows):
        return ()
    y = times[rows] / times[rows].mean(axis=1, keepdims=True)
    x = np.arange(n) - (n - 1) / 2
    slope = y @ x / (x @ x)
    line = ((y - 1 - slope[:, None] * x) ** 2).sum(axis=1)
    step = np.min([y[:, :at].var(axis=1) * at + y[:, at:].var(axis=1) * (n - at)
                   for at in range(FEWEST_AFTER, n - FEWEST_AFTER + 1)], axis=0)
    t = np.abs(slope) / np.sqrt(np.maximum(line, 1e-18) / (n - 2) / (x @ x))
    p = 2 * stdtr(n - 2, -t)
    order = np.argsort(p)
    q = np.empty(len(p))
    q[order] = np.minimum.accumulate((p[order] * len(p) / np.arange(1, len(p) + 1))[::-1])[::-1]
    sure = (line < step) & (t > _SURE_SLOPE) & (np.abs(slope) * (n - 1) >= SMALLEST)
    result = [Drift(int(rows[at]), float(slope[at]), float(slope[at] * (n - 1)), float(q[at]))
              for at in np.flatnonzero(sure)]
    return tuple(sorted(result, key=lambda one: -abs(one.change)))
