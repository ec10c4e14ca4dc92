"""The noise of a series from run to run, and the common factor that moves all series together.

Values are natural logarithms of time per cycle, one row per series and one column per run, NaN where a run lacks the
series. The common factor of a run is its clock, temperature or neighbour: compute-bound kernels follow it in full,
copies not at all, so each series has its own share in it. Dividing everything by the median instead would make steps in
series that do not follow it; leaving it in would hide a step of 2% behind a common factor of 1.5%.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEAST_NOISE = 0.001
"""Smallest noise assumed for any series: 0.1% per run."""
FEWEST_RUNS = 8
"""Runs a series must be in to be tested."""
FEWEST_KERNELS = 8
"""Kernels that a common factor needs."""
LAGS = (1, 2, 3)
"""Distances of the runs whose differences are used: a step is in few of these, and drift hardly shows in them."""
_MAD = 1.4826
_SHARE_SPREAD = 0.4
"""Assumed spread of the shares in the common factor around 1: shares of noisy series are shrunk towards 1."""
_MOST_SHARE = 1.25


class CommonFactor(Struct, frozen=True):
    """``factor`` per run (median 0; all 0 where there is none) and each series' ``share`` in it, 0 to 1.25."""

    factor: Floats
    share: Floats

    @property
    def removed(self) -> bool:
        """Whether there is a common factor."""
        return bool(self.factor.any())


def medians(rows: Floats) -> Floats:
    """The median of each row, ignoring NaN; NaN for a row without numbers."""
    ordered = np.sort(rows, axis=1)  # NaN comes last
    count = np.isfinite(rows).sum(axis=1)
    at = np.arange(len(rows))
    middle = (ordered[at, np.maximum(count - 1, 0) // 2] + ordered[at, np.minimum(count // 2, rows.shape[1] - 1)]) / 2
    result: Floats = np.where(count > 0, middle, np.nan)
    return result


def differences(values: Floats, lag: int) -> Floats:
    """Each run's values minus those ``lag`` runs before; no columns if there are too few runs."""
    result: Floats = values[:, lag:] - values[:, : max(values.shape[1] - lag, 0)]
    return result


def noise_of(values: Floats) -> Floats:
    """Standard deviation of one run's value, per series, from robust differences of runs up to three apart."""
    apart = np.concatenate([np.abs(differences(values, lag)) for lag in LAGS], axis=1)
    if not apart.shape[1]:
        return np.full(len(values), LEAST_NOISE)
    noise: Floats = np.nan_to_num(_MAD * medians(apart) / np.sqrt(2), nan=LEAST_NOISE)
    return np.maximum(noise, LEAST_NOISE)


def memory_of(values: Floats) -> float:
    """The correlation of a run with the one before, over all series, 0 to 0.8. If runs one apart differ less than runs
    five apart, runs are correlated, and chance makes more steps than with independent runs."""
    if values.shape[1] <= 10:
        return 0.0
    near, far = (medians(np.abs(differences(values, lag))) for lag in (1, 5))
    some = far > 0
    if not some.any():  # nothing moves, or nothing is there
        return 0.0
    return float(np.clip(np.median(1 - (near[some] / far[some]) ** 2), 0, 0.8))


def common_factor(values: Floats, kernels: Flags) -> CommonFactor:
    """The common factor of the runs, from the kernels that are in at least half of them, and each series' share."""
    series, runs = values.shape
    used = kernels & (np.isfinite(values).sum(axis=1) >= max(FEWEST_RUNS, runs // 2))
    if used.sum() < FEWEST_KERNELS:
        return CommonFactor(np.zeros(runs), np.zeros(series))
    noise = noise_of(values)
    factor = _polished(values[used], noise[used])
    full = _full_share(values, factor, noise, used)
    factor = factor * full
    numerator, denominator = _shared(values, factor, noise)
    prior = 3 * (noise / _SHARE_SPREAD) ** 2
    share = np.clip((numerator + prior) / (denominator + prior), 0, _MOST_SHARE)
    helps = noise_of(values - share[:, None] * factor) < noise
    return CommonFactor(factor, np.where(helps, share, 0.0))


def _polished(values: Floats, noise: Floats) -> Floats:
    """Median polish: the factor of each run once every series' own level is removed. Weighted by 1/noise, with a limit
    so that no very quiet series outvotes the others."""
    weight = 1 / np.maximum(noise, np.median(noise) / 2)
    factor = np.zeros(values.shape[1])
    for _ in range(4):
        levels = medians(values - factor)
        factor = np.nan_to_num(_weighted_medians(values - levels[:, None], weight))
        factor -= np.median(factor)
    return factor


def _weighted_medians(values: Floats, weight: Floats) -> Floats:
    """The weighted median of each column, ignoring NaN."""
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    weights = np.take_along_axis(np.where(np.isnan(values), 0.0, weight[:, None]), order, axis=0)
    total = np.cumsum(weights, axis=0)
    at = np.argmax(total >= 0.5 * total[-1], axis=0)
    result: Floats = ordered[at, np.arange(values.shape[1])]
    return result


def _shared(values: Floats, factor: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Numerator and denominator of each series' share, from differences between runs: few of them hold a step.
    Left out: differences that fit a share of neither 0 nor 1; jumps of the factor, which may be the series' step."""
    numerator, denominator = np.zeros(len(values)), np.zeros(len(values))
    near = np.maximum(3 * np.sqrt(2) * noise, 0.01)[:, None]
    for lag in LAGS:
        own, common = differences(values, lag), factor[lag:] - factor[:-lag]
        fits = np.isfinite(own) & (np.minimum(np.abs(own), np.abs(own - common)) < near)
        fits &= np.abs(common) < 4 * _MAD * np.median(np.abs(common)) + 1e-9
        numerator += (np.where(fits, own, 0.0) * common).sum(axis=1)
        denominator += (fits * common * common).sum(axis=1)
    return numerator, denominator


def _full_share(values: Floats, factor: Floats, noise: Floats, used: Flags) -> float:
    """The scale of the factor that makes the 75th percentile of the shares 1 in the quieter half of the kernels: as a
    median, the factor is smaller than the movement of compute-bound kernels."""
    numerator, denominator = _shared(values, factor, noise)
    quiet = used & (noise <= np.median(noise[used]))
    shares = (numerator / np.maximum(denominator, 1e-12))[quiet]
    return float(np.clip(np.quantile(shares, 0.75), 1, 2))
