"""The time windows of a breakdown: the windows of the cycles that were recorded whole, else the whole recording.

Cycles and their windows are determined in one place (``cycles.detection``); this file only selects them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.batches import CALLS
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


def _extent(run: Trace, kinds: Sequence[str]) -> tuple[list[int], list[int]]:
    """First start and last end of the host slices of these kinds, ns, as lists; empty if there are none."""
    bounds = run.host.filter(pl.col("kind").is_in(kinds)).select(
        pl.col("start_ns").min().alias("a"), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("b")
    ).collect(engine="streaming")
    first, last = ([moment] if moment is not None else [] for moment in bounds.row(0))
    return first, last


def of_recording(run: Trace, activities: Activities | None) -> Windows | None:
    """One window around all operators, DataLoader waits and device activities (around the API calls if these are all
    there is); None without timestamps."""
    first, last = _extent(run, ["op", "dataloader"])
    if not first and activities is None:
        first, last = _extent(run, CALLS)
    if activities is not None:
        first.append(int(activities.starts.min()))
        last.append(int(activities.ends.max()))
    if not first or not last:
        return None
    return Windows(np.array([min(first)]), np.array([max(last)]), whole_run=True)
