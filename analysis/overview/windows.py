"""The time windows of a breakdown: the windows of the cycles that were recorded whole, else the whole recording.

Cycles and their windows are determined in one place (``cycles.detection``); this file only selects them.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.intervals import Intervals, Ints, union
from ..cycles.assignment import WINDOW
from .activities import Activities


class Windows(Struct, frozen=True):
    """Windows ``starts[i]..ends[i]`` (ns), sorted; ``contiguous``: no cycle was left out between them. ``whole_run``:
    the single window of a recording without cycles."""

    starts: Ints
    ends: Ints
    contiguous: bool = True
    whole_run: bool = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def length(self) -> int:
        """Total time of the windows, ns."""
        return int((self.ends - self.starts).sum())

    @property
    def time(self) -> Intervals:
        """The time they cover: from first start to last end if contiguous, else the union of the windows."""
        if self.contiguous and len(self):
            return union(self.starts[:1], self.ends[-1:])
        return union(self.starts, self.ends)


class WindowSums(Struct, frozen=True):
    """Windows known only by their number and total time (ns)."""

    count: int
    length: int
    whole_run: bool = False

    def __len__(self) -> int:
        return self.count


def of_cycles(cycles: pl.DataFrame, recorded: bool) -> Windows:
    """The windows of the complete cycles among these cycles of one rank; only ``recorded`` steps may be contiguous."""
    rows = cycles.drop_nulls(WINDOW[0]).sort(WINDOW[0], maintain_order=True)
    whole = rows["complete"].fill_null(True).to_numpy()
    at = np.flatnonzero(whole)
    starts, ends = (rows[name].to_numpy()[at] for name in WINDOW)
    return Windows(starts, ends, recorded and bool((np.diff(at) == 1).all()))


_RECORDER = ("overhead",)
"""Kinds of host slices that the recorder made about itself."""


def _extents(run: Trace) -> list[tuple[int, int]]:
    """First start and last end of host slices, counters and samples of the processor, ns, of each that has times."""
    start, length = pl.col("start_ns"), pl.col("dur_ns")
    bounds = [
        run.host.filter(~pl.col("kind").is_in(_RECORDER)).select(start.min().alias("a"), _last(start, length)),
        run.metrics.select(pl.col("ts_ns").min().alias("a"), _last(pl.col("ts_ns"), length)),
        run.call_chains.select(start.min().alias("a"), _last(start, length)),
    ]
    rows = [rows.collect(engine="streaming").row(0) for rows in bounds]
    return [(first, last) for first, last in rows if first is not None and last is not None]


def _last(start: pl.Expr, length: pl.Expr) -> pl.Expr:
    return pl.max_horizontal((start + length).max(), start.max()).alias("b")


def of_recording(run: Trace, activities: Activities | None) -> Windows | None:
    """One window around everything that was recorded in time; None without timestamps."""
    extents = _extents(run)
    if activities is not None:
        extents.append((int(activities.starts.min()), int(activities.ends.max())))
    if not extents:
        return None
    first, last = min(first for first, _ in extents), max(last for _, last in extents)
    return Windows(np.array([first]), np.array([last]), whole_run=True)
