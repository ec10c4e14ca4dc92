"""Did the cycle get slower at all? The shift with its interval, the spread, and the odd cycles with what is odd.

The shift is Hodges and Lehmann's: half the pairs of cycles differ by more. A few slow cycles among many hardly move it,
and they are named instead: "two slow ones" is another answer than "all of them a little".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.distribution import fence
from ..prepare.samples import Matched, Side
from ..stats.robust_location import Floats, hodges_lehmann

LEAST_SHIFT = 0.01
"""A shift below this share of the cycle is called unchanged however sure it is."""
CLEAR = 0.1
"""An interval around zero wider than this share of the cycle shows nothing."""
LARGE_PART = 0.25
"""Share of a slow cycle's excess that host or device time must make up to be named."""
HOST_BUSY = ("oncpu", "sched")


def cycle_time(matched: list[Matched]) -> dict[str, Any]:
    """Medians, means, shift with interval, spread, outliers of the first process pair, ms; ``others`` that differ."""
    described = [_described(one) for one in matched]
    first = described[0]
    others = [other for other in described[1:] if other["shift_ms"] != first["shift_ms"]]
    return first | ({"others": others} if others else {})


def _described(one: Matched) -> dict[str, Any]:
    a, b = one.a.cycle_ms, one.b.cycle_ms
    middle, low, high = hodges_lehmann(a, b)
    base = float(np.median(a))
    known = np.isfinite(low)
    return {
        "verdict": called(a, b, middle, low, high), "pid_a": one.pair.a, "pid_b": one.pair.b,
        "cycles_a": len(a), "cycles_b": len(b), "mean_a_ms": float(a.mean()), "mean_b_ms": float(b.mean()),
        "median_a_ms": base, "median_b_ms": float(np.median(b)), "shift_ms": middle,
        "ci_low_ms": low if known else None, "ci_high_ms": high if known else None,
        "spread_a_ms": spread(a), "spread_b_ms": spread(b),
        "outliers": [*_outliers("A", one.a, one), *_outliers("B", one.b, one)],
    }


def called(a: Floats, b: Floats, middle: float, low: float, high: float) -> str:
    """'slower', 'faster', 'unchanged' or 'cannot tell'."""
    base = float(np.median(a))
    if not np.isfinite(low):
        if len(a) > 1 and len(b) > 1 and b.min() > a.max() * 1.1:
            return "slower"
        if len(a) > 1 and len(b) > 1 and a.min() > b.max() * 1.1:
            return "faster"
        return "cannot tell"
    if low <= 0 <= high:
        return "unchanged" if (high - low) / 2 <= CLEAR * base else "cannot tell"
    if abs(middle) < LEAST_SHIFT * base:
        return "unchanged"
    return "slower" if middle > 0 else "faster"


def spread(values: Floats) -> float:
    """1.48 times the median distance from the median: a standard deviation that outliers do not blow up."""
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def host_busy(one: Matched, side: Side) -> Floats | None:
    """Time on processors per cycle, ms: what the scheduler saw, else the host functions; None without either."""
    kinds = one.functions["kind"].to_list()
    rows = [i for i, kind in enumerate(kinds) if kind in HOST_BUSY] or list(np.flatnonzero(~one.on_device))
    return np.nansum(side.ms[rows], axis=0) if rows else None


def device_busy(one: Matched, side: Side) -> Floats | None:
    """Summed device time per cycle, ms, NaN where not recorded whole; None without a device."""
    rows = one.on_device
    return side.ms[rows].sum(axis=0) if rows.any() else None


def _outliers(run: str, side: Side, one: Matched) -> list[dict[str, Any]]:
    slow = side.cycle_ms > fence(side.cycle_ms)
    if not slow.any():
        return []
    usual = float(np.median(side.cycle_ms[~slow]))
    found = []
    for i in np.flatnonzero(slow):
        excess = float(side.cycle_ms[i]) - usual
        parts = {}
        for name, values in (("host", host_busy(one, side)), ("device", device_busy(one, side))):
            more = _more(values, int(i), slow)
            parts[name] = None if more is None else round(more, 6)
        special = [name for name, more in parts.items() if more is not None and more >= LARGE_PART * excess]
        found.append({
            "run": run, "cycle": int(side.cycles[i]), "ms": float(side.cycle_ms[i]), "excess_ms": excess,
            "more_host_ms": parts["host"], "more_device_ms": parts["device"], "special": special or ["idle"],
        })
    return found


def _more(values: Floats | None, at: int, slow: Any) -> float | None:
    """How much more than in the usual cycles; None where not known."""
    if values is None or np.isnan(values[at]) or np.isnan(values[~slow]).all():
        return None
    return float(values[at] - np.nanmedian(values[~slow]))
