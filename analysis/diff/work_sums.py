"""Device time of both runs summed over their functions, for runs of which only totals are compared."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import units
from .cycle_time import CycleTime
from .device_work import DeviceWork
from .function_change import FunctionChange
from .prepare.samples import HOST
from .same_work import SameWork
from .sentences import line


def work_of_sums(rows: Sequence[FunctionChange], cycles: CycleTime | None = None) -> tuple[DeviceWork, ...]:
    """Device time per device, summed over its functions, and its idle share of the mean cycle if that is known."""
    sums: dict[tuple[str | None, int | None, int | None], tuple[float, float]] = {}
    for row in rows:
        if row.device != HOST:
            key = row.device, row.pid_a, row.pid_b
            a, b = sums.get(key, (0.0, 0.0))
            sums[key] = a + (row.a_ms or 0.0), b + (row.b_ms or 0.0)

    def idle(busy_ms: float, cycle_ms: float | None) -> float | None:
        return 1 - busy_ms / cycle_ms if cycle_ms and 0 <= busy_ms <= cycle_ms else None

    mean_a, mean_b = (cycles.mean_a_ms, cycles.mean_b_ms) if cycles else (None, None)
    return tuple(DeviceWork(*key, a, b, idle_a=idle(a, mean_a), idle_b=idle(b, mean_b)) for key, (a, b) in sums.items())


def total_line(rows: Sequence[FunctionChange], same: SameWork, by_step: bool = False) -> str:
    """One line with the device time of both runs, ``by_step`` of what was launched in one, and what ``same`` says of
    the work they do."""
    a, b = sum(row.a_ms or 0.0 for row in rows), sum(row.b_ms or 0.0 for row in rows)
    if not_timed := [
        run for run, side in (("A", "a_ms"), ("B", "b_ms")) if all(getattr(row, side) is None for row in rows)
    ]:
        return line("GPU", f"durations are not recorded in {' and '.join(not_timed)}")
    text = f"{units.amount(a, b)} of device time{' launched per step' if by_step else ''}"
    text += {"yes": " for the same work", "no": ", different work"}.get(same.answer, "")
    if a and same.proved:
        text += f" ({units.percent(100 * (b / a - 1), signed=True)})"
    return line("GPU", text)
