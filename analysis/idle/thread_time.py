"""How long a thread spent in each cause within any window: prefix sums over its innermost slices.

A thread's time is cut wherever a slice begins or ends. Each piece belongs to the slice that began last of those still
running, so pieces never overlap and every window is the sum of its pieces. Time in which a profiler was at work is
taken out of all of them.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ..core.call_tree import Ints, Mask, pack
from ..core.intervals import Intervals, union_per_owner
from .causes import BY_SLICE, Kinds

_ROUNDS = 64  # Levels climbed to whatever still runs; who is deeper counts as what was reached.


class ThreadWindows(Struct, frozen=True):
    """Stretches of threads: the number of the thread, and begin and end in ns."""

    thread: Ints
    starts: Ints
    ends: Ints


class ThreadTimeline(Struct, frozen=True):
    """The slices of some threads: ``thread`` numbers, times in ns, ``parent`` (-1 for none), ``cause`` of each."""

    thread: Ints
    starts: Ints
    ends: Ints
    parent: Ints
    cause: Kinds
    is_input: Mask


def time_by_cause(timeline: ThreadTimeline, windows: ThreadWindows, overhead: Intervals) -> Ints:
    """Time of each window in each of ``BY_SLICE``, outside of the overhead: an array (causes, windows) in ns."""
    out = np.zeros((len(BY_SLICE), len(windows.starts)), dtype=np.int64)
    if not len(timeline.starts) or not len(windows.starts):
        return out
    thread, moments, inside = _pieces(timeline)
    cause = np.where(inside >= 0, timeline.cause[inside], -1)
    cause[_in_input(timeline, thread, moments)] = BY_SLICE.index("input")
    count = len(moments)
    packed = pack(
        np.concatenate((thread, windows.thread, windows.thread)),
        np.concatenate((moments, windows.starts, windows.ends)),
    )
    places = [np.searchsorted(packed[:count], packed[at : at + len(windows.starts)], side="right") - 1
              for at in (count, count + len(windows.starts))]
    worked = moments - overhead.before(moments)
    spans = np.append(np.where(thread[1:] == thread[:-1], np.diff(worked), 0), 0)
    asked = [times - overhead.before(times) for times in (windows.starts, windows.ends)]
    for number in range(len(BY_SLICE)):
        mine = cause == number
        if not mine.any():
            continue
        sums = np.concatenate(([0], np.cumsum(np.where(mine, spans, 0))))
        until = []
        for place, time in zip(places, asked, strict=True):
            known = np.maximum(place, 0)
            here = (place >= 0) & mine[known] & (thread[known] == windows.thread)
            until.append(np.where(place >= 0, sums[known], 0) + np.where(here, time - worked[known], 0))
        out[number] = until[1] - until[0]
    return out


def _pieces(timeline: ThreadTimeline) -> tuple[Ints, Ints, Ints]:
    """Where pieces begin: thread and moment, in order, and the row of the innermost slice from there on (-1: none)."""
    count = len(timeline.starts)
    thread = np.concatenate((timeline.thread, timeline.thread))
    times = np.concatenate((timeline.starts, timeline.ends))
    packed = pack(thread, times)
    rows = np.lexsort((-timeline.ends, packed[:count]))
    started, where = packed[:count][rows], np.unique(packed, return_index=True)
    moments, first = where
    last = np.searchsorted(started, moments, side="right") - 1
    inside = np.where(last >= 0, rows[np.maximum(last, 0)], -1)
    moment_thread, moment = thread[first], times[first]
    inside[(inside >= 0) & (timeline.thread[inside] != moment_thread)] = -1
    over = np.flatnonzero(inside >= 0)
    for _ in range(_ROUNDS):
        over = over[timeline.ends[inside[over]] <= moment[over]]
        if not len(over):
            break
        inside[over] = timeline.parent[inside[over]]
        over = over[inside[over] >= 0]
    return moment_thread, moment, inside


def _in_input(timeline: ThreadTimeline, thread: Ints, moments: Ints) -> Mask:
    """Which of the pieces lie in a slice that loads input."""
    hit = np.zeros(len(moments), dtype=bool)
    rows = timeline.is_input
    if not rows.any():
        return hit
    starts, ends, owner = union_per_owner(timeline.starts[rows], timeline.ends[rows], timeline.thread[rows])
    if not len(starts):
        return hit
    count = len(starts)
    packed = pack(np.concatenate((owner, thread)), np.concatenate((starts, moments)))
    at = np.searchsorted(packed[:count], packed[count:], side="right") - 1
    known = np.maximum(at, 0)
    return np.asarray((at >= 0) & (owner[known] == thread) & (moments < ends[known]), dtype=bool)
