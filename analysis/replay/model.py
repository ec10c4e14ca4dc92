"""The model of a run: replayed unchanged it ends when the run did, replayed with changes it says what they buy."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.call_tree import Ints, Mask
from .loop import BEGIN, FINISH, NEVER, START, run
from .program import REPLAY
from .recording import Recording
from .together import Together, apart
from .waits import Order, order_of, plain

Floats = npt.NDArray[np.float64]


class Knobs(Struct):
    """What a change turns: time of activities, host time before calls, length of calls (ns), share of waits left.

    ``launch_lag``, ``before_lag`` and ``floor`` are as in ``Order``, ``group`` and ``transfer`` as in ``Together``.
    Arrays are replaced, never written to: those that no change turns are the model's own.
    """

    dur: Ints
    gap: Ints
    length: Ints
    floor: Ints
    wait_share: Floats
    launch_lag: Ints
    before_lag: Ints
    group: Ints
    transfer: Ints

    def largest(self, recorded: Knobs) -> tuple[str, int] | None:
        """Where most was taken: ``dur`` and an activity, or ``gap`` or ``length`` and a call; None where nothing."""
        best: tuple[int, str, int] | None = None
        waits = self.length
        if self.wait_share is not recorded.wait_share:
            waits = np.where(self.wait_share < 1, 0, self.length)
        for name, now, before in (
            ("dur", self.dur, recorded.dur), ("gap", self.gap, recorded.gap), ("length", waits, recorded.length),
        ):
            if now is before or not len(now):
                continue
            less = before - now
            at = int(less.argmax())
            if less[at] > 0 and (best is None or less[at] > best[0]):
                best = int(less[at]), name, at
        return None if best is None else best[1:]

    def turned(self, recorded: Knobs) -> tuple[float, ...]:
        """What tells these knobs from others: by how much each was turned in all."""
        return tuple(
            0.0 if getattr(self, name) is getattr(recorded, name)
            else float(getattr(self, name).sum() - getattr(recorded, name).sum()) for name in self.__struct_fields__)


class Outcome(Struct, frozen=True):
    """Where a replay puts everything, ns; ``call_by`` and ``activity_by`` say what came before (``loop.run``)."""

    begin: Ints
    finish: Ints
    start: Ints
    end: Ints
    call_by: Ints
    activity_by: Ints


class Model:
    """A recording with what orders it, ready to be replayed any number of times."""

    def __init__(self, recording: Recording, links: Together | None = None) -> None:
        self.recording, self.order, self.links = recording, order_of(recording), links or apart(recording)
        a, c = recording.activities, recording.calls
        self.events, self.gap, self.anchor, self.advances = _events(recording, self.order, self.links)
        chains = int(c.chain.max()) + 1
        self.first = np.full(chains, np.iinfo(np.int64).max)
        np.minimum.at(self.first, c.chain, c.start)
        order = self.order
        self._native = REPLAY.load()
        fixed = {
            "events": self.events, "chain": c.chain, "advances": self.advances, "waits_to": order.waits.to,
            "wait_on": order.waits.on, "wait_lag": order.wait_lag, "launch": a.call, "fixed": order.fixed,
            "base": order.base, "base_lag": order.base_lag, "before": a.before, "ahead": self.links.ahead,
            "late": self.links.late,
        }
        self._cross = [self._made(one) for one in (order.cross.to, order.cross.on, order.cross.lag)]
        self._fixed = {
            name: self._made(values) for name, values in fixed.items()
        }

    @cached_property
    def recorded(self) -> Knobs:
        """Everything as recorded."""
        a, c, order = self.recording.activities, self.recording.calls, self.order
        return Knobs(
            a.dur, self.gap, c.end - c.start, order.floor, np.ones(len(c.start)), order.launch_lag, order.before_lag,
            self.links.group, self.links.transfer)

    def replay(self, knobs: Knobs | None = None) -> Outcome:
        """Replay the run, as recorded or with the knobs turned."""
        return self._replayed(knobs or self.recorded, *(np.empty(len(size), dtype=np.int64) for size in self._sizes))

    def cycle_with(self, knobs: Knobs) -> float:
        """Time of a cycle (``cycle_ns``) with the knobs turned, in memory that the next one uses again."""
        return self.cycle_ns(self._replayed(knobs, *self._scratch))

    @property
    def _sizes(self) -> tuple[Ints, ...]:
        """Arrays as long as those of an ``Outcome``."""
        calls, activities = self.gap, self.links.group
        return calls, calls, activities, activities, calls, activities

    @cached_property
    def _scratch(self) -> tuple[Ints, ...]:
        return tuple(np.empty(len(size), dtype=np.int64) for size in self._sizes)

    def _replayed(self, knobs: Knobs, *filled: Ints) -> Outcome:
        for values, value in zip(filled, (0, 0, NEVER, NEVER, -1, -1), strict=True):
            values.fill(value)
        made, fixed = self._made, self._fixed
        outputs = [made(values) for values in filled]
        arguments = [
            fixed["events"], made(knobs.gap), made(knobs.length), made(knobs.floor), made(knobs.wait_share),
            fixed["chain"], fixed["advances"], fixed["waits_to"], fixed["wait_on"], fixed["wait_lag"], fixed["launch"],
            made(knobs.launch_lag), fixed["fixed"], fixed["base"], fixed["base_lag"], fixed["before"],
            made(knobs.before_lag), *self._cross, made(knobs.dur), made(knobs.group), made(knobs.transfer),
            fixed["ahead"], fixed["late"], made(np.full(len(knobs.transfer), NEVER, dtype=np.int64)),
            made(self.first.astype(np.int64)),
        ]
        if self._native is not None:
            self._native.call("run", *arguments, *outputs)
        else:
            run(*arguments, *outputs)
        begin, finish, start, end, call_by, activity_by = (np.asarray(one, dtype=np.int64) for one in outputs)
        return Outcome(begin, finish, start, end, call_by, activity_by)

    def _made(self, values: npt.NDArray[Any]) -> Any:
        return plain(values) if self._native is not None else values.tolist()

    def total(self, outcome: Outcome) -> int:
        """How long a replay took from the first call or activity to the end of the last, ns."""
        return int(max(outcome.end.max(), outcome.finish[self._real].max())) - self.begin(outcome)

    def begin(self, outcome: Outcome) -> int:
        """Where the first call or activity of a replay begins, ns."""
        return int(min(outcome.start.min(), outcome.begin[self._real].min()))

    @cached_property
    def _marks(self) -> list[tuple[Ints, Floats, Ints, Ints, Mask]]:
        """For each rank its cycles' rows and ends (ns), and of its host timeline the begins and ends of calls around
        these: 2 · call, + 1 for an end, when that was recorded (ns), and which are later than all before them."""
        c, cycles = self.recording.calls, self.recording.cycles
        marks = (cycles["start_ns"] + cycles["dur_ns"]).to_numpy().astype(np.float64)
        found = []
        for rows in self.cycle_rows:
            mine = np.flatnonzero((c.chain == self.chain_of(rows)) & (self.advances > 0))
            recorded = np.stack((c.start[mine], c.end[mine]), axis=1).ravel()
            later = np.append(True, recorded[1:] > np.maximum.accumulate(recorded)[:-1])
            rising, step = recorded[later], np.cumsum(later) - 1
            last = np.searchsorted(rising, marks[rows], side="right") - 1
            near = np.zeros(len(rising), dtype=bool)
            near[np.concatenate((last, last + 1, [0, len(rising) - 1])).clip(0, len(rising) - 1)] = True
            keep = np.flatnonzero(near[step] & (recorded == rising[step]))
            found.append((rows, marks[rows], 2 * mine[keep // 2] + keep % 2, recorded[keep], later[keep]))
        return found

    @cached_property
    def launches(self) -> Mask:
        """The calls that launched an activity."""
        call = self.recording.activities.call
        some = np.zeros(len(self.gap), dtype=bool)
        some[call[call >= 0]] = True
        return some

    @cached_property
    def _real(self) -> Mask:
        """The calls that are no edges of cycles, which may lie outside of what was recorded."""
        return self.recording.calls.row >= 0

    @cached_property
    def cycle_rows(self) -> list[Ints]:
        """For each rank the rows of its cycles, by start."""
        cycles = self.recording.cycles.with_row_index("at").sort("start_ns", maintain_order=True)
        return [group["at"].to_numpy().astype(np.int64) for _, group in cycles.group_by("rank", maintain_order=True)]

    @cached_property
    def _by_cycle(self) -> tuple[Ints, Ints]:
        """The activities in cycles by cycle, and where those of each that has any begin among them."""
        cycle = self.recording.activities.cycle
        order = np.flatnonzero(cycle >= 0)
        order = order[np.argsort(cycle[order], kind="stable")]
        return order, np.flatnonzero(np.diff(cycle[order], prepend=-1))

    @cached_property
    def by_call(self) -> tuple[Ints, Ints]:
        """The activities by call, and where those of each call begin among them."""
        call = self.recording.activities.call
        order = np.flatnonzero(call >= 0)
        order = order[np.argsort(call[order], kind="stable")]
        return order, np.searchsorted(call[order], np.arange(len(self.gap) + 1))

    def cycle_ends(self, outcome: Outcome | None = None) -> list[Floats]:
        """For each rank where its cycles' work ends, ns: with their mark or the last activity launched in them."""
        a = self.recording.activities
        reach = np.full(self.recording.cycles.height, NEVER, dtype=np.int64)
        inside, first = self._by_cycle
        if len(inside):
            end = a.end if outcome is None else outcome.end
            reach[a.cycle[inside[first]]] = np.maximum.reduceat(end[inside], first)
        found = []
        for rows, ends, place, recorded, later in self._marks:
            if outcome is not None:
                ends = _between(ends, recorded, later, np.where(
                    place % 2, outcome.finish[place // 2], outcome.begin[place // 2]))
            work = reach[rows]
            found.append(np.where(work == NEVER, ends, work if self.recording.device_time else np.maximum(ends, work)))
        return found

    def chain_of(self, cycles: Ints) -> int:
        """The host timeline that most of the activities of some cycles were launched from."""
        a, c = self.recording.activities, self.recording.calls
        mine = (a.call >= 0) & np.isin(a.cycle, cycles)
        chains = c.chain[a.call[mine]] if mine.any() else c.chain
        return int(np.bincount(chains).argmax())

    def cycle_ns(self, outcome: Outcome) -> float:
        """Time of a cycle in a replay: from the end of the first's work to that of the last's, over their number.

        The mean over the ranks; the whole length where there are fewer than two cycles.
        """
        spans = [(one.max() - one[0]) / (len(one) - 1) for one in self.cycle_ends(outcome) if len(one) > 1]
        return float(np.mean(spans)) if spans else float(self.total(outcome))

    @cached_property
    def cycles(self) -> int:
        """How many cycles the times are means of; 0 where they are of the whole recording."""
        return max((len(one) - 1 for one in self.cycle_ends() if len(one) > 1), default=0)


def _between(moments: Floats, recorded: Ints, later: Mask, replayed: Ints) -> Floats:
    """Where a replay has moments (ns) that lie between others: of those recorded at once the last that comes no earlier
    in the replay than the one before it."""
    forward = later.copy()
    forward[1:] |= replayed[1:] >= replayed[:-1]
    recorded, replayed = recorded[forward], replayed[forward]
    at = np.interp(moments, recorded, replayed)
    at = np.where(moments < recorded[0], moments - recorded[0] + replayed[0], at)
    return np.asarray(np.where(moments > recorded[-1], moments - recorded[-1] + replayed[-1], at))


def _events(recording: Recording, order: Order, links: Together) -> tuple[Ints, Ints, Ints, Ints]:
    """The events in recorded order; of each call the host time before it, the call that ended then, and whether it
    moves its host timeline on."""
    a, c = recording.activities, recording.calls
    calls, activities = np.arange(len(c.start)), np.arange(len(a.start))
    begun = np.where(a.call >= 0, np.maximum(a.start, c.start[np.maximum(a.call, 0)]), a.start)
    instant = np.diff(order.waits.to) == 0  # when it returns is known as it begins
    returns = calls[~instant]
    ahead = links.calls_ahead
    time = np.concatenate((c.start - ahead, begun - links.ahead, c.end[returns] - ahead[returns]))
    code = np.concatenate((3 * calls + BEGIN, 3 * activities + START, 3 * returns + FINISH))
    kind = np.concatenate((np.full(len(calls), 1), np.full(len(activities), 2), np.zeros(len(returns), dtype=np.int64)))
    events = code[np.lexsort((kind, time))]
    gap, anchor = np.zeros(len(calls), dtype=np.int64), np.full(len(calls), -1, dtype=np.int64)
    advances = np.zeros(len(calls), dtype=np.int64)
    of_calls = events[events % 3 != START]
    moves = of_calls[(of_calls % 3 == FINISH) | instant[of_calls // 3]] // 3
    begins = events[events % 3 == BEGIN] // 3
    place = {kind: np.full(len(calls), -1, dtype=np.int64) for kind in (BEGIN, FINISH)}
    for one in (BEGIN, FINISH):
        at = np.flatnonzero(events % 3 == one)
        place[one][events[at] // 3] = at
    place[FINISH][instant] = place[BEGIN][instant]
    for chain in np.unique(c.chain):
        mine = moves[c.chain[moves] == chain]
        reach = np.maximum.accumulate(c.end[mine])
        forward = c.end[mine] >= reach
        mine, reach = mine[forward], reach[forward]
        advances[mine] = 1
        own = begins[c.chain[begins] == chain]
        last = np.searchsorted(place[FINISH][mine], place[BEGIN][own], side="left") - 1
        first = int(c.start[own].min())
        gap[own] = c.start[own] - np.where(last >= 0, c.end[mine[np.maximum(last, 0)]], first)
        anchor[own] = np.where(last >= 0, mine[np.maximum(last, 0)], -1)
    return events.astype(np.int64), gap, anchor, advances
