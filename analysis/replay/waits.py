"""The dependencies in a recording: launch latencies, waits between streams, waits of the host for the device.

Most tools do not record each wait between streams. One is inferred where work starts right after other work ends and
later than its launch and its stream explain. Delays without a cause are counted, not guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.call_tree import Ints, Mask, Rows
from ..idle.blocking_copies import covers_copy
from .loop import NEVER, bind
from .program import REPLAY, plain
from .recording import WAITS, Recording, stream_keys

NEAR_NS, FAR_NS = 5_000, 25_000
"""Longest delay between the end of work and the start of work that waited for it: without, and with, a recorded stream
wait before the launch. ROCm streams start 15 to 19 us after what they waited for, NCCL kernels 14 to 19 us."""
LAG_NS = 30_000
"""Longest delay between the end of work and the return of a call that waited for it."""
_SEVERAL = 8  # Waits of a process that must return with the same delay (within NEAR_NS) for a return latency.
LONG_NS = 20_000  # Delays without a recorded cause count as unexplained above this.
AFTER_EVENT_NS, FULL = 2_000, 500  # With more launches in flight than FULL, the launch queue may be full.
_LATENCY_NS, _GAP_NS, _RETURN_NS = 8_000, 1_000, 3_000
"""Defaults where the recording shows none: launch latency, gap between activities, return from a wait."""
_BUSY_NS, _BLOCKED_NS = 8_000, 50_000
"""Minimum duration of a call that may have waited, and of a copy or launch that was blocked."""
_EXCEPTIONS = 0.02
UNSEEN = 0.10  # Share of a run above which host time without any record counts as waits that nothing explains.
_LOW = 0.2  # Quantile taken as the undelayed latency.
_ALL = re.compile(r"(Device|Ctx)Synchronize")
_STREAM_OR_DEVICE = re.compile(r"(Stream|Device|Ctx)Synchronize|^hipStreamSynchronize")
_BLOCKING = re.compile(r"Synchronize|^(cuda|hip)Memcpy(?!.*Async)|MemcpyWithStream|signal_wait")
_ASYNC = re.compile("Async")


class Links(Struct, frozen=True):
    """Rows that each row waits for: row ``n`` waits for ``on[to[n]:to[n + 1]]``, each with its ``lag`` in ns."""

    to: Rows
    on: Ints
    lag: Ints


class Order(Struct, frozen=True):
    """The dependencies of each activity and call; times in ns, -1 for no row, ``NEVER`` for no bound.

    By reason: ``kept_ns``, time replayed as recorded; ``unexplained_ns``, waiting time without a recorded cause.
    """

    launch_lag: Ints
    fixed: Ints
    base: Ints
    base_lag: Ints
    before_lag: Ints
    cross: Links
    waits: Links
    wait_lag: Ints
    floor: Ints
    kept_ns: dict[str, int]
    unexplained_ns: dict[str, int]


def order_of(recording: Recording) -> Order:
    """Infer the dependencies of the recording."""
    return _Inference(recording).order()


class _Inference:
    """Working state of the inference for one recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.a, self.c = recording, recording.activities, recording.calls
        self.kept, self.unexplained = Counter[str](), Counter[str]()
        a, c = self.a, self.c
        self.count, self.launched = len(a.start), a.call >= 0
        call = np.maximum(a.call, 0)
        self.called = np.where(self.launched, c.start[call], NEVER)
        self.before_end = np.where(a.before >= 0, a.end[np.maximum(a.before, 0)], NEVER)
        self.by_end = np.argsort(a.end, kind="stable")
        self.end_times = a.end[self.by_end]
        self.owner = np.full(int(c.chain.max()) + 1, int(a.owner.max()) + 1, dtype=np.int64)
        self.owner[c.chain[a.call[self.launched]]] = a.owner[self.launched]
        self.owner = self.owner[c.chain]
        self.zero = int(min(a.start.min(), c.start.min())) - LAG_NS
        self.room = int(max(a.end.max(), c.end.max())) + LAG_NS - self.zero if a.owner.any() else 0
        self.is_wait, self.length = c.named(WAITS), c.end - c.start
        # a call that covers its own copy waited for it, whatever its name; one that does not returned before
        copies = np.flatnonzero(self.launched & a.kind.where(lambda kind: kind == "memcpy"))
        by = a.call[copies]
        self.covered = copies[covers_copy(c.start[by], c.end[by], a.start[copies], a.end[copies])]
        self.is_wait[by], self.is_wait[a.call[self.covered]] = False, True
        self.launches = np.zeros(len(c.start), dtype=bool)
        self.launches[a.call[self.launched]] = True
        self.usual = _by_name(self.length, c.name, len(c.names), 0.5)
        launched = np.flatnonzero(self.launched)
        keys = stream_keys(a.stream[launched], self.called[launched])
        self.queue = launched[np.argsort(keys, kind="stable")]  # by stream, then launch
        self.queued = self.called[self.queue]
        self.streams = int(a.stream.max()) + 1
        self.of_stream = np.searchsorted(a.stream[self.queue], np.arange(self.streams + 1))

    def of_owner(self, owner: Ints | Rows, moment: Ints) -> Ints:
        """Keys that sort by process, then time (ns): clocks of processes differ, and calls wait only for their own."""
        return owner * np.int64(self.room) + (moment - self.zero)

    def order(self) -> Order:
        """All dependencies; each step needs the results of the steps before it."""
        a = self.a
        latency, gap = self.latencies()
        ready = np.maximum(
            np.where(self.launched, self.called + latency, NEVER),
            np.where(a.before >= 0, self.before_end + gap, NEVER),
        )
        inner = self.launched & ~a.first
        base, base_lag, launch_lag, before_lag = self.inside_graphs(inner, latency, gap)
        source, lag = self.stream_waits(ready, inner, launch_lag, before_lag)
        fixed = self.pinned(latency, source)
        stray = ~self.launched
        own = a.start - self.before_end
        before_lag = np.where(stray & (source < 0) & (a.before >= 0), np.maximum(own, 0), before_lag)
        held = stray & (source < 0) & (a.before >= 0) & (own > LONG_NS)
        self.kept["gaps between activities without a launch"] += int(own[held].sum())
        cross = _links(self.count, np.flatnonzero(source >= 0), source[source >= 0], lag[source >= 0])
        waits, wait_lag, floor = self.host_waits()
        if self.recording.unseen_ns > UNSEEN * (self.recording.end - self.recording.begin):
            self.unexplained["host time in which nothing was recorded"] += self.recording.unseen_ns
        blocked = np.flatnonzero(self.launched & a.first & np.isin(a.call, self.blocked))
        launch_lag[blocked] -= self.hand[a.call[blocked]]  # the call was long because it waited
        return Order(
            launch_lag, fixed, base, base_lag, before_lag, cross, waits, wait_lag, floor, dict(self.kept),
            dict(self.unexplained),
        )

    def latencies(self) -> tuple[Ints, int]:
        """Undelayed latency of each activity, from the begin of its launch call to its start; gap in a busy queue; ns.

        A launch call that took long, for example to load a module, submits its work at its end.
        """
        a, c = self.a, self.c
        some = self.launched & a.first & (a.before >= 0)
        idle, spans = some & (self.before_end < self.called), a.start - self.called
        name = c.name[np.maximum(a.call, 0)]
        latency = _by_name(spans[idle], name[idle], len(c.names), _LOW, least=5, default=_LATENCY_NS)[name]
        gaps = (a.start - self.before_end)[some & ~idle & (spans > LONG_NS)]
        late = self.length - self.usual[c.name]
        hand = np.where(self.launches & (late > LONG_NS), late, 0)
        first = np.flatnonzero(a.first)
        hand[a.call[first[a.start[first] < c.end[a.call[first]] - self.usual[name[first]]]]] = 0
        waited = self.is_wait[a.call[first]] & (a.end[first] <= c.end[a.call[first]]) & (
            self.before_end[first] > self.called[first])
        hand[a.call[first[waited]]] = 0  # the call was long because it waited for work queued before its own
        self.hand = hand
        latency += np.where(self.launched, hand[np.maximum(a.call, 0)], 0)
        gaps = gaps[gaps <= LONG_NS]  # a longer one is a wait
        return latency, int(np.median(gaps)) if len(gaps) else _GAP_NS

    def inside_graphs(self, inner: Mask, latency: Ints, gap: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Graph nodes keep their recorded gap to the previous node on the stream, else their offset to the first."""
        a = self.a
        first_of = np.full(len(self.c.start), -1, dtype=np.int64)
        firsts = np.flatnonzero(a.first)
        first_of[a.call[firsts]] = firsts
        follows = inner & (a.before >= 0) & (a.call[np.maximum(a.before, 0)] == a.call)
        own = a.start - self.before_end
        base = np.where(inner & ~follows, first_of[np.maximum(a.call, 0)], -1)
        base_lag = np.where(base >= 0, a.start - a.start[np.maximum(base, 0)], 0)
        before_lag = np.where(a.before < 0, 0, np.where(follows, own, np.where(inner, np.minimum(own, gap), gap)))
        self.kept["gaps inside graph launches"] += int(own[follows & (own > LONG_NS)].sum())
        return base, base_lag, np.where(self.launched & ~inner, latency, NEVER), before_lag

    def called_stream_wait(self) -> Mask:
        """Whether each activity's thread called StreamWaitEvent between its previous launch and this one."""
        thread, moment = self.recording.stream_waits
        c, launches = self.c, np.flatnonzero(self.launches)
        keys = stream_keys(np.concatenate((c.thread[launches], thread)), np.concatenate((c.start[launches], moment)))
        order = np.argsort(keys, kind="stable")
        is_wait = order >= len(launches)
        owner = np.concatenate((c.thread[launches], thread))[order]
        hit = np.zeros(len(c.start), dtype=bool)
        after = np.flatnonzero(~is_wait[1:] & is_wait[:-1] & (owner[1:] == owner[:-1])) + 1
        hit[launches[order[after]]] = True
        return self.launched & self.a.first & hit[np.maximum(self.a.call, 0)]

    def stream_waits(self, ready: Ints, inner: Mask, launch_lag: Ints, before_lag: Ints) -> tuple[Ints, Ints]:
        """Per activity, the activity of another stream it waited for (-1: none), and its delay after that one's end."""
        a, asked = self.a, self.called_stream_wait()
        source, lags = np.full(self.count, -1, dtype=np.int64), np.zeros(self.count, dtype=np.int64)
        rest = np.where(ready == NEVER, 0, a.start - ready)
        rows = np.flatnonzero((rest >= AFTER_EVENT_NS) & ~inner)
        ended = np.searchsorted(self.end_times, a.start[rows] + AFTER_EVENT_NS, side="right")
        reach = np.where(asked[rows] | ~self.launched[rows], FAR_NS, NEAR_NS)
        src, lag, room = (np.full(len(rows), -1, dtype=np.int64) for _ in range(3))
        arrays: list[npt.NDArray[Any]] = [
            rows, a.start, a.end, a.stream, a.owner, self.called, rest[rows], reach, self.by_end, self.end_times, ended,
        ]
        outputs = [src, lag, room]
        native = REPLAY.load()
        if native is not None:
            native.call("bind", *map(plain, arrays), LONG_NS, *outputs)
        else:
            lists: list[Any] = [one.tolist() for one in outputs]
            given: list[Any] = [*(one.tolist() for one in arrays), LONG_NS, *lists]
            bind(*given)
            src, lag, room = (np.array(one, dtype=np.int64) for one in lists)
        bound = src >= 0
        learned: dict[int, Counter[int]] = {}
        both = a.stream[rows[bound]] * np.int64(self.streams) + a.stream[src[bound]]
        pairs, first, times = np.unique(both, return_index=True, return_counts=True)
        for at in np.argsort(first):
            stream, other = divmod(int(pairs[at]), self.streams)
            learned.setdefault(stream, Counter())[other] = int(times[at])
        held = (src < 0) & (room >= 0)
        for at in np.flatnonzero(held).tolist():
            row, full = int(rows[at]), int(room[at])
            if ready[row] >= a.start[full] - LONG_NS:
                src[at], lag[at] = full, a.start[row] - a.end[full]
                continue
            low, high = np.searchsorted(self.end_times, (a.start[full] - LONG_NS, a.start[row]), side="left")
            free = self.by_end[low:high]
            free = free[a.stream[free] != a.stream[row]]
            if len(free):  # the last activity that ended while that kernel ran made room
                src[at], lag[at] = free[-1], a.start[row] - a.end[free[-1]]
                self.kept["waits for room on the device"] += int(lag[at])
        source[rows], lags[rows] = src, np.where(src >= 0, lag, 0)
        staged = self.staged(rows[src < 0])
        lag = a.start[staged] - self.called[staged]
        late = np.minimum(lag, a.start[staged] - self.before_end[staged]) if len(staged) else lag
        after = late < np.minimum(lag, LONG_NS)  # the copy started right after its predecessor: the call waited for it
        before_lag[staged[after]] = late[after]
        launch_lag[staged] = np.where(after, np.minimum(launch_lag[staged] - self.hand[a.call[staged]], lag), lag)
        left = rows[(src < 0) & (rest[rows] > LONG_NS)]
        self.rest = np.zeros(self.count, dtype=np.int64)
        self.rest[left] = rest[left]
        self.rest[staged] = 0
        self.unbound(np.flatnonzero(asked & (source < 0)), learned, source, lags)
        return source, lags

    def staged(self, rows: Ints) -> Ints:
        """The activities that are copies of pageable memory, staged by the host inside their call."""
        a = self.a
        pageable = a.name.where(lambda name: name is not None and "Pageable" in name)
        inside = self.launched[rows] & (a.start[rows] <= self.c.end[np.maximum(a.call[rows], 0)])
        return rows[pageable[rows] & inside]

    def unbound(self, rows: Ints, learned: dict[int, Counter[int]], source: Ints, lags: Ints) -> None:
        """Bind recorded stream waits that have no source yet: to the stream waited for elsewhere, or the only other."""
        a = self.a
        _, first = np.unique(a.stream, return_index=True)
        others: dict[int, Ints] = {}
        likely, against = dict[int, list[tuple[int, int]]](), Counter[int]()
        for row in rows.tolist():
            stream = int(a.stream[row])
            if stream in learned:
                other = learned[stream].most_common(1)[0][0]
            else:
                if stream not in others:
                    same = (a.device[first] == a.device[row]) & (a.owner[first] == a.owner[row])
                    others[stream] = a.stream[first][same & (a.stream[first] != stream)]
                if len(others[stream]) != 1:
                    continue
                other = int(others[stream][0])
            launch = self.last_launched(other, int(self.called[row]))
            if launch < 0:
                continue
            since = int(a.start[row] - a.end[launch])
            if self.rest[row] > LONG_NS and 0 <= since < self.rest[row] * _LOW:
                source[row], lags[row] = launch, AFTER_EVENT_NS
            elif since >= -AFTER_EVENT_NS:
                likely.setdefault(stream, []).append((row, launch))
            else:
                against[stream] += 1
        for stream, pairs in likely.items():
            if against[stream] > _EXCEPTIONS * len(pairs):
                continue  # these waits were for another stream, or for work launched earlier
            for row, launch in pairs:
                source[row], lags[row] = launch, AFTER_EVENT_NS

    def last_launched(self, stream: int, moment: int) -> int:
        """The last activity of a stream launched before a moment, -1 for none."""
        low, high = self.of_stream[stream], self.of_stream[stream + 1]
        at = int(np.searchsorted(self.queued[low:high], moment, side="left")) - 1
        return int(self.queue[low + at]) if at >= 0 else -1

    def pinned(self, latency: Ints, source: Ints) -> Ints:
        """Starts kept as recorded (else ``NEVER``): a device's first activity if it waited for work from before the
        recording, and a stream's first activity if it has no launch."""
        a = self.a
        fixed = np.where((a.before < 0) & ~self.launched, a.start, NEVER)
        first = np.unique(a.device, return_index=True)[1]
        late = ~self.launched[first] | (a.start[first] - self.called[first] > latency[first] + LONG_NS)
        some = first[late & (source[first] < 0)]
        fixed[some] = a.start[some]
        self.rest[some] = 0
        launched = some[self.launched[some]]
        self.kept["work from before the recording"] += int((a.start[launched] - self.called[launched]).sum())
        self.unexplained["waits nobody recorded"] += int(self.rest.sum())
        return fixed

    def host_waits(self) -> tuple[Links, Ints, Ints]:
        """Per call, the activities it waits for, how long after their end it returns, and its minimum duration, ns."""
        a, c = self.a, self.c
        keys = self.of_owner(a.owner, a.end)
        by_end = np.argsort(keys, kind="stable") if self.room else self.by_end
        returned = self.of_owner(self.owner, c.end + 1_000)
        last = np.searchsorted(keys[by_end], returned, side="right") - 1  # the last to end before the call returned
        ended = by_end[np.maximum(last, 0)]
        done = np.where((last >= 0) & ((a.owner[ended] == self.owner) | (not self.room)), a.end[ended], NEVER)
        rows, on = list[Ints | Rows](), list[Ints]()
        lag = np.zeros(len(c.start), dtype=np.int64)
        waiting = np.zeros(len(c.start), dtype=bool)

        def add(some: Ints | Rows, activities: Ints, lags: Ints) -> None:
            rows.append(some)
            on.append(activities)
            lag[some], waiting[some] = lags, True

        # copy calls that returned when the copy was done
        own = np.flatnonzero(self.launched)
        over = (a.end[own] <= c.end[a.call[own]] + 1_000) | np.isin(own, self.covered)
        own = own[self.is_wait[a.call[own]] & over]
        final = own[np.argsort(a.call[own], kind="stable")]
        final = final[np.append(np.diff(a.call[final]) != 0, True)] if len(final) else final
        pageable = a.name.where(lambda name: name is not None and "Pageable" in name)[final]
        by = a.call[final]
        blocks = np.isin(final, self.covered) | pageable | ~c.named(_ASYNC)[by] | (self.length[by] > _BLOCKED_NS)
        add(by[blocks], final[blocks], c.end[by[blocks]] - a.end[final[blocks]])
        # calls that returned right after work ended
        constant = self.returned_alike(c.end - done)
        near = (self.length >= _BUSY_NS) & (done > c.start) & (c.end - done < LAG_NS) | constant
        waits = np.flatnonzero(self.is_wait & ~self.launches & near)
        lags = _by_name(c.end[waits] - done[waits], c.name[waits], len(c.names), 0.5, default=_RETURN_NS)
        add(waits, ended[waits], np.where(constant[waits], c.end[waits] - done[waits], lags[c.name[waits]]))
        short = np.flatnonzero(self.is_wait & ~self.launches & ~near & (self.length < _BLOCKED_NS))
        base = _by_name(self.length[short], c.name[short], len(c.names), _LOW, default=AFTER_EVENT_NS)
        # launches into a full queue
        owner = a.owner[self.launched]
        sent, gone = np.sort(self.of_owner(owner, self.called[self.launched])), np.sort(keys[self.launched])
        full = self.launches & ~waiting & (self.length > _BLOCKED_NS) & (done > c.start) & (c.end - done < LAG_NS)
        some = np.flatnonzero(full)
        flight = np.searchsorted(sent, self.of_owner(self.owner, c.start)[some], side="left") - np.searchsorted(
            gone, returned[some], side="right")
        blocked = some[flight > FULL]
        add(blocked, ended[blocked], c.end[blocked] - done[blocked])
        self.blocked = blocked
        # calls that did not wait but would on a slower device; and the other streams that a device-wide call waits for
        everything, synchronising = c.named(_ALL), c.named(_STREAM_OR_DEVICE)
        owner_of = np.zeros(self.streams, dtype=np.int64)
        owner_of[a.stream] = a.owner
        for call in np.flatnonzero(synchronising & ~self.launches & (~waiting | everything)).tolist():
            matching = np.flatnonzero(owner_of == self.owner[call]) if self.room else np.arange(self.streams)
            streams = matching.tolist() if everything[call] else self.stream_used(call)
            last_of = np.array([self.last_launched(stream, int(c.start[call])) for stream in streams], dtype=np.int64)
            last_of = last_of[last_of >= 0]
            last_of = last_of[(a.end[last_of] <= c.end[call] + 1_000)]
            if len(last_of):
                at = np.full(len(last_of), call, dtype=np.int64)
                add(at, last_of, lag[at] if waiting[call] else lags[c.name[at]])
        polled, on_what = self.recording.polled
        add(polled, on_what, c.end[polled] - a.end[on_what])
        bare = self.is_wait & c.named(_BLOCKING) & ~waiting & (self.length > LONG_NS)
        self.unexplained["blocking calls that nothing recorded explains"] += int(self.length[bare].sum())
        links = _links(len(c.start), np.concatenate(rows), np.concatenate(on), np.zeros(sum(map(len, on)), np.int64))
        floor = np.minimum(self.length, np.where(self.is_wait, base[c.name], self.usual[c.name]))
        floor[polled] = 0
        return links, lag, floor

    def returned_alike(self, after: Ints) -> Mask:
        """Waits that return late after the work, but most of them in their process with the same delay: waits for
        anything else would not be that regular. The delay counts as unexplained."""
        c = self.c
        long = self.c.named(_STREAM_OR_DEVICE) & ~self.launches & (self.length > _BLOCKED_NS) & (after < self.length)
        some, late = np.zeros(len(c.start), dtype=bool), long & (after >= LAG_NS)
        for chain in np.unique(c.chain[late]):
            matching = np.flatnonzero(late & (c.chain == chain))
            low, high = np.quantile(after[matching], (0.1, 0.9))
            if len(matching) >= max(_SEVERAL, int((long & (c.chain == chain)).sum()) / 2) and high - low <= NEAR_NS:
                some[matching[np.abs(after[matching] - (low + high) / 2) <= NEAR_NS]] = True
        self.unexplained["waits that return late"] += int(after[some].sum())
        return some

    def stream_used(self, call: int) -> list[int]:
        """The stream that the call's thread last launched on before the call; empty if none."""
        if not hasattr(self, "_threads"):
            c, first = self.c, np.flatnonzero(self.a.first)
            key = stream_keys(c.thread[self.a.call[first]], self.called[first])
            self._threads = first[np.argsort(key, kind="stable")]
            self._thread_of, self._at = c.thread[self.a.call[self._threads]], self.called[self._threads]
        low, high = np.searchsorted(self._thread_of, (self.c.thread[call], self.c.thread[call] + 1))
        at = int(np.searchsorted(self._at[low:high], self.c.start[call])) - 1
        return [int(self.a.stream[self._threads[low + at]])] if at >= 0 else []


def _by_name(
    values: Ints, names: Ints, count: int, quantile: float, least: int = 1, default: int = 0
) -> Ints:
    """Quantile of each name's values; with fewer than ``least``, that of all (if ``least`` > 1), else ``default``."""
    def at_quantile(some: Ints) -> int:
        place = int(len(some) * quantile)
        return int(np.partition(some, place)[place])

    out = np.full(count, at_quantile(values) if least > 1 and len(values) else default, dtype=np.int64)
    order = np.argsort(names.astype(np.min_scalar_type(count)), kind="stable")
    edges = np.searchsorted(names[order], np.arange(count + 1))
    for name in np.flatnonzero(np.diff(edges) >= least).tolist():
        out[name] = at_quantile(values[order[edges[name] : edges[name + 1]]])
    return out


def _links(count: int, rows: Ints, on: Ints, lag: Ints) -> Links:
    order = np.argsort(rows, kind="stable")
    to = np.append(0, np.cumsum(np.bincount(rows, minlength=count))).astype(np.int32)
    return Links(to, on[order], lag[order])
