"""The reference comparison of two sets of samples, exactly as its authors' tool computes it.

Suspicion is |Δβ| · (|Z(β)| + |Z(log μ)|) with Δ = mean(B) - mean(A), Z(x) = Δ / sample standard deviation of A (0 where
that is at most 1e-9) and log μ = ln(1 + μ). Its faults are known: a baseline without spread scores 0, a tiny spread
explodes, no sign, one function fills the list once per metric. Users know it; the answer is the verdict of the diff.

All groups are computed at once. U tests match ``scipy.stats.mannwhitneyu(a, b, method="auto")``: exact if a group has
no ties and a side has at most eight samples, else normal with tie and continuity correction. Importing ``scipy.stats``
would take most of a second.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...loaders.schema import NAME

Floats = NDArray[np.float64]
KEYS = ("function", "metric", "device")
NUMBERS = (
    "suspicion", "beta_a", "beta_b", "delta_beta", "z_beta", "p_beta", "u_beta",
    "mu_a", "mu_b", "delta_mu", "z_mu", "z_log_mu", "p_mu", "u_mu",
)
LEAST_CYCLES = 2  # Distinct cycles each side needs for p-values; with fewer on either side all p-values are 1.
_TOGETHER = 500_000  # Samples compared at once; triplets are independent of each other.
FLAT = 1e-9  # A standard deviation at most this counts as none (absolute for Z, relative to the values for p).


def compare(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """One row per (function, metric, device) of either side with the columns of ``NUMBERS``, most suspicious first.
    ``a`` and ``b`` hold one sample per row: ``function metric device cycle beta mu``. A missing μ counts as 0, as does
    every value of a side that lacks the triplet. p is null only if both sides are flat and equal."""
    # joins on categoricals compare integers
    names = pl.concat([side.select(pl.col(KEYS).cast(NAME)).unique(maintain_order=True) for side in (a, b)])
    keys = names.unique(maintain_order=True)
    if keys.is_empty():
        return keys.with_columns(pl.lit(None, pl.Float64).alias(name) for name in NUMBERS)
    step = -(-keys.height // max(1, (a.height + b.height) // _TOGETHER))
    table = pl.concat([_compared(a, b, some) for some in keys.iter_slices(step)])
    return table.sort("suspicion", descending=True, maintain_order=True)


def _compared(a: pl.DataFrame, b: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``compare`` for these keys, in the order of the keys."""
    rows = pl.concat([_of(a, keys, False), _of(b, keys, True)], how="vertical_relaxed")
    groups = keys.height
    group = rows["group"].to_numpy().astype(np.intp)
    in_b = rows["in_b"].to_numpy()
    counted = rows.group_by("group", "in_b").agg(pl.col("cycle").n_unique().alias("n"))
    sides = []
    for side in (False, True):
        n: Floats = np.zeros(groups)
        here = counted.filter(pl.col("in_b") == side)
        n[here["group"].to_numpy()] = here["n"].to_numpy()
        sides.append(n)
    cycles = sides[0], sides[1]
    beta, mu = rows["beta"].to_numpy(), rows["mu"].to_numpy()
    log_mu = np.log1p(np.maximum(mu, -1 + 1e-15))
    shares, values, logs = (_Samples(group, in_b, x, groups) for x in (beta, mu, log_mu))
    few = (cycles[0] < LEAST_CYCLES) | (cycles[1] < LEAST_CYCLES)
    suspicion = np.abs(shares.delta) * (np.abs(shares.z()) + np.abs(logs.z()))
    numbers: dict[str, Floats] = {
        "suspicion": suspicion,
        "beta_a": shares.mean[0], "beta_b": shares.mean[1], "delta_beta": shares.delta, "z_beta": shares.z(),
        "p_beta": np.where(few, 1.0, shares.welch(cycles)),
        "u_beta": np.where(few, 1.0, u_test(group, in_b, beta, groups)),
        "mu_a": values.mean[0], "mu_b": values.mean[1], "delta_mu": values.delta, "z_mu": values.z(),
        "z_log_mu": logs.z(), "p_mu": np.where(few, 1.0, values.welch(cycles)),
        "u_mu": np.where(few, 1.0, u_test(group, in_b, mu, groups)),
    }
    return keys.with_columns(pl.Series(name, numbers[name], nan_to_null=True) for name in NUMBERS)


def _of(side: pl.DataFrame, keys: pl.DataFrame, in_b: bool) -> pl.DataFrame:
    """``group cycle beta mu in_b`` of a side's samples with these keys."""
    samples = side.select(pl.col(KEYS).cast(NAME), "cycle", "beta", "mu")
    result = samples.join(keys.with_row_index("group"), on=KEYS, nulls_equal=True, maintain_order="left")
    values = pl.col("beta", "mu").cast(pl.Float64).fill_nan(None).fill_null(0.0)
    return result.select("group", "cycle", values, in_b=pl.lit(in_b))


class _Samples:
    """Mean and sample standard deviation of each group on each side."""

    def __init__(self, group: NDArray[np.intp], in_b: NDArray[np.bool_], value: Floats, groups: int) -> None:
        self.mean: list[Floats] = []
        self.deviation: list[Floats] = []
        for side in (~in_b, in_b):
            g, x = group[side], value[side]
            n = np.bincount(g, minlength=groups)
            mean = np.bincount(g, weights=x, minlength=groups) / np.maximum(n, 1)
            squares = np.bincount(g, weights=(x - mean[g]) ** 2, minlength=groups)
            self.mean.append(mean)
            self.deviation.append(np.sqrt(squares / np.maximum(n - 1, 1)))
        self.delta: Floats = self.mean[1] - self.mean[0]

    def z(self) -> Floats:
        spread = self.deviation[0]
        return np.where(spread > FLAT, self.delta / np.where(spread > FLAT, spread, 1.0), 0.0)

    def welch(self, cycles: tuple[Floats, Floats]) -> Floats:
        """Welch's t p-value from the summaries; NaN only where both sides are flat and equal."""
        from scipy.special import stdtr

        size = np.maximum(np.abs(self.mean[0]), np.abs(self.mean[1]))
        flat = (self.deviation[0] <= FLAT * size) & (self.deviation[1] <= FLAT * size)
        equal = np.abs(self.delta) <= FLAT * size
        n_a, n_b = (np.maximum(n, 1) for n in cycles)
        v_a, v_b = self.deviation[0] ** 2 / n_a, self.deviation[1] ** 2 / n_b
        with np.errstate(divide="ignore", invalid="ignore"):
            t = self.delta / np.sqrt(v_a + v_b)
            freedom = (v_a + v_b) ** 2 / (v_a**2 / np.maximum(n_a - 1, 1) + v_b**2 / np.maximum(n_b - 1, 1))
            p: Floats = 2 * stdtr(freedom, -np.abs(t))
        return np.where(flat, np.where(equal, np.nan, 0.0), p)


EXACT_UP_TO = 8  # Most samples of the smaller side for which SciPy's automatic method is exact.


def u_test(group: NDArray[np.intp], in_b: NDArray[np.bool_], value: Floats, groups: int) -> Floats:
    """The p-value of each group; 1 if a side has no samples. Per value, ``group`` is its group (0 to groups-1) and
    ``in_b`` whether it is from B."""
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
