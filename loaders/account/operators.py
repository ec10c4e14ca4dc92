"""The operator of each activity, by the evidence that holds.

It is the one with the activity's External id where these ids are sound in its process, else the innermost one around
the launch call, else the one with the External id of that call. External ids are sound where, of the activities whose
call and an operator around it are known otherwise, at least ``SOUND`` have that operator among those around the call:
in 61 recordings it was all of them or none. Ids below 0 were made by a reader from a link that the recording names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ..ingest.call_tree.columns import call_tree
from .arrays import Bytes, Groups, Ints, Mask, integers, keyed, numbered
from .calls import RUNTIME_ID
from .tables import DeviceWork, LinkedSlices

SOUND = 0.9
_BY_ID, _NESTED, _REPLAY, _BY_CALL = 1, 2, 3, 4  # Positions in ``OP_BY``.


def operators_of(
    work: DeviceWork, calls: LinkedSlices, ops: LinkedSlices, call: Ints, by: Bytes
) -> tuple[Ints, Bytes, dict[str, Any]]:
    """The position in ``ops`` of the operator of each activity, -1 for none, its evidence, and how External ids
    agree with the launches."""
    size = len(work.start)
    op, how = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.uint8)
    external: dict[str, Any] = {"agree": 0, "tested": 0, "used": False}
    if not len(ops.row) or not size:
        return op, how, external
    own, theirs, of_calls = keyed(
        (work.rank, ops.rank, calls.rank), (work.external, ops.external, calls.external))
    by_id = Groups(theirs)
    named = by_id.only(own)
    inner = Innermost(ops)
    process = numbered(np.concatenate((work.rank, calls.rank)))
    process, of_call = process[:size], process[size:]
    count = int(max(process.max(initial=0), of_call.max(initial=0))) + 1
    testable = np.flatnonzero((call >= 0) & (by != RUNTIME_ID) & (named >= 0) & work.counted & ~(work.external < 0))
    fits = _around(ops, named[testable], calls, call[testable])
    agree, lacking = testable[fits], testable[~fits]
    testable = np.concatenate((agree, lacking[inner.exists(calls, call[lacking])]))
    agreeing, tested = (np.bincount(process[rows], minlength=count) for rows in (agree, testable))
    some = np.flatnonzero((named >= 0) & work.counted)
    before = np.bincount(process[some], weights=ops.start[named[some]] <= work.start[some], minlength=count)
    every = np.bincount(process[some], minlength=count)
    sound = np.where(tested > 0, agreeing >= SOUND * tested, (every > 0) & (before >= SOUND * every))
    has_calls = np.bincount(of_call, minlength=count) > 0
    stand_in = (call < 0) & has_calls[process] & (work.external == work.correlation)
    use = (named >= 0) & ((sound[process] & ~stand_in) | (work.external < 0))
    op[use], how[use] = named[use], _BY_ID
    rest = np.flatnonzero(~use & (call >= 0))
    if len(rest):
        op[rest] = inner.of(calls, call[rest])
        replay = calls.named["graph"][call[rest]]
        how[rest] = np.where(op[rest] < 0, 0, np.where(replay, _REPLAY, _NESTED))
        rest = rest[(op[rest] < 0)]
        theirs_of = by_id.only(of_calls[call[rest]])
        fits = (theirs_of >= 0) & (sound[process[rest]] | (calls.external[call[rest]] < 0))
        op[rest[fits]], how[rest[fits]] = theirs_of[fits], _BY_CALL
    external = {"agree": len(agree), "tested": len(testable), "used": bool((sound & (every > 0)).any())}
    return op, how, external


def _around(ops: LinkedSlices, op: Ints, calls: LinkedSlices, call: Ints) -> Mask:
    """Whether each operator is around the start of the call, on its thread."""
    same: Mask = (ops.rank[op] == calls.rank[call]) & (ops.pid[op] == calls.pid[call])
    same &= ops.tid[op] == calls.tid[call]
    same &= _holds(ops, op, calls, call)
    return same


def _holds(ops: LinkedSlices, op: Ints, calls: LinkedSlices, call: Ints) -> Mask:
    start, end = calls.start[call], calls.end[call]
    begun: Mask = (ops.start[op] < start) | ((ops.start[op] == start) & (ops.end[op] >= end))
    begun &= ops.end[op] > start
    return begun


class Innermost:
    """The innermost operator around a call. Only operators around one of the calls asked for are sorted and nested:
    where External ids name them all, these are few."""

    def __init__(self, ops: LinkedSlices) -> None:
        self._ops = ops

    def exists(self, calls: LinkedSlices, call: Ints) -> Mask:
        """Whether there is an operator around the start of each call: where the latest end of those that began before
        it on its thread is behind it."""
        some = self._around_any(np.sort(calls.start[call]))
        around = np.zeros(len(call), dtype=bool)
        if not len(call) or not len(some):
            return around
        size, (thread, order) = len(some), _in_turn(self._ops.at(some), calls, call)
        distinct, place = np.unique(np.concatenate((self._ops.end[some], calls.start[call])), return_inverse=True)
        moment = (thread * (len(distinct) + 1) + place)[order]  # those of a thread are behind those of the one before
        is_call = order >= size
        latest = np.maximum.accumulate(np.where(is_call, -1, moment))
        around[order[is_call] - size] = (latest > moment)[is_call]
        return around

    def of(self, calls: LinkedSlices, call: Ints) -> Ints:
        """The position in the operators of the innermost one around the start of each call, -1 for none."""
        some = self._around_any(np.sort(calls.start[call]))
        if not len(call) or not len(some):
            return np.full(len(call), -1, dtype=np.int64)
        ops, size = self._ops.at(some), len(some)
        thread, order = _in_turn(ops, calls, call)
        last = np.maximum.accumulate(np.where(order < size, np.arange(len(order)), -1))
        at = np.empty(len(call), dtype=np.int64)
        is_call = order >= size
        before = order[np.maximum(last[is_call], 0)]
        same = (last[is_call] >= 0) & (thread[before] == thread[order[is_call]])
        at[order[is_call] - size] = np.where(same, before, -1)
        moving = np.flatnonzero(at >= 0)
        moving = moving[~_holds(ops, at[moving], calls, call[moving])]
        parent = _tree(ops) if len(moving) else at
        while len(moving):
            at[moving] = parent[at[moving]]
            moving = moving[at[moving] >= 0]
            moving = moving[~_holds(ops, at[moving], calls, call[moving])]
        return np.where(at >= 0, some[np.maximum(at, 0)], -1)

    def _around_any(self, moments: Ints) -> Ints:
        """The operators in which any of these moments (sorted) lies."""
        first, last = (np.searchsorted(moments, at).astype(np.int32) for at in (self._ops.start, self._ops.end))
        return np.flatnonzero(last > first)


def _in_turn(ops: LinkedSlices, calls: LinkedSlices, call: Ints) -> tuple[Ints, Ints]:
    """A number for the thread of each operator and, behind them, of each call, and their order: by thread, then by
    start, outer ones first."""
    thread = numbered(*(np.concatenate((getattr(ops, name), getattr(calls, name)[call]))
                        for name in ("rank", "pid", "tid")))
    start, end = np.concatenate((ops.start, calls.start[call])), np.concatenate((ops.end, calls.end[call]))
    return thread, np.lexsort((np.arange(len(start)) >= len(ops.start), -end, start, thread))


def _tree(ops: LinkedSlices) -> Ints:
    frame = pl.DataFrame({
        "kind": pl.Series(["op"]).new_from_index(0, len(ops.row)), "start_ns": ops.start,
        "dur_ns": ops.end - ops.start, "rank": ops.rank, "pid": ops.pid, "tid": ops.tid,
    })
    return integers(call_tree(frame.lazy()), "parent", -1)
