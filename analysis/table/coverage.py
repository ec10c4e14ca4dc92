"""How much of the time the rows of a table stand for: what the state line and every export say of a filtered view."""

from __future__ import annotations

from .table import Table


def coverage(whole: Table, part: Table) -> float | None:
    """The share of the time of ``whole`` in the rows ``part`` shows, 0-1; None where the view has no time."""
    name = whole.time
    if name is None:
        return None
    if part.rows.on_disk and part.order is whole.order:  # all of it: not worth reading the column for
        return None if whole.rows.blank(name) else 1.0
    everything = whole.total(name)
    return part.total(name) / everything if everything else None
