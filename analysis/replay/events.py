"""The order in which a replay processes calls and activities: that of the recording."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.call_tree import Ints
from .loop import BEGIN, FINISH, MOVE, NEVER, START, TIED
from .recording import Recording
from .together import RankLinks
from .waits import Order

Places = npt.NDArray[np.int32]


class Events(Struct, frozen=True):
    """The events as ``code`` (``loop.run``), and the event index at which each call ``begun`` and ``returned``.

    Per call: ``gap``, the host time before it, ns; ``anchor``, the call whose end starts that gap (-1: none); and
    whether it ``advances`` its host timeline. ``launch before base cross wait``: the dependencies of activities and
    calls, -1 where one comes later in event order. ``call_room`` and ``room``: ring-buffer sizes for calls and
    activities, powers of two that hold everything a later event may depend on.
    """

    code: Places
    begun: Places
    returned: Places
    gap: Ints
    anchor: Ints
    advances: Places
    launch: Places
    before: Places
    base: Places
    cross: Places
    wait: Places
    call_room: int
    room: int


def events_of(recording: Recording, order: Order, links: RankLinks) -> Events:
    """The events of a recording."""
    a, c = recording.activities, recording.calls
    calls, activities = np.arange(len(c.start), dtype=np.int32), np.arange(len(a.start), dtype=np.int32)
    instant = np.diff(order.waits.to) == 0  # waits for nothing: its return is known when it begins
    returns = calls[~instant]
    shown = np.where(a.call >= 0, np.maximum(a.start, c.start[np.maximum(a.call, 0)]), a.start)
    time = np.concatenate((
        c.end[returns] - links.calls_ahead[returns], c.start - links.calls_ahead, shown - links.ahead))
    kind = np.repeat(np.array([FINISH, BEGIN, START], dtype=np.int8), [len(returns), len(calls), len(activities)])
    sequence = np.argsort(time, kind="stable")  # at equal times: returns, then begins, then activities
    row, kind = np.concatenate((returns, calls, activities))[sequence], kind[sequence]
    at = {one: np.flatnonzero(kind == one).astype(np.int32) for one in (FINISH, BEGIN, START)}
    begun, started = np.empty_like(calls), np.empty_like(activities)
    begun[row[at[BEGIN]]], started[row[at[START]]] = at[BEGIN], at[START]
    returned = begun.copy()
    returned[row[at[FINISH]]] = at[FINISH]
    gap, anchor, advances = _host_time(recording, begun, returned)

    def if_started(rows: Ints | Places, by: Places) -> Places:
        """The activities, with -1 for those that start no earlier than the event index ``by``."""
        return np.where((rows >= 0) & (started[np.maximum(rows, 0)] < by), rows, -1).astype(np.int32)

    launch = np.where((a.call >= 0) & (begun[np.maximum(a.call, 0)] < started), a.call, -1).astype(np.int32)
    before, base = if_started(a.before, started), if_started(order.base, started)
    cross = if_started(order.cross.on, np.repeat(started, np.diff(order.cross.to)))
    wait = if_started(order.waits.on, np.repeat(returned, np.diff(order.waits.to)))
    tied = (launch < 0) | (order.launch_lag == NEVER) | (base >= 0) | (order.fixed != NEVER) | (links.group >= 0)
    tied |= (np.diff(order.cross.to) > 0) | ((before >= 0) & (links.group[np.maximum(before, 0)] >= 0))
    kind[at[START]] = np.where(tied[row[at[START]]], TIED, START)
    kind[at[BEGIN]] = np.where((instant & (advances > 0))[row[at[BEGIN]]], MOVE, BEGIN)
    last_call = np.maximum.accumulate(np.where((kind == BEGIN) | (kind == MOVE), row, -1))
    last = np.maximum.accumulate(np.where((kind == START) | (kind == TIED), row, -1))
    call_room = _room((last_call[started], launch), (last_call[returned], calls))
    if (returned < begun).any():  # a zero-length wait returns before it begins and must read 0, not another call's time
        call_room = len(calls)
    room = _room(
        (last[started], activities), (last[started], before), (last[started], base),
        (last[np.repeat(started, np.diff(order.cross.to))], cross),
        (last[np.repeat(returned, np.diff(order.waits.to))], wait))
    return Events(
        row * np.int32(8) + kind, begun, returned, gap, anchor, advances, launch, before, base, cross, wait, call_room,
        room)


def _room(*uses: tuple[Places, Places]) -> int:
    """The ring-buffer size: the power of two above the largest distance from a used row to the newest row by then."""
    most = max((int(np.where(rows >= 0, newest - rows, 0).max(initial=0)) for newest, rows in uses), default=0)
    return 1 << most.bit_length()


def _host_time(recording: Recording, begun: Places, returned: Places) -> tuple[Ints, Ints, Places]:
    """``gap``, ``anchor`` and ``advances`` of ``Events``."""
    c = recording.calls
    gap, anchor = np.zeros(len(begun), dtype=np.int64), np.full(len(begun), -1, dtype=np.int64)
    advances = np.zeros(len(begun), dtype=np.int32)
    by_begin, by_return = np.argsort(begun), np.argsort(returned)
    for chain in np.unique(c.chain):
        matching = by_return[c.chain[by_return] == chain]
        reach = np.maximum.accumulate(c.end[matching])
        matching = matching[c.end[matching] >= reach]
        advances[matching] = 1
        own = by_begin[c.chain[by_begin] == chain]
        last = np.searchsorted(returned[matching], begun[own], side="left") - 1
        ended = matching[np.maximum(last, 0)]
        gap[own] = c.start[own] - np.where(last >= 0, c.end[ended], int(c.start[own].min()))
        anchor[own] = np.where(last >= 0, ended, -1)
    return gap, anchor, advances
