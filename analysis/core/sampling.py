"""What a counter read while something ran: the mean and spread of its samples during each of many intervals.

One binary search per interval and prefix sums over the samples, so a million intervals cost a fraction of a second
per counter; variances are good to a billionth of the square of what the counter ranges over. An interval with fewer
than three samples inside takes the values interpolated linearly at its two ends instead. Beyond its first and last
sample a counter is held for one sampling interval and unknown after that: what nobody measured is not a number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Times = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
ENOUGH = 3
"""Samples inside an interval that make their mean its value."""


class During(NamedTuple):
    """Per interval: mean and variance of the counter (NaN where unknown), and whether they were interpolated."""

    mean: Floats
    variance: Floats
    interpolated: Flags


def during(times: Times, values: Floats, starts: Times, ends: Times) -> During:
    """The counter (samples ``values`` at ``times``, in order of time) during each interval, both ends included."""
    first = np.searchsorted(times, starts, side="left")
    last = np.searchsorted(times, ends, side="right")
    count = last - first
    centre = float(values[0])  # an offset that keeps the sums small, and a constant counter exact
    sums, squares = (np.concatenate(([0.0], np.cumsum((values - centre) ** power))) for power in (1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = (sums[last] - sums[first]) / count
        spread = np.maximum((squares[last] - squares[first]) / count - inside**2, 0.0)
    at_start, at_end = _at(times, values, starts), _at(times, values, ends)
    at_start = np.where(np.isnan(at_start), at_end, at_start)
    at_end = np.where(np.isnan(at_end), at_start, at_end)
    few = count < ENOUGH
    mean = np.where(few, (at_start + at_end) / 2, inside + centre)
    return During(mean, np.where(few, ((at_end - at_start) / 2) ** 2, spread), few)


def _at(times: Times, values: Floats, moments: Times) -> Floats:
    hold = int(np.median(np.diff(times))) if len(times) > 1 else 0
    # relative to the first sample: absolute nanoseconds do not fit the 53 bits np.interp computes with
    read: Floats = np.interp(moments - times[0], times - times[0], values)
    return np.where((moments < times[0] - hold) | (moments > times[-1] + hold), np.nan, read)
