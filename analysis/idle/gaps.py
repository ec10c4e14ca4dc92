"""The gaps of each device: every interval between its first and last activity in which it ran nothing.

All streams count together. The activity after a gap is the first to start at the gap's end, and the one before it the
last to end at the gap's start.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..core.batches import ids, rows_by_device
from ..core.call_tree import Ints, Mask
from ..core.intervals import Intervals, union
from ..kernels.sources import ACTIVITIES

_PER_GAP = ("starts", "ends", "before", "after", "since", "until")


class DeviceGaps(Struct, frozen=True):
    """One device: its window from first start to last end, and its gaps in order of time. Times are in ns. ``before``
    and ``after``: row of the activity before and after each gap, in the table that was searched, and ``first_row`` and
    ``last_row`` those of the first and last activity. ``since`` and ``until``: when each gap began and ended, for a
    piece of a gap (``within``) those of the gap."""

    device: str | None
    rank: int | None
    begin_ns: int
    window_ns: int
    busy_ns: int
    first_row: int
    last_row: int
    starts: Ints
    ends: Ints
    before: Ints
    after: Ints
    since: Ints
    until: Ints

    def pick(self, some: slice | Ints) -> DeviceGaps:
        """Some of the gaps."""
        return replace(self, **{name: getattr(self, name)[some] for name in _PER_GAP})

    def within(self, starts: Ints, ends: Ints) -> tuple[DeviceGaps, Ints, Ints]:
        """The pieces of the gaps that lie in the windows (ns, sorted, not overlapping), and the index of the window and
        of the gap of each. Gaps without an end or a begin (``with_edges``) count."""
        first = np.searchsorted(self.ends, starts, side="right")
        count = np.maximum(np.searchsorted(self.starts, ends, side="left") - first, 0)
        window = np.repeat(np.arange(len(starts)), count)
        gap = np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count) + first[window]
        pieces = self.pick(gap)
        return replace(
            pieces, starts=np.maximum(pieces.starts, starts[window]), ends=np.minimum(pieces.ends, ends[window])
        ), window, gap

    def with_edges(self, begin: int, end: int) -> DeviceGaps:
        """The gaps, and the time from ``begin`` to the first activity and from the last one to ``end``, as far as there
        is any: a step begins and ends with the host. ``before`` and ``after`` of these edges are the same activity."""
        stop, result = self.begin_ns + self.window_ns, self
        for start, until, row in ((begin, self.begin_ns, self.first_row), (stop, end, self.last_row)):
            if until > start:
                at = 0 if start < self.begin_ns else len(result.starts)
                new = {"starts": start, "ends": until, "before": row, "after": row, "since": start,
                       "until": start}
                result = replace(result, **{name: np.insert(getattr(result, name), at, new[name]) for name in _PER_GAP})
        return result

    @property
    def is_edge(self) -> Mask:
        """Which of the gaps are edges."""
        return (self.starts < self.begin_ns) | self.is_open

    @property
    def is_open(self) -> Mask:
        """Which of them no activity ends."""
        return self.starts >= self.begin_ns + self.window_ns

    def inside(self, windows: Intervals) -> Mask:
        """Which gaps lie entirely in one of the windows."""
        at = np.searchsorted(windows.starts, self.starts, side="right") - 1
        return (at >= 0) & (self.ends <= np.append(windows.ends, 0)[at])

    @property
    def idle_ns(self) -> int:
        """Time in gaps."""
        return self.window_ns - self.busy_ns


def activities_of(run: Trace) -> pl.DataFrame:
    """The device activities with a start and a duration: ``index start_ns dur_ns name device rank``."""
    return _timed(run).collect(engine="streaming")


def activities_around(run: Trace, first: int, last: int) -> pl.DataFrame:
    """``activities_of`` between two moments (ns), plus the last of each device before them and the first after."""
    end, started, every = pl.col("start_ns") + pl.col("dur_ns"), pl.col("start_ns") < last, _timed(run)
    before = every.filter(end <= first).sort(end, maintain_order=True).unique(["rank", "device"], keep="last")
    after = every.filter(~started, end > first).sort("start_ns", maintain_order=True).unique(
        ["rank", "device"], keep="first")
    return pl.concat([before, every.filter(started, end > first), after]).collect(engine="streaming")


def _timed(run: Trace) -> pl.LazyFrame:
    return (
        run.kernels.filter(pl.col("kind").is_in(ACTIVITIES))
        .select("index", "start_ns", "dur_ns", "name", "device", "rank")
        .drop_nulls(["start_ns", "dur_ns"])
    )


def gaps_of(activities: pl.DataFrame) -> list[DeviceGaps]:
    """The gaps of every device of the activities, sorted by rank and device name."""
    groups = rows_by_device(ids(activities["rank"]), ids(activities["device"].to_physical().cast(pl.Int64)))
    starts, ends = activities["start_ns"].to_numpy(), (activities["start_ns"] + activities["dur_ns"]).to_numpy()
    return [_of_device(device, rank, own, starts[own], ends[own]) for device, rank, own in groups]


def _of_device(device: str | None, rank: int | None, rows: Ints, starts: Ints, ends: Ints) -> DeviceGaps:
    busy = union(starts, ends)
    begin, stop = busy.ends[:-1], busy.starts[1:]
    by_start, by_end = np.lexsort((ends, starts)), np.lexsort((starts, ends))
    first = int(busy.starts[0]) if len(busy.starts) else 0
    window = int(busy.ends[-1]) - first if len(busy.starts) else 0
    after = np.searchsorted(starts[by_start], stop, side="left")
    before = np.searchsorted(ends[by_end], begin, side="right") - 1
    return DeviceGaps(
        device, rank, first, window, busy.length, int(rows[by_start[0]]), int(rows[by_end[-1]]), begin, stop,
        rows[by_end[before]], rows[by_start[after]], begin, stop,
    )
