"""How far values moved between two groups of cycles, with standard errors.

Values are logarithms (of time per launch), so a shift is a ratio. The centre of a side is a trimmed mean: one odd cycle
must neither raise an alarm nor hide a change. The spread comes from Winsorised variances, each shrunk towards the usual
variance of its kind of function, since six cycles alone say little about a variance. Whether a shift could be chance is
tested in ``permutation``.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PRIOR_WEIGHT = 3.0  # Weight of the usual variance of a kind of function against the function's own, in cycles.
SIDE_WEIGHT = 4.0  # The same for the pooled variance of both sides against that of one side.
OUTLYING = 4.0  # Values further than this many standard deviations from their side's centre are clipped to there.
_SMALL = {1: 1.0, 2: 0.5, 3: 0.449, 4: 0.298}  # Variance of the trimmed mean of n standard normal values.


class LocationShift(Struct, frozen=True):
    """Per function: both centres, the standard error of each, and the degrees of freedom of their difference."""

    a: Floats
    b: Floats
    error_a: Floats
    error_b: Floats
    freedom: Floats

    @property
    def delta(self) -> Floats:
        """Centre of B minus centre of A."""
        return self.b - self.a

    @property
    def error(self) -> Floats:
        """Standard error of the difference."""
        return np.hypot(self.error_a, self.error_b)


_MOST_PAIRS = 4_000_000  # Most pairs of cycles for which every difference is computed.


def trimmed(n: int) -> int:
    """How many of n values are dropped at each end: a fifth, at least one from n = 3 on."""
    return max(1, n // 5) if n >= 3 else 0


def centre(values: Floats) -> Floats:
    """The trimmed mean over the last axis."""
    n = values.shape[-1]
    g = trimmed(n)
    middle: Floats = np.sort(values, axis=-1)[..., g : n - g].mean(axis=-1)
    return middle


def variance(values: Floats) -> tuple[Floats, float]:
    """The effective variance of one value (n times the variance of the centre), and its degrees of freedom."""
    n = values.shape[-1]
    ordered = np.sort(values, axis=-1)
    if n < 5:
        spread: Floats = ordered.var(axis=-1, ddof=1) if n > 1 else np.zeros(values.shape[:-1])
        return spread * _SMALL[n] * n, float(n - 1)
    g = trimmed(n)
    h = n - 2 * g
    middle = ordered[..., g : n - g]
    low, high = middle[..., :1], middle[..., -1:]
    winsorised = np.concatenate([low] * g + [middle] + [high] * g, axis=-1).var(axis=-1, ddof=1)
    return winsorised * n * (n - 1) / (h * (h - 1)), float(h - 1)


def usual_variance(sides: list[Floats]) -> float:
    """The usual variance of a kind of function: the median over functions (rows) of the variance within a side."""
    result = [variance(values)[0] for values in sides if values.size and values.shape[-1] > 1]
    return float(np.median(np.concatenate(result))) if result else 0.0


def location_shift(a: Floats, b: Floats, prior: Floats | float) -> LocationShift:
    """Compare the last axes of ``a`` and ``b``; ``prior`` is the usual variance of one value."""
    (var_a, free_a), (var_b, free_b) = variance(a), variance(b)
    free = free_a + free_b
    both = (free_a * var_a + free_b * var_b + PRIOR_WEIGHT * prior) / (free + PRIOR_WEIGHT)
    own_a = (free_a * var_a + SIDE_WEIGHT * both) / (free_a + SIDE_WEIGHT)
    own_b = (free_b * var_b + SIDE_WEIGHT * both) / (free_b + SIDE_WEIGHT)
    return LocationShift(
        centre(a), centre(b), np.sqrt(own_a / a.shape[-1]), np.sqrt(own_b / b.shape[-1]),
        np.full(a.shape[:-1], free + PRIOR_WEIGHT),
    )


def pulled_in(a: Floats, b: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """Both sides with outlying cycles clipped, at the same distance on both so that neither looks steadier."""
    spread = np.zeros(len(a))
    for side in (a, b):
        own, free = variance(side)
        spread = np.maximum(spread, np.sqrt((free * own + PRIOR_WEIGHT * prior) / (free + PRIOR_WEIGHT)))
    reach = (OUTLYING * spread)[:, None]
    near = [np.clip(side, centre(side)[:, None] - reach, centre(side)[:, None] + reach) for side in (a, b)]
    return near[0], near[1]


def hodges_lehmann(a: Floats, b: Floats) -> tuple[float, float, float]:
    """The median of all differences b - a, with the 95% CI from inverting the Mann-Whitney test.

    The CI is infinite with too few values for 95%. Source: Hollander and Wolfe, Nonparametric Statistical Methods,
    section 4.3.
    """
    n, m = len(a), len(b)
    margin = 1.959964 * np.sqrt(n * m * (n + m + 1) / 12)
    k = int(np.floor(n * m / 2 - margin))
    if n * m > _MOST_PAIRS:
        a, b = np.sort(a), np.sort(b)  # too many differences to compute all
        low, high = _difference(a, b, (n * m - 1) // 2), _difference(a, b, n * m // 2)
        return (low + high) / 2, _difference(a, b, k), _difference(a, b, n * m - k - 1)
    differences = np.sort((b[None, :] - a[:, None]).ravel())
    middle = float(np.median(differences))
    if k < 0 or n * m < 16:
        return middle, float("-inf"), float("inf")
    return middle, float(differences[k]), float(differences[-k - 1])


def _difference(a: Floats, b: Floats, rank: int) -> float:
    """The difference b - a of that rank (from 0), by bisection until few enough differences are left to sort."""
    low, high = float(b[0] - a[-1]), float(b[-1] - a[0])
    first, last = np.zeros(len(a), np.int64), np.full(len(a), len(b))
    while int((last - first).sum()) > _MOST_PAIRS:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return low
        until = np.searchsorted(b, a + middle, side="right")
        if int(until.sum()) > rank:
            high, last = middle, until
        else:
            low, first = middle, until
    left = np.concatenate([b[begin:end] - value for value, begin, end in zip(a, first, last, strict=True)])
    return float(np.partition(left, rank - int(first.sum()))[rank - int(first.sum())])
