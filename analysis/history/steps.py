"""Which series stepped, in which run and by how much, so that chance makes five steps in a hundred whole histories.

A step has to pass four gates, each of which was needed on made-up runs (``docs/history.md`` has the figures): what it
saves is beyond chance over everything tested; it is a step and not a slope; it is not surely smaller than 2%; and the
common factor of the runs does not explain it. Two odd runs at an end are no step, three are: nobody can tell one bad
night from a new level, so the last runs that stand out are said apart, as unconfirmed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from . import levels
from .noise import FEWEST_RUNS, CommonFactor, Flags, Floats, common_factor, medians, memory_of, noise_of

ALARMS = 0.05
"""Steps by chance in a whole history, over all series and runs together."""
FEWEST_AFTER = 3
"""Runs at the new level from which a step can be told."""
SMALLEST = 0.02
"""A step that is surely smaller is not told, nor is a gate set below it."""
SMALLEST_IDLE = 0.005
"""Of the cycle: a smaller change of an idle cause costs nothing."""
IDLE_OFFSET = 0.001
"""Of the cycle: added to idle causes, whose time may be 0, before the logarithm."""
_SURELY = 2.33  # Standard errors: 99 of 100 steps of the smallest size pass.
_DRIFT = 0.0025  # What slow drift may add to a step's size, or take from it.
_LINE_ERROR = 0.001
_LARGEST = 30.0  # Logarithm of a step: beyond a factor of 10¹³ numbers are no times.
_BACK = 20  # Runs on each side that a step's size is taken from.
_AROUND = 40  # Runs on each side among which it must be more than a slope.
_BEYOND_A_SLOPE = 6.0
_NEAR_COMMON = 3  # Runs between a step and the common one that explains it.
_EXPLAINED = (-0.25, 1.35)  # Share of the common step that a series' own raw step may be.
_UNCONFIRMED = 7.0  # Standard deviations by which the last runs must be off.
_PLACES = 6.0  # What moving a step's place may cost, in squared standard deviations, for it to be possible.

CYCLE, KERNEL, COLLECTIVE, COPY, OP, IDLE, COMMON = "cycle", "kernel", "collective", "copy", "op", "idle", "common"
KINDS = (CYCLE, KERNEL, COLLECTIVE, COPY, OP, IDLE)


class SeriesOfRuns(Struct, frozen=True):
    """Time per cycle (ns) of every series in every run, ``(series, runs)``, NaN where a run lacks it. ``kinds`` are of
    ``KINDS``; ``cycle_ns`` is the median cycle of all runs."""

    kinds: tuple[str, ...]
    names: tuple[str, ...]
    per_cycle: Floats
    cycle_ns: float

    def of_kind(self, kind: str) -> Flags:
        """Which series are of that kind."""
        result: Flags = np.array([one == kind for one in self.kinds], dtype=bool)
        return result

    @property
    def offset_ns(self) -> Floats:
        """What is added to each series before the logarithm is taken."""
        return np.where(self.of_kind(IDLE), IDLE_OFFSET * self.cycle_ns, 0.0)

    @property
    def logarithms(self) -> Floats:
        """What is tested."""
        shifted = self.per_cycle + self.offset_ns[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            result: Floats = np.where((shifted > 0) & np.isfinite(shifted), np.log(shifted), np.nan)
        return result


class LevelStep(Struct, frozen=True):
    """A new level of a series (its row; -1 for the common factor) from run ``index`` on. Levels, in ns per cycle, are
    of up to 20 runs on either side with the common factor taken out. ``change`` is relative: of an idle cause to its
    time and a thousandth of the cycle. ``low``..``high`` is its 95% interval, ``first``..``last`` the runs it may have
    happened in; ``expected`` is how many like it chance makes in the whole history. ``share`` is the series' own in the
    common factor; of a common step ``carries`` says how many kernels have at least half of it."""

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
        """The chance that such a step is by chance, over everything tested."""
        return min(1.0, self.expected)

    @property
    def cost_ns(self) -> float:
        """What it added to every cycle."""
        return self.after_ns - self.before_ns


class Unconfirmed(Struct, frozen=True):
    """The last run, or both of the last two, are off by more than seven standard deviations: a step, or bad runs."""

    series: int
    index: int
    change: float
    runs: int


class Judged(Struct, frozen=True):
    """``steps`` with the costliest first; ``noise`` of one run per series once the common factor is out (NaN where it
    is too short to be tested); ``spread`` of the common factor from run to run, None without one. ``deviations`` are
    how far each run of a series is from its level, in standard deviations (NaN where it is missing or not tested)."""

    series: SeriesOfRuns
    common: CommonFactor
    noise: Floats
    spread: float | None
    steps: tuple[LevelStep, ...]
    unconfirmed: tuple[Unconfirmed, ...]
    deviations: Floats

    @property
    def tested(self) -> Flags:
        """Which series are in enough runs."""
        return np.isfinite(self.noise)

    def of_series(self, row: int) -> tuple[LevelStep, ...]:
        """Its steps in the order of the runs."""
        return tuple(sorted((one for one in self.steps if one.series == row), key=lambda one: one.index))


def gain_needed(runs: int, tested: int) -> float:
    """What a change must save, in squared standard deviations, so that chance makes ``ALARMS`` among so many values of
    series that have up to so many runs; fitted on normal runs and runs with 2% outliers, 12 to 200 of them."""
    return max(20.0, float(np.log(0.25 * tested / ALARMS)) / _decay(runs))


def by_chance(gain: float, runs: int, tested: int) -> float:
    """How many changes with that gain chance makes among all values tested."""
    return float(0.25 * tested * np.exp(-_decay(runs) * gain))


def _decay(runs: int) -> float:
    return 0.38 - 1.6 / max(runs, 8)


class _Scaled(Struct, frozen=True):
    """The rows looked at, the common factor last where there is one, in standard deviations from ``centre``; ``scale``
    are these, with the memory of the runs in them."""

    values: Floats
    centre: Floats
    scale: Floats
    cap: float
    tested: int
    offset_ns: Floats

    def level_ns(self, row: int, level: float) -> float:
        """A level as time per cycle."""
        return max(0.0, float(np.exp(self.centre[row] + level * self.scale[row]) - self.offset_ns[row]))


def judge(series: SeriesOfRuns) -> Judged:
    """Find the steps. Of fewer than eight runs nothing is tested."""
    logarithms = series.logarithms
    common = common_factor(logarithms, series.of_kind(KERNEL))
    rest = logarithms - common.share[:, None] * common.factor
    rows = np.vstack([rest, common.factor]) if common.removed else rest
    enough = np.isfinite(rows).sum(axis=1) >= FEWEST_RUNS
    noise = np.where(enough, noise_of(rows), np.nan)
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
    told = [one if one.series != last else Unconfirmed(-1, one.index, one.change, one.runs) for one in unconfirmed]
    apart = np.array([_deviations(values[row], begins[row]) for row in range(last)]).reshape(logarithms.shape)
    return Judged(
        series, common, own, spread, tuple(ordered), tuple(sorted(told, key=lambda one: -abs(one.change))), apart)


def _deviations(values: Floats, begins: Flags) -> Floats:
    """Each run minus the median of the level it is in."""
    ends = [0, *np.flatnonzero(begins).tolist(), len(values)]
    parts = [values[begin:end] for begin, end in pairwise(ends)]
    return np.concatenate([part - medians(part[None, :]) for part in parts])


def _steps_of(scaled: _Scaled, row: int, begins: Flags) -> list[LevelStep]:
    """The changes of one series that pass the gates."""
    values, scale, cap = scaled.values[row], float(scaled.scale[row]), scaled.cap
    there = np.isfinite(values)
    ends = [0, *np.flatnonzero(begins).tolist(), len(values)]
    made = []
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
        saved, jump, jump_error = levels.beside_a_slope(values[start : min(end, at + _AROUND)], at - start, cap)
        surely = abs(jump) * scale + _SURELY * float(np.hypot(jump_error * scale, _LINE_ERROR))
        if saved < _BEYOND_A_SLOPE or surely < SMALLEST or jump * size < 0:
            continue
        first, last = _places(values, begin, at, end, (before, after), cap)
        made.append(LevelStep(
            row, at, float(np.expm1(size)), float(np.expm1(max(size - 1.96 * error, -_LARGEST))),
            float(np.expm1(min(size + 1.96 * error, _LARGEST))), scaled.level_ns(row, before),
            scaled.level_ns(row, after), first, last, int(there[at:].sum()), expected, 0.0,
        ))
    return made


def _near(values: Floats, begin: int, end: int, whole: int) -> Floats:
    """The runs next to a step; all of its side where those that are near lack the series."""
    some = values[begin:end]
    if np.isfinite(some).any():
        return some
    return values[min(begin, whole) : max(end, whole)]


def _places(
    values: Floats, begin: int, at: int, end: int, both: tuple[float, float], cap: float
) -> tuple[int, int]:
    """The first and the last run that the step may have happened in: where its place hardly costs more than here."""
    before, after = (np.minimum((values - level) ** 2, cap * cap) for level in both)
    worse = np.nan_to_num(after - before)  # of each run, at the new level instead of the old
    left = np.cumsum(worse[begin:at][::-1])[::-1]  # for a step at begin, …, at − 1
    right = np.cumsum(-worse[at:end])  # for a step at at + 1, …, end
    early, late = np.flatnonzero(left < _PLACES), np.flatnonzero(right < _PLACES)
    first = begin + int(early[0]) if len(early) else at
    last = at + 1 + int(late[-1]) if len(late) else at
    return max(first, 1), min(last, len(values) - 1)


def _is_free(series: SeriesOfRuns, one: LevelStep | Unconfirmed) -> bool:
    """Whether it is an idle cause's, and so little that it costs nothing."""
    if one.series >= len(series.kinds) or series.kinds[one.series] != IDLE:
        return False
    least = SMALLEST_IDLE * series.cycle_ns
    if isinstance(one, LevelStep):
        return abs(one.cost_ns) < least
    usual = float(np.nanmedian(series.per_cycle[one.series]))
    return bool(abs(one.change) * (usual + IDLE_OFFSET * series.cycle_ns) < least)


