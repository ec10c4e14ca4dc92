"""The windows of time in which a run's steps happen, on host and device together.

A step begins where the host begins it, or where the step before has ended; it ends when the host ends it or the last
device activity launched in it does, whichever is later. That is torch_tb_profiler's rule, and so is leaving out steps
at the end whose kernels the recorder did not get to see. Without steps the whole recording is one.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..core.intervals import Intervals, Ints, union
from ..core.launch_calls import Calls, match
from ..core.options import Options
from ..overview.activities import Activities, Mask
from .account import find_cycles

SEEN_WHOLE = 0.8
"""A last step with less than this share of the activities of the one before it was not recorded whole."""


class Steps(Struct, frozen=True):
    """Windows ``starts[i]..ends[i]`` (ns) in order, the ``cycle`` number and label of each, and what was left out."""

    starts: Ints
    ends: Ints
    cycle: tuple[int, ...]
    labels: tuple[str, ...]
    source: str
    left_out: int = 0
    contiguous: bool = True
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def window(self) -> Intervals:
        """The time the steps stand for: from the first to the last where they follow each other, else their own."""
        if self.contiguous and len(self):
            return union(self.starts[:1], self.ends[-1:])
        return union(self.starts, self.ends)

    def only(self, cycle: int) -> Steps:
        """The one step of that cycle number; no step where it is none of these."""
        keep = np.array([number == cycle for number in self.cycle], dtype=bool)
        return self._keep(keep, 0)

    def without(self, cycles: tuple[int, ...]) -> Steps:
        """The other steps; those taken out count as left out."""
        keep = np.array([number not in cycles for number in self.cycle], dtype=bool)
        return self._keep(keep, self.left_out + int((~keep).sum()))

    def _keep(self, keep: Mask, left_out: int) -> Steps:
        at = np.flatnonzero(keep)
        together = self.contiguous and bool((np.diff(at) == 1).all())
        return Steps(
            self.starts[at], self.ends[at], tuple(self.cycle[i] for i in at), tuple(self.labels[i] for i in at),
            self.source, left_out, together, self.notes,
        )


def steps_of(run: Trace, activities: Activities | None, calls: Calls, options: Options) -> Steps | None:
    """The run's steps by its cycles, else the whole recording; None where nothing has a time."""
    cycles = find_cycles(run, options)
    rows = cycles.frame.drop_nulls(["start_ns", "dur_ns"])
    if not options.warm_up:
        rows = rows.filter(~pl.col("warm_up"))
    rows = rows.sort("start_ns")
    if rows.is_empty():
        steps = _whole(run, activities)
        return None if steps is None else _with_device_time(steps, activities, calls)
    starts = rows["start_ns"].to_numpy()
    labels = tuple(rows["label"].cast(pl.String).fill_null("").to_list())
    source = cycles.source or "recorded"
    seen = rows["complete"].fill_null(True).to_numpy()
    steps = Steps(
        starts, starts + rows["dur_ns"].to_numpy(), tuple(rows["cycle"].to_list()), labels, source,
        contiguous=source == "recorded", notes=cycles.notes,
    )
    if not cycles.device_time:
        steps = _with_device_time(steps, activities, calls)
    if source != "recorded" and activities is not None and seen.any():
        steps = steps.without(tuple(rows["cycle"].filter(~pl.Series(seen))))
    if source == "recorded" or options.cycle_anchor is not None or _holds_most(steps, activities):
        return steps
    whole = _whole(run, activities)
    return None if whole is None else _with_device_time(whole, activities, calls)


def _holds_most(steps: Steps, activities: Activities | None) -> bool:
    """Whether at least half of the device time runs inside the steps: found cycles that miss it explain nothing."""
    if activities is None:
        return True
    inside = union(steps.starts, steps.ends).within(activities.starts, activities.ends).sum()
    return bool(inside * 2 >= (activities.ends - activities.starts).sum())


def _whole(run: Trace, activities: Activities | None) -> Steps | None:
    """One window from the first operator to the last, or around all device activity where there are none."""
    bounds = run.host.filter(pl.col("kind").is_in(["op", "dataloader"])).select(
        pl.col("start_ns").min().alias("a"), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("b")
    ).collect(engine="streaming")
    start, end = bounds.row(0)
    if start is None and activities is not None:
        start, end = int(activities.starts.min()), int(activities.ends.max())
    if start is None or end is None:
        return None
    return Steps(np.array([start]), np.array([end]), (0,), ("whole recording",), "whole")


def _with_device_time(steps: Steps, activities: Activities | None, calls: Calls) -> Steps:
    """Each step until its last activity has ended, without steps whose activities were not recorded."""
    if activities is None:
        return steps
    step_of = _launched_in(steps, activities, calls)
    inside = step_of >= 0
    counts = np.bincount(step_of[inside], minlength=len(steps))
    if not counts.any():
        return steps
    last = np.full(len(steps), np.iinfo(np.int64).min)
    np.maximum.at(last, step_of[inside], activities.ends[inside])
    before = int(steps.starts[0])
    if counts[0]:
        first = activities.starts[step_of == 0].min()
        earlier = activities.ends[~inside & (activities.ends < first)]
        before = max(before, int(earlier.max(initial=before)))
    starts, ends = steps.starts.copy(), steps.ends.copy()
    for step in range(len(steps)):
        starts[step] = max(before, starts[step])
        ends[step] = before = max(ends[step], last[step], starts[step])
    timed = replace(steps, starts=starts, ends=ends)
    return _seen(timed, counts)


def _launched_in(steps: Steps, activities: Activities, calls: Calls) -> Ints:
    """The step whose host time holds the call that launched each activity, -1 for none."""
    step = np.searchsorted(steps.starts, calls.starts, side="right") - 1
    step[(step >= 0) & (calls.ends > steps.ends[np.maximum(step, 0)])] = -1
    call = match((activities.rank, activities.correlation), (calls.rank, calls.correlation))
    return np.where(call >= 0, step[np.maximum(call, 0)] if len(step) else -1, -1)


def _seen(steps: Steps, counts: Ints) -> Steps:
    """Without steps that launched nothing while others did, and without a last one that is not whole."""
    keep = counts > 0
    last = int(np.flatnonzero(keep)[-1])
    if last > 0 and counts[last - 1] * SEEN_WHOLE > counts[last]:
        keep[last] = False
    return steps if keep.all() else steps._keep(keep, int((~keep).sum()))
