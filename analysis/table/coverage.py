"""How much of the time the rows of a table stand for: what the state line and every export say of a filtered view.

A view measures time in one column; which one is known by its name. Where none is, there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .column import Column
    from .table import Table

_TIME = ("total_ns", "time_ns", "dur_ns", "device_self_ns", "total_ns_a", "dur_ns_a", "b_ms")


def time_column(columns: Iterable[Column]) -> str | None:
    """The name of the column in which a view measures time; None where none does."""
    names = {column.name for column in columns}
    return next((name for name in _TIME if name in names), None)


def coverage(whole: Table, part: Table) -> float | None:
    """The share of the time of ``whole`` in the rows ``part`` shows, 0-1; None where the view has no time."""
    name = time_column(whole.columns)
    if name is None:
        return None
    if part.rows.on_disk and part.order is whole.order:  # all of it: not worth reading the column for
        return None if whole.rows.blank(name) else 1.0
    everything = whole.total(name)
    return part.total(name) / everything if everything else None