def _as_common(series: SeriesOfRuns, common: CommonFactor, step: LevelStep) -> LevelStep:
    """The step of the common factor: what it does to the sum of the kernels, and how many carry it."""
    kernels = series.of_kind(KERNEL)
    near = series.per_cycle[kernels, max(0, step.index - _BACK) : step.index]
    before, share = np.nan_to_num(medians(near)), common.share[kernels]
    after = before * np.exp(share * np.log1p(step.change))
    return replace(
        step, series=-1, before_ns=float(before.sum()), after_ns=float(after.sum()), share=1.0,
        carries=int((share >= 0.5).sum()),
    )


def _is_explained(step: LevelStep, common: CommonFactor, of_common: list[LevelStep]) -> bool:
    """Whether a step that may have come with a common one is no more than what that did to the series, whose share is
    only roughly known where it is noisy."""
    for one in of_common:
        whole = float(np.log1p(one.change))
        raw = sorted(float(np.log1p(end)) / whole + float(common.share[step.series]) for end in (step.low, step.high))
        at_once = abs(step.index - one.index) <= _NEAR_COMMON or step.first <= one.index <= step.last
        if at_once and raw[0] <= _EXPLAINED[1] and raw[1] >= _EXPLAINED[0]:
            return True
    return False


def _unconfirmed(scaled: _Scaled, row: int, begins: Flags) -> list[Unconfirmed]:
    """Whether the last one or two runs of a series are far off the level before them; no step lies there."""
    values = scaled.values[row]
    there = np.flatnonzero(np.isfinite(values))
    begun = np.flatnonzero(begins)
    since = int(begun[-1]) if len(begun) else 0
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
