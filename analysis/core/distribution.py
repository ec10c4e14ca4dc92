"""A set of durations as a reader needs it: its centre, its spread, its stragglers and its shape.

Plain numpy, so that asking costs nothing. Outliers are Tukey's (beyond the upper quartile plus one and a half times the
interquartile range) and at least a twentieth above the median, since among very regular cycles a microsecond is no
outlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Durations = np.ndarray[Any, np.dtype[np.float64]]
LEAST_FOR_OUTLIERS = 4  # With fewer values nothing can stand out.
LEAST_EXCESS = 0.05
THINNED = 4_096  # Numbers in order that are enough to choose the bins by.


def fence(values: Durations) -> float:
    """Above this a value is an outlier; infinite for too few values."""
    if len(values) < LEAST_FOR_OUTLIERS:
        return float("inf")
    low, middle, high = _quartiles(values)
    return float(max(high + 1.5 * (high - low), middle * (1 + LEAST_EXCESS)))


def _quartiles(values: Durations) -> Durations:
    """As ``np.quantile`` has them, which imports all of ``numpy.ma`` first: 25 ms of what people wait for."""
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
    """Shared bins over all sides: ``edges_ns`` (one more than bins) and per side the counts (``a``, ``b``). The bins
    are as wide as the Freedman-Diaconis rule says for all values together, between 1 and 24 of them."""
    return sorted_histogram(*map(np.sort, sides))


def sorted_histogram(*sides: Any) -> dict[str, Any]:
    """The histogram of numbers that are in order: exact counts in about 50 µs however many there are. Of more than
    ``THINNED`` numbers the width of the bins goes by every so many of them."""
    count = sum(map(len, sides))
    step = -(-count // THINNED) or 1
    ends = [values[at] for values in sides if len(values) for at in (0, -1)]
    together = np.concatenate([*(values[::step] for values in sides), ends]) if count else np.empty(0)
    if not len(together):
        return {"edges_ns": [], **{name: [] for name, _ in zip("ab", sides, strict=False)}}
    edges = _edges(together.astype(np.float64), count)
    made: dict[str, Any] = {"edges_ns": edges.tolist()}
    for name, values in zip("ab", sides, strict=False):
        # of whole numbers those from an edge on are those from the next whole number on
        inner = np.ceil(edges[1:-1]).astype(values.dtype) if values.dtype.kind in "iu" else edges[1:-1]
        places = [0, *np.searchsorted(values, inner, side="left"), len(values)]
        made[name] = np.diff(places).tolist()
    return made


def _edges(together: Durations, count: int) -> Durations:
    low, high = float(together.min()), float(together.max())
    quarter, _, three_quarters = _quartiles(together)
    width = 2 * (three_quarters - quarter) / np.cbrt(count)
    bins = 1 if high == low else int(np.clip(np.ceil((high - low) / width), 4, 24)) if width > 0 else 12
    return np.linspace(low, high if high > low else low + 1, bins + 1)
