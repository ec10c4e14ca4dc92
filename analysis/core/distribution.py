"""Statistics of a set of durations: centre, spread, outliers and histogram.

Plain numpy, so that it costs next to nothing. Outliers are Tukey's (beyond the upper quartile plus 1.5 times the
interquartile range) and at least 5% above the median, since among very regular cycles a microsecond is no
outlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Durations = np.ndarray[Any, np.dtype[np.float64]]
LEAST_FOR_OUTLIERS = 4  # With fewer values nothing can be an outlier.
LEAST_EXCESS = 0.05
THINNED = 4_096  # Sorted values that are enough to choose the bins.


def fence(values: Durations) -> float:
    """The threshold above which a value is an outlier; infinite if there are too few values."""
    if len(values) < LEAST_FOR_OUTLIERS:
        return float("inf")
    low, middle, high = _quartiles(values)
    return float(max(high + 1.5 * (high - low), middle * (1 + LEAST_EXCESS)))


def _quartiles(values: Durations) -> Durations:
    """Like ``np.quantile``, which first imports all of ``numpy.ma``: 25 ms that the user would wait."""
    ordered = np.sort(values)
    places = np.array((0.25, 0.5, 0.75)) * (len(ordered) - 1)
    result: Durations = np.interp(places, np.arange(len(ordered)), ordered)
    return result


def statistics(values: Durations) -> dict[str, Any]:
    """``n``, ``outliers`` and in µs ``mean_us median_us std_us min_us max_us p99_us`` (nearest rank; std with n−1)."""
    if not len(values):
        return {"n": 0}
    ordered = np.sort(values)
    return {
        "n": len(values),
        "mean_us": round(float(values.mean()) / 1e3, 6),
        "median_us": float(np.median(values)) / 1e3,
        "std_us": float(values.std(ddof=1)) / 1e3 if len(values) > 1 else None,
        "min_us": float(ordered[0]) / 1e3,
        "max_us": float(ordered[-1]) / 1e3,
        "p99_us": float(ordered[int(np.ceil(0.99 * len(ordered))) - 1]) / 1e3,
        "outliers": int((values > fence(values)).sum()),
    }


def histogram(*sides: Durations) -> dict[str, Any]:
    """Bins shared by all sides: ``edges_ns`` (one more than bins) and counts per side (``a``, ``b``). Bin width follows
    the Freedman-Diaconis rule over all values; 4 to 24 bins, 1 if all values are equal."""
    return sorted_histogram(*map(np.sort, sides))


def sorted_histogram(*sides: Any) -> dict[str, Any]:
    """The histogram of sorted values: exact counts in about 50 µs regardless of size. Above ``THINNED`` values the bin
    width is estimated from every n-th value."""
    count = sum(map(len, sides))
    step = -(-count // THINNED) or 1
    ends = [values[at] for values in sides if len(values) for at in (0, -1)]
    together = np.concatenate([*(values[::step] for values in sides), ends]) if count else np.empty(0)
    if not len(together):
        return {"edges_ns": [], **{name: [] for name, _ in zip("ab", sides, strict=False)}}
    edges = _edges(together.astype(np.float64), count)
    result: dict[str, Any] = {"edges_ns": edges.tolist()}
    for name, values in zip("ab", sides, strict=False):
        # integers at or above an edge are those at or above the next integer
        inner = np.ceil(edges[1:-1]).astype(values.dtype) if values.dtype.kind in "iu" else edges[1:-1]
        places = [0, *np.searchsorted(values, inner, side="left"), len(values)]
        result[name] = np.diff(places).tolist()
    return result


def _edges(together: Durations, count: int) -> Durations:
    low, high = float(together.min()), float(together.max())
    quarter, _, three_quarters = _quartiles(together)
    width = 2 * (three_quarters - quarter) / np.cbrt(count)
    bins = 1 if high == low else int(np.clip(np.ceil((high - low) / width), 4, 24)) if width > 0 else 12
    return np.linspace(low, high if high > low else low + 1, bins + 1)
