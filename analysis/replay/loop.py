"""The replay's inner loops. The same source runs compiled on arrays, and as plain Python on lists.

Events are processed in recorded order, which is a causal order: whatever an activity or a call waited for had begun
before. Times are ns; ``NEVER`` stands for no bound, -1 for no row.
"""

from __future__ import annotations

from typing import Any

NEVER = -(1 << 62)
BEGIN, START, FINISH, MOVE, TIED = range(5)
"""Kinds of events, coded as ``8 * row + kind``: a call begins; an activity starts; a call returns; a call without waits
begins and returns; an activity starts that depends on more than its launch and its predecessor on the stream."""


def run(
    events: Any, gap: Any, length: Any, floor: Any, wait_share: Any, chain: Any, advances: Any, waits_to: Any,
    wait_on: Any, wait_lag: Any, launch: Any, launch_lag: Any, fixed: Any, base: Any, base_lag: Any, before: Any,
    before_lag: Any, cross_to: Any, cross_on: Any, cross_lag: Any, dur: Any, group: Any, transfer: Any, ahead: Any,
    late: Any, cycle: Any, members: Any, mark_at: Any, mark_end: Any, other_gap: Any, other_dur: Any, lanes: int,
    call_mask: int, mask: int, arrival: Any, now: Any, begin: Any, finish: Any, start: Any, end: Any, reach: Any,
    marks: Any,
) -> int:
    """Fill ``begin finish`` of calls, ``start end`` of activities, ``reach``, the last activity end of each cycle, and
    ``marks``, the begin (or end: ``mark_end``) of the calls at the event indices ``mark_at``, which end with -1.

    A call begins ``gap`` after its chain's last call returned. It lasts ``length``; one that waits lasts until its
    activities ended plus a lag, at least ``floor``, with the wait beyond that scaled by ``wait_share``. An activity
    starts after its launch, its predecessor on the stream, those it waits for and ``fixed``. Members of a collective
    (``group``) end ``transfer`` after the last one arrived on the common clock, which theirs is ``ahead`` of, and each
    ``late`` after that on its own clock.

    Up to three replays share one pass, as lanes of the arrays that are filled: with these times, with host code
    (``gap``) half as long, and with the ``other`` times. Row ``n`` is at ``n & mask``: if only cycle times are needed,
    the arrays have room for just those rows that a later event may depend on.
    """
    mark = 0
    for at in range(len(events)):
        event = events[at]
        row = event >> 3
        kind = event & 7
        if kind == START:
            own = (row & mask) * lanes
            called = (launch[row] & call_mask) * lanes
            last = before[row]
            behind = (last & mask) * lanes
            within = cycle[row] * lanes
            for lane in range(lanes):
                moment = begin[called + lane] + launch_lag[row]
                if last >= 0 and end[behind + lane] + before_lag[row] > moment:
                    moment = end[behind + lane] + before_lag[row]
                start[own + lane] = moment
                moment += dur[row] if lane < 2 else other_dur[row]
                end[own + lane] = moment
                if within >= 0 and moment > reach[within + lane]:
                    reach[within + lane] = moment
        elif kind == TIED:
            own = (row & mask) * lanes
            within = cycle[row] * lanes
            for lane in range(lanes):
                moment = fixed[row]
                other = launch[row]
                if other >= 0 and launch_lag[row] != NEVER:
                    moment = max(moment, begin[(other & call_mask) * lanes + lane] + launch_lag[row])
                other = base[row]
                if other >= 0:
                    moment = max(moment, start[(other & mask) * lanes + lane] + base_lag[row])
                for place in range(cross_to[row] - 1, cross_to[row + 1]):
                    other = before[row] if place < cross_to[row] else cross_on[place]
                    lag = before_lag[row] if place < cross_to[row] else cross_lag[place]
                    if other < 0:
                        continue
                    ready = end[(other & mask) * lanes + lane]
                    if group[other] >= 0:
                        ready = arrival[group[other] * lanes + lane] + transfer[group[other]] + late[other]
                    moment = max(moment, ready + lag)
                start[own + lane] = moment
                if group[row] >= 0:
                    at_group = group[row] * lanes + lane
                    arrival[at_group] = max(arrival[at_group], moment - ahead[row])
                moment += dur[row] if lane < 2 else other_dur[row]
                end[own + lane] = moment
                if within >= 0 and group[row] < 0:
                    reach[within + lane] = max(reach[within + lane], moment)
        else:
            own = (row & call_mask) * lanes
            host = chain[row] * lanes
            for lane in range(lanes):
                if kind == FINISH:
                    until = NEVER
                    for place in range(waits_to[row], waits_to[row + 1]):
                        other = wait_on[place]
                        if other < 0:
                            continue
                        ready = end[(other & mask) * lanes + lane]
                        if group[other] >= 0:
                            ready = arrival[group[other] * lanes + lane] + transfer[group[other]] + late[other]
                        until = max(until, ready)
                    least = begin[own + lane] + floor[row]
                    until += wait_lag[row]
                    finish[own + lane] = least
                    if until > least and wait_share[row] > 0:
                        finish[own + lane] = least + int((until - least) * wait_share[row])
                    if advances[row]:
                        now[host + lane] = finish[own + lane]
                    continue
                idle = gap[row] if lane < 2 else other_gap[row]
                if lane == 1 and idle > 0:
                    idle = (idle >> 1) + (idle & (idle >> 1) & 1)  # rounded to even
                begin[own + lane] = now[host + lane] + idle
                finish[own + lane] = begin[own + lane] + length[row]
                if kind == MOVE:
                    now[host + lane] = finish[own + lane]
            while mark_at[mark] == at:
                for lane in range(lanes):
                    marks[mark * lanes + lane] = finish[own + lane] if mark_end[mark] else begin[own + lane]
                mark += 1
    for place in range(len(members)):
        row = members[place]
        if group[row] >= 0:
            own = (row & mask) * lanes
            for lane in range(lanes):
                moment = arrival[group[row] * lanes + lane] + transfer[group[row]] + late[row]
                end[own + lane] = moment
                if cycle[row] >= 0:
                    reach[cycle[row] * lanes + lane] = max(reach[cycle[row] * lanes + lane], moment)
    return len(events)


