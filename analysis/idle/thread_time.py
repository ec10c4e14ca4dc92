"""The time a thread spent in each cause within given windows, by a sweep over its slices.

Time belongs to the slice that began last of those still running; anywhere inside an input slice it is input. Time in
which a profiler was at work is subtracted from all causes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from ..core.call_tree import Ints
from ..core.intervals import Intervals
from ..core.quantiles import order_by
from .causes import BY_SLICE
from .sweep import SWEEP, spent


class ThreadWindows(Struct, frozen=True):
    """Time windows of threads: thread number, begin and end in ns."""

    thread: Ints
    starts: Ints
    ends: Ints


class ThreadTimeline(Struct, frozen=True):
    """The slices of some threads: ``thread`` number, times in ns, and ``cause`` as an index into ``BY_SLICE``."""

    thread: Ints
    starts: Ints
    ends: Ints
    cause: Ints


def time_by_cause(timeline: ThreadTimeline, windows: ThreadWindows, overhead: Intervals) -> Ints:
    """Time of each window in each cause of ``BY_SLICE``, without the overhead: an array (causes, windows) in ns."""
    count, causes = len(windows.starts), len(BY_SLICE)
    if not len(timeline.starts) or not count:
        return np.zeros((causes, count), dtype=np.int64)
    starts, ends = timeline.starts, timeline.ends
    slices = [starts, ends, timeline.thread, timeline.cause]
    before = starts[1:] > starts[:-1]
    if not (before | ((starts[1:] == starts[:-1]) & (ends[1:] <= ends[:-1]))).all():
        order = order_by(starts, -ends)
        slices = [values[order] for values in slices]
    moments = np.concatenate((windows.starts, windows.ends))
    if len(overhead.starts):
        moments, slices[0], slices[1] = (times - overhead.before(times) for times in (moments, slices[0], slices[1]))
    threads = int(max(timeline.thread.max(), windows.thread.max())) + 1
    least = int(min(slices[0].min(), moments.min()))
    arrays = [
        *slices, moments, np.concatenate((windows.thread, windows.thread)), np.argsort(moments, kind="stable"),
        np.empty(len(starts), dtype=np.int64), np.full(threads, -1), np.full(threads, least), np.full(threads, least),
        np.zeros(threads * causes, dtype=np.int64), np.zeros(count * causes, dtype=np.int64),
    ]
    native = SWEEP.load()
    if native is not None:
        native.call("spent", *(np.require(one, np.int64, ["C", "W"]) for one in arrays[:-1]), arrays[-1], causes)
        return arrays[-1].reshape(count, causes).T
    lists: list[Any] = [*(one.tolist() for one in arrays), causes]
    spent(*lists)
    return np.array(lists[-2], dtype=np.int64).reshape(count, causes).T
