"""How much of the time the rows of a table stand for: what the state line and every export say of a filtered view.

A view measures time in one column; which one is known by its name. Where none is, there is nothing to say.
"""

from __future__ import annotations

from .table import Table

_TIME = ("total_ns", "time_ns", "dur_ns", "device_self_ns", "total_ns_a", "dur_ns_a", "b_ms")


def coverage(whole: Table, part: Table) -> float | None:
    """The share of the time of ``whole`` in the rows ``part`` shows, 0-1; None where the view has no time."""
    names = {column.name for column in whole.columns}
    name = next((name for name in _TIME if name in names), None)
    if name is None:
        return None
    everything = whole.total(name)
    return part.total(name) / everything if everything else None
