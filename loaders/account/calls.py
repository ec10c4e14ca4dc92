"""The launch call of each activity, by the evidence that holds, and the launch calls that no activity has.

A call is known by the same correlation id in the same process, else by a recorded flow, else, where a recorder numbers
calls and activities alike, by that External id. It is never "the nearest before".
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from .arrays import NONE, Bytes, Groups, Ints, Mask, keyed, numbered, rows_of, values_of
from .tables import DeviceWork, LinkedSlices

CALLS = ("runtime", "driver")
_LAUNCH = re.compile(r"launch", re.IGNORECASE)
_GRAPH = re.compile(r"GraphLaunch", re.IGNORECASE)
_ONE_KERNEL = re.compile(r"(cuda|cu|hip)(ext|module)*launch(cooperative)?kernel", re.IGNORECASE)
NAMES = {
    "launch": _LAUNCH.search, "graph": _GRAPH.search, "one_kernel": _ONE_KERNEL.match,
    "work": lambda name: _LAUNCH.search(name) or "emcpy" in name or "emset" in name,
    "begins": lambda name: "StreamBeginCapture" in name, "stops": lambda name: "StreamEndCapture" in name,
}
CORRELATION, FLOW, RUNTIME_ID = 1, 2, 3  # Positions in ``CALL_BY``.


def launch_calls(work: DeviceWork, calls: LinkedSlices) -> tuple[Ints, Bytes]:
    """The position in ``calls`` of the call of each activity, -1 for none, and its evidence."""
    size = len(work.start)
    call, by = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.uint8)
    if not len(calls.row) or not size:
        return call, by
    own, theirs = keyed((work.rank, calls.rank), (work.correlation, calls.correlation))
    groups = Groups(theirs)
    group = groups.find(own)
    usable = _one_launch(groups, calls)
    linked = np.flatnonzero((group >= 0) & usable[np.maximum(group, 0)]) if len(usable) else np.zeros(0, np.int64)
    call[linked] = groups.order[groups.first[group[linked]]]
    call[_others(work, calls, own, call)] = -1
    by[call >= 0] = CORRELATION
    taken = np.zeros(len(calls.row), dtype=bool)
    taken[call[(call >= 0) & work.counted]] = True
    rest = np.flatnonzero((call < 0) & work.counted)
    if len(rest):
        _by_flow(work, calls, rest, call, by, taken)
        rest = rest[call[rest] < 0]
    if len(rest):
        _by_runtime_id(work, calls, rest, call, by, taken)
    return call, by


def _one_launch(groups: Groups, calls: LinkedSlices) -> Mask:
    """Per correlation id, whether it can be one call: of two launches that do not overlap neither is known to be it."""
    usable = np.ones(len(groups.first), dtype=bool)
    many = groups.count > 1
    if many.any():
        number, order = groups.numbers(), groups.order
        some = np.flatnonzero(many[number])
        earliest = order[groups.first[number[some]]]
        apart = (calls.start[order[some]] >= calls.end[earliest]) & calls.named["launch"][order[some]]
        apart &= order[some] != earliest
        usable[number[some[apart]]] = False
    return usable


def _others(work: DeviceWork, calls: LinkedSlices, keys: Ints, call: Ints) -> Ints:
    """Activities that share their correlation id with others, have different External ids, and not their call's own;
    the activities of a graph share their launch rightly."""
    some = np.flatnonzero((call >= 0) & work.counted)
    groups = Groups(keys[some])
    shared = np.flatnonzero(groups.count > 1)
    if not len(shared):
        return shared
    number = groups.numbers()
    several = np.isin(number, shared)
    rows = some[groups.order[several]]
    number = number[several]
    external = work.external[rows]
    low, high = np.full(len(groups.first), np.iinfo(np.int64).max), np.full(len(groups.first), NONE)
    np.minimum.at(low, number, external)
    np.maximum.at(high, number, external)
    at = call[rows]
    other: Mask = (low != high)[number] & ~calls.named["graph"][at] & (calls.external[at] != NONE)
    others: Ints = rows[other & (calls.external[at] != external)]
    return others


def _by_flow(work: DeviceWork, calls: LinkedSlices, rest: Ints, call: Ints, by: Bytes, taken: Mask) -> None:
    """The call a recorded flow begins at, unless another activity has it; a graph launch has many."""
    rest = rest[work.flow[rest] != NONE]
    if not len(rest):
        return
    order = np.argsort(calls.row)
    at = np.minimum(np.searchsorted(calls.row[order], work.flow[rest]), len(order) - 1)
    right = calls.row[order[at]] == work.flow[rest]
    rest, at = rest[right], order[at[right]]
    graph = calls.named["graph"][at]
    first = np.zeros(len(at), dtype=bool)
    first[np.unique(at, return_index=True)[1]] = True
    free = graph | (first & ~taken[at])
    call[rest[free]], by[rest[free]] = at[free], FLOW
    taken[at[free]] = True


def _by_runtime_id(work: DeviceWork, calls: LinkedSlices, rest: Ints, call: Ints, by: Bytes, taken: Mask) -> None:
    """The calls left with an External id and the activities left with it, in order of start, if they are as many."""
    free = np.flatnonzero(calls.named["work"] & ~taken)
    rest = rest[np.argsort(work.start[rest], kind="stable")]
    own, theirs = keyed((work.rank[rest], calls.rank[free]), (work.external[rest], calls.external[free]))
    ours, others = Groups(own), Groups(theirs)
    group = others.find(ours.keys)
    if not len(others.count):
        return
    equal = (group >= 0) & (others.count[np.maximum(group, 0)] == ours.count)
    number = ours.numbers()
    place = np.arange(len(number)) - ours.first[number]
    some = equal[number]
    activity = rest[ours.order[some]]
    at = free[others.order[others.first[group[number[some]]] + place[some]]]
    earlier = calls.start[at] <= work.start[activity]
    call[activity[earlier]], by[activity[earlier]] = at[earlier], RUNTIME_ID
    taken[at[earlier]] = True


def missing_calls(work: DeviceWork, calls: LinkedSlices, call: Ints) -> tuple[pl.DataFrame, int]:
    """The launch calls of one kernel that no activity has, and the number of launch calls. What is launched while a
    stream is captured leaves no record and is none of them."""
    size = len(calls.row)
    empty = pl.DataFrame(schema={"row": pl.Int32, "start_ns": pl.Int64, "rank": pl.Int64, "cut": pl.Boolean})
    if not size:
        return empty, 0
    own = calls.named["one_kernel"] & ~_captured(calls)
    linked = call[(call >= 0) & work.counted]
    taken = np.zeros(size, dtype=bool)
    taken[linked] = True
    lost = own & ~taken
    if lost.any():
        timeless = np.flatnonzero(work.timeless)
        theirs, others, records = keyed(
            (calls.rank, calls.rank[linked], work.rank[timeless]),
            (calls.correlation, calls.correlation[linked], work.correlation[timeless]))
        lost &= (theirs == NONE) | ~np.isin(theirs, np.concatenate((others, records)))
    process = numbered(calls.rank)
    last = np.full(int(process.max()) + 1, np.iinfo(np.int64).max)
    recorded = np.unique(process[linked])
    last[recorded] = NONE
    np.maximum.at(last, process[linked], calls.start[linked])
    rows = np.flatnonzero(lost)
    frame = pl.DataFrame({
        "row": rows_of(calls.row, rows), "start_ns": values_of(calls.start, rows), "rank": values_of(calls.rank, rows),
        "cut": calls.start[rows] > last[process[rows]],
    })
    return frame.sort("row") if frame.height else empty, int(own.sum())


def _captured(calls: LinkedSlices) -> Mask:
    """Whether each call lies between the begin and the end of a stream capture on its thread."""
    inside = np.zeros(len(calls.row), dtype=bool)
    begins, stops = calls.named["begins"], calls.named["stops"]
    if not begins.any():
        return inside
    thread = numbered(calls.rank, calls.pid, calls.tid)
    for number in np.unique(thread[begins]).tolist():
        rows = np.flatnonzero(thread == number)
        since, until = None, np.iinfo(np.int64).max
        for row in np.flatnonzero((begins | stops) & (thread == number)).tolist():
            if begins[row]:
                since = calls.start[row] if since is None else since
            elif since is not None:
                inside[rows] |= (calls.start[rows] >= since) & (calls.start[rows] < calls.end[row])
                since = None
        if since is not None:
            inside[rows] |= (calls.start[rows] >= since) & (calls.start[rows] < until)
    return inside
