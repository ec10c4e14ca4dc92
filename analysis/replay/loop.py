"""The replay's inner loops. The same text runs compiled over arrays and plainly over lists.

Events are processed in recorded order, which is an order of causes: whatever an activity or a call waited for had
begun before. Times are ns; ``NEVER`` stands for no bound, -1 for no row.
"""

from __future__ import annotations

from typing import Any

NEVER = -(1 << 62)
BEGIN, START, FINISH = 0, 1, 2
"""Events, as ``3 * row + kind``: a call begins, an activity starts, a call returns."""


def run(
    events: Any, gap: Any, length: Any, floor: Any, wait_share: Any, chain: Any, advances: Any, waits_to: Any,
    wait_on: Any, wait_lag: Any, launch: Any, launch_lag: Any, fixed: Any, base: Any, base_lag: Any, before: Any,
    before_lag: Any, cross_to: Any, cross_on: Any, cross_lag: Any, dur: Any, group: Any, transfer: Any, ahead: Any,
    late: Any, arrival: Any, now: Any, begin: Any, finish: Any, start: Any, end: Any, call_by: Any, activity_by: Any,
) -> int:
    """Fill ``begin finish`` of calls and ``start end`` of activities, and what each came right after.

    A call begins ``gap`` after its chain's last call returned and lasts ``length``, or until the activities it waits
    for ended plus a lag, at least ``floor`` (``wait_share`` of the wait is left). An activity starts after its launch,
    its predecessor on the stream, those it waits for and ``fixed``. Members of a collective (``group``) end
    ``transfer`` after the last one came on the common clock, which theirs is ``ahead`` of, and each ``late`` after that
    by its own. ``call_by`` is the activity a call returned after; ``activity_by`` the activity that one started after,
    or -2 - its launch call.
    """
    for event in events:
        row = event // 3
        kind = event - 3 * row
        if kind == 0:
            begin[row] = now[chain[row]] + gap[row]
            finish[row] = begin[row] + length[row]
            call_by[row] = -1
            if waits_to[row] == waits_to[row + 1] and advances[row]:
                now[chain[row]] = finish[row]
        elif kind == 1:
            at = fixed[row]
            by = -1
            call = launch[row]
            if call >= 0 and launch_lag[row] != NEVER and begin[call] + launch_lag[row] > at:
                at = begin[call] + launch_lag[row]
                by = -2 - call
            other = base[row]
            if other >= 0 and start[other] + base_lag[row] > at:
                at = start[other] + base_lag[row]
                by = activity_by[other]
            other = before[row]
            if other >= 0:
                ready = end[other] if group[other] < 0 else arrival[group[other]] + transfer[group[other]] + late[other]
                if ready + before_lag[row] > at:
                    at = ready + before_lag[row]
                    by = other
            for place in range(cross_to[row], cross_to[row + 1]):
                other = cross_on[place]
                ready = end[other] if group[other] < 0 else arrival[group[other]] + transfer[group[other]] + late[other]
                if ready + cross_lag[place] > at:
                    at = ready + cross_lag[place]
                    by = other
            start[row] = at
            end[row] = at + dur[row]
            activity_by[row] = by
            if group[row] >= 0 and at - ahead[row] > arrival[group[row]]:
                arrival[group[row]] = at - ahead[row]
        else:
            until = NEVER
            by = -1
            for place in range(waits_to[row], waits_to[row + 1]):
                other = wait_on[place]
                ready = end[other] if group[other] < 0 else arrival[group[other]] + transfer[group[other]] + late[other]
                if ready > until:
                    until = ready
                    by = other
            least = begin[row] + floor[row]
            until = until + wait_lag[row]
            if until > least and wait_share[row] > 0:
                finish[row] = least + int((until - least) * wait_share[row])
                call_by[row] = by
            else:
                finish[row] = least
            if advances[row]:
                now[chain[row]] = finish[row]
    for row in range(len(group)):
        if group[row] >= 0:
            end[row] = arrival[group[row]] + transfer[group[row]] + late[row]
    return len(events)


def bind(
    rows: Any, start: Any, end: Any, stream: Any, owner: Any, called: Any, rest: Any, reach: Any, by_end: Any,
    end_times: Any, ended: Any, long_ns: int, source: Any, lag: Any, room: Any,
) -> int:
    """For activities that started later than launch and stream explain, the one of another stream they waited for.

    ``reach`` is how long before its start that one may have ended, ``ended`` how many had ended by then (in the order
    ``by_end``, at ``end_times``), ``called`` when each was launched (NEVER: not recorded), ``rest`` the time to
    explain. Where nothing ended then, ``room``: a long kernel of another stream in its last wave left no room before.
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
