"""Two-sided Mann-Whitney U p-values for many groups of samples at once.

The same numbers as ``scipy.stats.mannwhitneyu(a, b, method="auto")`` gives group by group: the exact distribution of U
where a group has no ties and a side of at most eight samples, else the normal approximation with tie and continuity
correction. One sort ranks every group, so a thousand groups cost about what one does, and ``scipy.stats`` (most of a
second to import) stays out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EXACT_UP_TO = 8
"""Samples of the smaller side up to which SciPy's automatic method counts arrangements."""


def u_test(group: NDArray[np.intp], in_b: NDArray[np.bool_], value: Floats, groups: int) -> Floats:
    """The p-value of each group; 1 where a side has no samples.

    ``group`` numbers the group each value belongs to (0 to groups-1), ``in_b`` says which side it is of.
    """
    n_a = np.bincount(group[~in_b], minlength=groups).astype(np.float64)
    n_b = np.bincount(group[in_b], minlength=groups).astype(np.float64)
    ranks, ties = _ranks(group, value, groups)
    rank_sum = np.bincount(group[~in_b], weights=ranks[~in_b], minlength=groups)
    u_a = rank_sum - n_a * (n_a + 1) / 2
    u = np.maximum(u_a, n_a * n_b - u_a)
    p = _asymptotic(u, n_a, n_b, ties)
    small = (np.minimum(n_a, n_b) <= EXACT_UP_TO) & (np.minimum(n_a, n_b) > 0) & (ties == 0)
    for i in np.flatnonzero(small):
        p[i] = 2 * _upper_tail(int(n_a[i]), int(n_b[i]))[int(u[i])]
    p[(n_a == 0) | (n_b == 0)] = 1.0
    return np.minimum(p, 1.0)


def _ranks(group: NDArray[np.intp], value: Floats, groups: int) -> tuple[Floats, Floats]:
    """Mean ranks within each group (from 1), and each group's sum of t³ - t over its runs of equal values."""
    size = len(value)
    ranks: Floats = np.empty(size)
    if size == 0:
        return ranks, np.zeros(groups)
    order = np.argsort(value)
    # 16-bit keys are sorted by radix: four times as fast as sorting by both at once
    narrow = group[order].astype(np.uint16) if groups <= 1 << 16 else group[order]
    order = order[np.argsort(narrow, kind="stable")]
    g, v = group[order], value[order]
    new_group = np.r_[True, g[1:] != g[:-1]]
    first_of_run = np.flatnonzero(new_group | np.r_[True, v[1:] != v[:-1]])
    length = np.diff(np.r_[first_of_run, size])
    group_start = np.maximum.accumulate(np.where(new_group, np.arange(size), 0))[first_of_run]
    mean_rank = first_of_run - group_start + (length + 1) / 2
    ranks[order] = np.repeat(mean_rank, length)
    weight = length.astype(np.float64)
    ties = np.bincount(g[first_of_run], weights=weight**3 - weight, minlength=groups).astype(np.float64)
    return ranks, ties


def _asymptotic(u: Floats, n_a: Floats, n_b: Floats, ties: Floats) -> Floats:
    from scipy.special import ndtr

    n = n_a + n_b
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(n_a * n_b / 12 * (n + 1 - ties / (n * (n - 1))))
        z = (u - n_a * n_b / 2 - 0.5) / deviation
        # all values equal: nothing can be more extreme than what was seen
        z = np.where(deviation > 0, z, -np.inf)
        p: Floats = 2 * ndtr(-z)
    return p


@lru_cache(maxsize=4096)
def _upper_tail(n_a: int, n_b: int) -> Any:
    """P(U ≥ u) for u = 0 … n_a·n_b when both sides come from one distribution and nothing ties.

    The number of arrangements with U = u is the coefficient of q^u in the Gaussian binomial (n_a+n_b over n_a), built
    factor by factor: times (1 - q^(n_b+i)), divided by (1 - q^i), for i up to the smaller side. Scaling each factor by
    its value at q = 1 keeps the numbers near one.
    """
    few, many = min(n_a, n_b), max(n_a, n_b)
    density: Floats = np.zeros(few * many + 1)
    density[0] = 1.0
    for i in range(1, few + 1):
        shift = many + i
        if shift < len(density):
            density[shift:] = density[shift:] - density[:-shift]
        rows = -(-len(density) // i) * i
        padded = np.zeros(rows)
        padded[: len(density)] = density
        density = np.cumsum(padded.reshape(-1, i), axis=0).reshape(-1)[: len(density)] * (i / shift)
    density = np.maximum(density, 0.0)
    half = (len(density) + 1) // 2
    # the distribution is symmetric, and the lower half has not yet been touched by cancellation
    density[-half:] = density[:half][::-1]
    tail: Floats = np.cumsum(density[::-1])[::-1] / density.sum()
    return tail
