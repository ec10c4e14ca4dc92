"""Level changes of a series, found exactly: they minimise the sum of truncated squares plus a penalty per change.

A run further than the cap from its level costs the cap, so an outlier is cheaper than two changes. Viterbi over 256
levels per series finds the optimum in one pass over the runs, for 300 series at once. Of five methods compared on
synthetic nights it made a tenth of the false alarms of the others while finding the same steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .noise import Flags, Floats

Singles = NDArray[np.float32]
LEVELS = 256
_AT_ONCE = 60_000  # Series × runs processed at once: 15 MB of decisions.


def changes(values: Floats, penalty: float, cap: float) -> Flags:
    """True where a new level begins, per series and run. ``values`` are in standard deviations of a run, NaN where the
    series is missing; a change at a missing run moves to the next run that has the series."""
    result = np.zeros(values.shape, dtype=bool)
    step = max(1, _AT_ONCE // max(1, values.shape[1]))
    for begin in range(0, len(values), step):
        result[begin : begin + step] = _changes(values[begin : begin + step], penalty, cap)
    return result


def _changes(values: Floats, penalty: float, cap: float) -> Flags:
    series, runs = values.shape
    rows = np.arange(series)
    levels = _candidates(values)
    cost = np.zeros_like(levels)
    changed = np.zeros((runs, series, levels.shape[1]), dtype=bool)
    source = np.zeros((runs, series), dtype=np.intp)
    single = values.astype(np.float32)
    for run in range(runs):
        if run:
            source[run] = cost.argmin(axis=1)
            from_best = (cost[rows, source[run]] + np.float32(penalty))[:, None]
            np.less(from_best, cost, out=changed[run])
            np.minimum(cost, from_best, out=cost)
            cost -= cost.min(axis=1)[:, None]
        apart = single[:, run, None] - levels
        apart *= apart
        np.minimum(apart, np.float32(cap * cap), out=apart)
        apart[np.isnan(single[:, run])] = 0.0
        cost += apart
    return _traced(values, changed, source, cost.argmin(axis=1))


def _candidates(values: Floats) -> Singles:
    """The candidate levels, float32: half evenly spaced over the 1st to 99th percentile and the last three runs, half
    quantiles of the values, so that with one run ten times as long the other runs still have levels close to them."""
    tail = values[:, -3:]
    ordered = np.sort(values, axis=1)
    count = np.isfinite(values).sum(axis=1)

    def quantiles(shares: Floats) -> Floats:
        at = np.rint(shares[None, :] * np.maximum(count - 1, 0)[:, None]).astype(np.intp)
        return np.nan_to_num(np.take_along_axis(ordered, at, axis=1))

    low, high = quantiles(np.array([0.01, 0.99])).T
    low, high = np.fmin(low - 1, np.fmin.reduce(tail, axis=1)), np.fmax(high + 1, np.fmax.reduce(tail, axis=1))
    even = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, LEVELS // 2)
    return np.concatenate([even, quantiles(np.linspace(0, 1, LEVELS - LEVELS // 2))], axis=1).astype(np.float32)


def _traced(values: Floats, changed: Flags, source: NDArray[np.intp], at: NDArray[np.intp]) -> Flags:
    """Trace back from the cheapest last level (``at``) to the run in which each level begins."""
    missing, rows = np.isnan(values), np.arange(len(values))
    begins = np.zeros(values.shape, dtype=bool)
    for run in range(values.shape[1] - 1, 0, -1):
        here = changed[run][rows, at]
        begins[:, run] |= here & ~missing[:, run]
        for late in np.flatnonzero(here & missing[:, run]):
            there = np.flatnonzero(~missing[late, run:])
            if len(there):
                begins[late, run + there[0]] = True
        at = np.where(here, source[run], at)
    return begins


def level_of(values: Floats, cap: float) -> tuple[float, float, int]:
    """The best single level for these values: (its truncated cost, the level, the number of runs within the cap, at
    least 1). One value at least must not be NaN."""
    values = values[~np.isnan(values)]
    tried = np.unique(np.append(values, np.median(values)))
    if len(tried) > 60:
        low, high = np.percentile(values, [2, 98]).tolist()
        tried = np.linspace(low, high, 60)
    costs = np.minimum((values[None, :] - tried[:, None]) ** 2, cap * cap).sum(axis=1)
    level = float(tried[costs.argmin()])
    for _ in range(4):
        near = np.abs(values - level) < cap
        if not near.any() or (moved := float(values[near].sum() / near.sum())) == level:
            break
        level = moved
    near = np.abs(values - level) < cap
    return float(np.minimum((values - level) ** 2, cap * cap).sum()), level, max(int(near.sum()), 1)


def step_against_slope(values: Floats, at: int, cap: float) -> tuple[float, float, float]:
    """Fit a straight line with a step at run ``at``: (squared standard deviations that the step saves over the line
    alone, the size of the step beside the line, its standard error). Runs beyond the cap are clipped."""
    time = np.arange(len(values)) - at + 0.5
    after = time > 0
    fit = np.where(after, level_of(values[at:], cap)[1], level_of(values[:at], cap)[1])
    there = ~np.isnan(values)
    pulled = (fit + np.clip(values - fit, -cap, cap))[there]
    both = np.column_stack([np.ones(int(there.sum())), time[there], after[there].astype(float)])
    inverse = np.linalg.pinv(both.T @ both)
    solution = inverse @ (both.T @ pulled)
    line = both[:, :2] @ np.linalg.lstsq(both[:, :2], pulled, rcond=None)[0]
    saved = float(((pulled - line) ** 2).sum() - ((pulled - both @ solution) ** 2).sum())
    return saved, float(solution[2]), float(np.sqrt(max(inverse[2, 2], 0.0)))