def bind(
    rows: Any, start: Any, end: Any, stream: Any, owner: Any, called: Any, rest: Any, reach: Any, by_end: Any,
    end_times: Any, ended: Any, long_ns: int, source: Any, lag: Any, room: Any,
) -> int:
    """For activities that started later than launch and stream explain, find the ``source`` on another stream.

    ``reach``: how long before the start the source may have ended; ``ended``: how many had ended by then (in the order
    ``by_end``, at ``end_times``); ``called``: when each was launched (NEVER: not recorded); ``rest``: the delay to
    explain. If none ended then, ``room``: a long kernel of another stream, in its last wave, that left no room before.
    """
    bound = 0
    for at in range(len(rows)):
        row = rows[at]
        place = ended[at] - 1
        while place >= 0 and end_times[place] >= start[row] - reach[at]:
            other = by_end[place]
            if (
                stream[other] != stream[row] and owner[other] == owner[row] and start[other] < start[row]
                and (called[row] == NEVER or called[other] == NEVER or called[other] <= called[row])
            ):
                source[at] = other
                lag[at] = start[row] - end_times[place]
                bound += 1
                break
            place -= 1
        if source[at] >= 0 or rest[at] <= long_ns:
            continue
        other = row - 1
        while other >= 0 and other > row - 200:
            span = end[other] - start[other]
            left = end[other] - start[row]
            if (
                stream[other] != stream[row] and owner[other] == owner[row] and span > 5 * long_ns
                and left > 0 and 4 * left < span and start[row] - long_ns > start[other]
                and (called[row] == NEVER or called[other] <= called[row])
            ):
                room[at] = other
                break
            other -= 1
    return bound
