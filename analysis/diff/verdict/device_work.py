"""What each device did per cycle, and whether anybody waited for it.

A device that works longer in a cycle that takes no longer is hidden behind the host; one that works longer while the
cycle grows by as much is on the path. In between nothing is claimed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..prepare.samples import Matched, Side
from ..stats.robust_location import Floats, centre, shift

CHANGED = 0.03
"""Work per cycle or per launch that changed by less than this share is called unchanged."""


def device_work(matched: list[Matched], cycles: dict[str, Any]) -> list[dict[str, Any]]:
    """Per process pair and device: busy time per cycle, launches, idle share, change with interval, and ``path``."""
    found = []
    for one in matched:
        names = one.functions["device"]
        for device in names.filter((names != "Host").fill_null(True)).unique(maintain_order=True):
            rows = (names.is_null() if device is None else names == device).fill_null(False).to_numpy()
            described = _described(one, rows)
            if described is not None:
                found.append({"device": device, "pid_a": one.pair.a, "pid_b": one.pair.b} | described)
    for row in found:
        row["path"] = _path(row, cycles)
    return found


def _described(one: Matched, rows: Any) -> dict[str, Any] | None:
    kinds = np.array(one.functions["kind"].to_list(), dtype=object)
    work, waits = rows & (kinds != "collective"), rows & (kinds == "collective")
    a, b = (_busy(side, work) for side in (one.a, one.b))
    if not len(a) or not len(b):
        return None
    busy_a, busy_b = float(centre(a)), float(centre(b))
    low = high = None
    if min(len(a), len(b)) > 1 and min(a.min(), b.min()) > 0:
        moved = shift(np.log(a)[None, :], np.log(b)[None, :], float(np.log(a).var()))
        margin = 2.2 * float(moved.error[0])
        low, high = (busy_a * float(np.expm1(moved.delta[0] + way * margin)) for way in (-1, 1))
    launches = [float(centre(side.launches[work].sum(axis=0)[_known(side, work)])) for side in (one.a, one.b)]
    together = [float(centre(_busy(side, rows))) for side in (one.a, one.b)]
    cycle = [float(np.median(side.cycle_ms)) for side in (one.a, one.b)]
    idle = [1 - busy / length if busy <= length else None for busy, length in zip(together, cycle, strict=True)]
    communication = [float(centre(_busy(side, waits))) if waits.any() else 0.0 for side in (one.a, one.b)]
    return {
        "busy_a_ms": busy_a, "busy_b_ms": busy_b, "ratio": busy_b / busy_a if busy_a else None,
        "delta_ms": busy_b - busy_a, "ci_low_ms": low, "ci_high_ms": high, "launches_a": launches[0],
        "launches_b": launches[1], "per_launch_ratio": _per_launch(busy_a, busy_b, launches),
        "communication_a_ms": communication[0], "communication_b_ms": communication[1],
        "idle_a": idle[0], "idle_b": idle[1],
    }


def _per_launch(busy_a: float, busy_b: float, launches: list[float]) -> float | None:
    return (busy_b / launches[1]) / (busy_a / launches[0]) if busy_a and launches[0] and launches[1] else None


def _known(side: Side, rows: Any) -> Any:
    return ~np.isnan(side.ms[rows]).any(axis=0)


def _busy(side: Side, rows: Any) -> Floats:
    known: Floats = side.ms[rows].sum(axis=0)[_known(side, rows)]
    return known


def _path(row: dict[str, Any], cycles: dict[str, Any]) -> str | None:
    """'exposed', 'hidden', or None where it cannot be known from cycle and device times."""
    low, high = row["ci_low_ms"], row["ci_high_ms"]
    shift_low, shift_high = cycles["ci_low_ms"], cycles["ci_high_ms"]
    if low is None or shift_low is None or low <= 0:
        return None
    if max(0.0, shift_high) < 0.5 * low and row["idle_b"] is not None and row["idle_b"] > 0.05:
        return "hidden"
    if shift_low >= 0.5 * high:
        return "exposed" if shift_high <= 2 * high else None
    return None
