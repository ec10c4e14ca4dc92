"""The reference comparison of two sets of samples, exactly as its authors' tool gives it.

Suspicion is |Δβ| · (|Z(β)| + |Z(log μ)|) with Δ = mean(B) - mean(A), Z(x) = Δ / sample standard deviation of A (0 where
that is at most 1e-9) and log μ = ln(1 + μ). Its faults are known: a baseline without spread scores 0, a tiny spread
explodes, no sign, one function fills the list once per metric. It stays because people know it; the verdict of the diff
view is the answer. All groups are computed at once: no loop over triplets.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ....loaders.schema import NAME
from .mann_whitney import u_test

Floats = NDArray[np.float64]
KEYS = ("function", "metric", "device")
NUMBERS = (
    "suspicion", "beta_a", "beta_b", "delta_beta", "z_beta", "p_beta", "u_beta",
    "mu_a", "mu_b", "delta_mu", "z_mu", "z_log_mu", "p_mu", "u_mu",
)
LEAST_CYCLES = 2
"""Distinct cycles a side needs for any p-value; with fewer on either side all of them are 1."""
_TOGETHER = 500_000
"""Samples that are compared at once; triplets have nothing to do with each other."""
FLAT = 1e-9
"""A standard deviation at most this counts as none (absolute for Z, relative to the values for p)."""


def compare(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """One row per (function, metric, device) of either side with the columns of ``NUMBERS``, most suspicious first.

    ``a`` and ``b`` hold one sample a row: ``function metric device cycle beta mu``. A missing μ counts as 0, as does
    everything of a side that lacks the triplet. p is null only where both sides are flat and equal.
    """
    # joining on categories is joining on numbers
    names = pl.concat([side.select(pl.col(KEYS).cast(NAME)).unique(maintain_order=True) for side in (a, b)])
    keys = names.unique(maintain_order=True)
    if keys.is_empty():
        return keys.with_columns(pl.lit(None, pl.Float64).alias(name) for name in NUMBERS)
    step = -(-keys.height // max(1, (a.height + b.height) // _TOGETHER))
    table = pl.concat([_compared(a, b, some) for some in keys.iter_slices(step)])
    return table.sort("suspicion", descending=True, maintain_order=True)


def _compared(a: pl.DataFrame, b: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``compare`` for those ``KEYS``, in their order."""
    rows = pl.concat([_of(a, keys, False), _of(b, keys, True)], how="vertical_relaxed")
    groups = keys.height
    group = rows["group"].to_numpy().astype(np.intp)
    in_b = rows["in_b"].to_numpy()
    cycles = _distinct_cycles(rows, groups)
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
    """``group cycle beta mu in_b`` of the samples of a side that are of those ``KEYS``."""
    samples = side.select(pl.col(KEYS).cast(NAME), "cycle", "beta", "mu")
    found = samples.join(keys.with_row_index("group"), on=KEYS, nulls_equal=True, maintain_order="left")
    known = pl.col("beta", "mu").cast(pl.Float64).fill_nan(None).fill_null(0.0)
    return found.select("group", "cycle", known, in_b=pl.lit(in_b))


def _distinct_cycles(rows: pl.DataFrame, groups: int) -> tuple[Floats, Floats]:
    counted = rows.group_by("group", "in_b").agg(pl.col("cycle").n_unique().alias("n"))
    sides = []
    for side in (False, True):
        n: Floats = np.zeros(groups)
        here = counted.filter(pl.col("in_b") == side)
        n[here["group"].to_numpy()] = here["n"].to_numpy()
        sides.append(n)
    return sides[0], sides[1]


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
