"""Made-up nights whose truth is known: time per cycle of many kernels over many runs, as logarithms.

What made real histories hard is in it: a factor common to a night in which kernels have different shares, outliers of
single values and of whole nights, series that drift, come late, go early or are missing now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class TrueStep(NamedTuple):
    """A series' new level from that night on; ``size`` is relative."""

    series: int
    night: int
    size: float


class Nights(NamedTuple):
    """``logarithms`` (series, nights); ``noise`` is each series' own; ``common_at`` the night all of them stepped."""

    logarithms: Floats
    noise: Floats
    steps: list[TrueStep]
    common_at: int | None
    last: NDArray[np.int64]


def nights(
    seed: int, runs: int = 200, series: int = 300, *, weather: float = 0.006,
    noise: tuple[float, float] = (0.002, 0.03),
    outliers: float = 0.02, drift: float = 0.01, stepping: float = 0.35,
    sizes: Sequence[float] = (0.01, 0.02, 0.03, 0.05, 0.10, 0.20), common_step: float = 0.0, missing: float = 0.03,
    recent: float = 0.15,
) -> Nights:
    """A history. ``drift`` is the standard deviation of the amplitudes of a fifth of the series that swing slowly;
    ``recent`` the share of the steps that lie in the last three nights."""
    rng = np.random.default_rng(seed)
    own = np.exp(rng.uniform(*np.log(noise), series))
    follows = rng.random(series)
    share = np.where(follows < 0.6, rng.uniform(0.8, 1.1, series), 0.0)
    share = np.where((follows >= 0.6) & (follows < 0.9), rng.uniform(0, 0.5, series), share)
    factor = _with_memory(rng.normal(0, weather, runs), 0.3)
    factor += np.where(rng.random(runs) < 0.01 * (outliers > 0), rng.uniform(0.03, 0.15, runs), 0)
    common_at = int(rng.integers(runs // 4, 3 * runs // 4)) if common_step else None
    if common_at is not None:
        factor += common_step * (np.arange(runs) >= common_at)
    level = rng.uniform(np.log(3e3), np.log(3e7), series)
    made = level[:, None] + share[:, None] * factor + own[:, None] * rng.normal(0, 1, (series, runs))
    sizes_off = rng.uniform(0.05, 0.30, made.shape) * np.where(rng.random(made.shape) < 0.8, 1, -1)
    made += np.where(rng.random(made.shape) < outliers, sizes_off, 0)
    swing = np.where(rng.random(series) < 0.2, rng.normal(0, drift or 1, series) * (drift > 0), 0)
    turns, phase = rng.uniform(0.5, 2, series), rng.uniform(0, 6, series)
    made += swing[:, None] * np.sin(np.linspace(0, np.pi, runs) * turns[:, None] + phase[:, None])
    first, last = np.zeros(series, dtype=np.int64), np.full(series, runs)
    fate = rng.random(series)
    new, gone = fate < 0.1, (fate >= 0.1) & (fate < 0.145)
    first[new] = rng.integers(5, runs - 5, int(new.sum()))
    last[gone] = rng.integers(runs // 3, runs, int(gone.sum()))
    steps: list[TrueStep] = []
    for row in np.flatnonzero(rng.random(series) < stepping).tolist():
        for _ in range(2 if rng.random() < 0.12 else 1):
            late = rng.random() < recent
            night = int(rng.integers(runs - 3, runs) if late else rng.integers(3, runs))
            close = any(one.series == row and abs(one.night - night) < 10 for one in steps)
            if close or not first[row] + 3 <= night < last[row]:
                continue
            size = float(rng.choice(sizes)) * (1 if rng.random() < 0.7 else -1)
            made[row, night:] += np.log1p(size)
            steps.append(TrueStep(row, night, size))
    time = np.arange(runs)
    made[(time < first[:, None]) | (time >= last[:, None])] = np.nan
    made[rng.random(made.shape) < missing] = np.nan
    return Nights(made, own, steps, common_at, last)


def _with_memory(shocks: Floats, memory: float) -> Floats:
    made = shocks.copy()
    for at in range(1, len(made)):
        made[at] = memory * made[at - 1] + np.sqrt(1 - memory**2) * shocks[at]
    return made


class Verdict(NamedTuple):
    """The true steps that were found within a night, those that were not, and how many were told without one."""

    found: list[TrueStep]
    missed: list[TrueStep]
    false: int
    misplaced: int


def verdict(told: Sequence[tuple[int, int, float]], truth: Nights) -> Verdict:
    """``told`` are (series, night, change). False is what has no true step of its series within ten nights."""
    found: set[TrueStep] = set()
    false = misplaced = 0
    for row, night, change in told:
        mine = [one for one in truth.steps if one.series == row]
        right = [one for one in mine if abs(one.night - night) <= 1 and one.size * change > 0]
        if right:
            found.add(right[0])
        elif any(abs(one.night - night) <= 10 for one in mine):
            misplaced += 1
        else:
            false += 1
    return Verdict(sorted(found), [one for one in truth.steps if one not in found], false, misplaced)
