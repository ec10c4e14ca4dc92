"""The model of a run: replayed unchanged it ends when the run did, replayed with changes it says what they buy."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..core.call_tree import Ints, Mask, Rows
from .events import events_of
from .loop import NEVER, run
from .program import REPLAY
from .recording import Recording
from .together import Together, apart
from .waits import order_of, plain

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
    group: Rows
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


class Reached(Struct, frozen=True):
    """How far the activities of each cycle reach in a replay (``NEVER`` without any), and when its marks are, ns."""

    cycles: Ints
    marks: Ints


class Outcome(Struct, frozen=True):
    """Where a replay with these knobs puts everything, ns."""

    begin: Ints
    finish: Ints
    start: Ints
    end: Ints
    reached: Reached
    knobs: Knobs


class Model:
    """A recording with what orders it, ready to be replayed any number of times."""

    def __init__(self, recording: Recording, links: Together | None = None) -> None:
        self.recording, self.order, self.links = recording, order_of(recording), links or apart(recording)
        self.events = events_of(recording, self.order, self.links)
        self.gap, self.anchor = self.events.gap, self.events.anchor
        c = recording.calls
        self.first = np.full(int(c.chain.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(self.first, c.chain, c.start)
        self._native = REPLAY.load()

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """What no change turns, as the loop takes it."""
        order, events, a, links = self.order, self.events, self.recording.activities, self.links
        narrow: dict[str, npt.NDArray[Any]] = {
            "events": events.code, "chain": self.recording.calls.chain, "advances": events.advances,
            "waits_to": order.waits.to, "wait_on": events.wait, "launch": events.launch, "base": events.base,
            "before": events.before, "cross_to": order.cross.to, "cross_on": events.cross, "cycle": a.cycle,
            "members": np.flatnonzero(links.group >= 0), "mark_at": self._marks[2], "mark_end": self._marks[3],
        }
        wide = {
            "wait_lag": order.wait_lag, "fixed": order.fixed, "base_lag": order.base_lag, "cross_lag": order.cross.lag,
            "ahead": links.ahead, "late": links.late,
        }
        return {name: self._made(values, np.int32) for name, values in narrow.items()} | {
            name: self._made(values) for name, values in wide.items()}

    @cached_property
    def recorded(self) -> Knobs:
        """Everything as recorded."""
        a, c, order = self.recording.activities, self.recording.calls, self.order
        return Knobs(
            a.dur, self.gap, c.end - c.start, order.floor, np.ones(len(c.start)), order.launch_lag, order.before_lag,
            self.links.group, self.links.transfer)

    def replay(self, knobs: Knobs | None = None) -> Outcome:
        """Replay the run, as recorded or with the knobs turned."""
        return self._replayed(knobs or self.recorded, 1, None, True)[0]

    def cycles_with(self, knobs: Knobs, half_host: bool = False, at_peak: Ints | None = None) -> list[float]:
        """Time of a cycle (``cycle_ns``) with the knobs turned, then with host code half as long as they leave it, then
        as recorded with these durations of activities, in one go."""
        lanes = 3 if at_peak is not None else 2 if half_host else 1
        return [self.cycle_ns(one) for one in self._replayed(knobs, lanes, at_peak, not self.cycles)]

    def _replayed(self, knobs: Knobs, lanes: int, at_peak: Ints | None, whole: bool) -> list[Outcome]:
        """One outcome for each lane; unless it is whole, rows of it are overwritten by later ones."""
        made, fixed, sizes, masks = self._made, self._fixed, [], []
        for rows, room in ((len(self.gap), self.events.call_room), (len(self.links.group), self.events.room)):
            whole_of = whole or room >= rows
            sizes.append(rows if whole_of else room)
            masks.append(-1 if whole_of else room - 1)
        calls, activities = sizes
        cycles, marks = self.recording.cycles.height, len(self._marks[2]) - 1
        arrays = [np.full(len(knobs.transfer) * lanes, NEVER), np.repeat(self.first, lanes)]
        arrays += [np.zeros(size * lanes, dtype=np.int64) for size in (calls, calls, activities, activities)]
        arrays += [np.full(cycles * lanes, NEVER), np.empty(marks * lanes, dtype=np.int64)]
        outputs = [made(one) for one in arrays]
        arguments = [
            fixed["events"], made(knobs.gap), made(knobs.length), made(knobs.floor), made(knobs.wait_share, np.float64),
            *(fixed[name] for name in ("chain", "advances", "waits_to", "wait_on", "wait_lag", "launch")),
            made(knobs.launch_lag), *(fixed[name] for name in ("fixed", "base", "base_lag", "before")),
            made(knobs.before_lag), *(fixed[name] for name in ("cross_to", "cross_on", "cross_lag")), made(knobs.dur),
            made(knobs.group, np.int32), made(knobs.transfer),
            *(fixed[name] for name in ("ahead", "late", "cycle", "members", "mark_at", "mark_end")), made(self.gap),
            made(knobs.dur if at_peak is None else at_peak), lanes, *masks,
        ]
        if self._native is not None:
            self._native.call("run", *arguments, *outputs)
        else:
            run(*arguments, *outputs)
        filled = [np.asarray(one, dtype=np.int64).reshape(-1, lanes).T for one in outputs[2:]]
        return [
            Outcome(begin, finish, start, end, Reached(reach, at_marks), knobs)
            for begin, finish, start, end, reach, at_marks in zip(*filled, strict=True)
        ]

    def _made(self, values: npt.NDArray[Any], kind: type = np.int64) -> Any:
        return plain(values, kind) if self._native is not None else values.tolist()

    def started_after(self, outcome: Outcome, row: int) -> int:
        """What an activity started right after in a replay: another one, or -2 - its launch call; -1 for neither."""
        order, events, knobs = self.order, self.events, outcome.knobs
        moment, by = int(order.fixed[row]), -1
        call, base = int(events.launch[row]), int(events.base[row])
        if call >= 0 and knobs.launch_lag[row] != NEVER and outcome.begin[call] + knobs.launch_lag[row] > moment:
            moment, by = int(outcome.begin[call] + knobs.launch_lag[row]), -2 - call
        if base >= 0 and outcome.start[base] + order.base_lag[row] > moment:
            moment, by = int(outcome.start[base] + order.base_lag[row]), self.started_after(outcome, base)
        crossed = slice(order.cross.to[row], order.cross.to[row + 1])
        for other, lag in ((events.before[row], knobs.before_lag[row]), *zip(
                events.cross[crossed], order.cross.lag[crossed], strict=True)):
            if other >= 0 and outcome.end[other] + lag > moment:
                moment, by = int(outcome.end[other] + lag), int(other)
        return by

    def returned_after(self, outcome: Outcome, call: int) -> int:
        """The activity that a call returned right after in a replay, -1 for none."""
        order, knobs = self.order, outcome.knobs
        waits = self.events.wait[order.waits.to[call] : order.waits.to[call + 1]]
        waits = waits[waits >= 0]
        if not len(waits) or knobs.wait_share[call] <= 0:
            return -1
        by = int(waits[outcome.end[waits].argmax()])
        least = outcome.begin[call] + knobs.floor[call]
        return by if outcome.end[by] + order.wait_lag[call] > least else -1

    def total(self, outcome: Outcome) -> int:
        """How long a replay took from the first call or activity to the end of the last, ns."""
        return int(max(outcome.end.max(), outcome.finish[self._real].max())) - self.begin(outcome)

    def begin(self, outcome: Outcome) -> int:
        """Where the first call or activity of a replay begins, ns."""
        return int(min(outcome.start.min(), outcome.begin[self._real].min()))

    @cached_property
    def _marks(self) -> tuple[list[tuple[Ints, Floats, Ints, Mask]], Ints, Ints, Ints]:
        """For each rank its cycles' rows and ends (ns), and when those begins and ends of calls on its host timeline
        that are around these ends were recorded (ns), with which of them are later than all before them; then, of all
        ranks together, the place of each of these among the ``Reached.marks``, and of those where they are among the
        events (-1 at last) and which are ends."""
        c, cycles = self.recording.calls, self.recording.cycles
        ends_of = (cycles["start_ns"] + cycles["dur_ns"]).to_numpy().astype(np.float64)
        found, places = [], [np.zeros(0, dtype=np.int64)]
        for rows in self.cycle_rows:
            mine = np.flatnonzero((c.chain == self.chain_of(rows)) & (self.events.advances > 0))
            recorded = np.stack((c.start[mine], c.end[mine]), axis=1).ravel()
            later = np.append(True, recorded[1:] > np.maximum.accumulate(recorded)[:-1])
            rising, step = recorded[later], np.cumsum(later) - 1
            last = np.searchsorted(rising, ends_of[rows], side="right") - 1
            near = np.zeros(len(rising), dtype=bool)
            near[np.concatenate((last, last + 1, [0, len(rising) - 1])).clip(0, len(rising) - 1)] = True
            keep = np.flatnonzero(near[step] & (recorded == rising[step]))
            found.append((rows, ends_of[rows], recorded[keep], later[keep]))
            places.append(2 * mine[keep // 2] + keep % 2)
        place = np.concatenate(places)
        at = np.where(place % 2, self.events.returned[place // 2], self.events.begun[place // 2])
        order = np.argsort(at, kind="stable")
        return found, np.argsort(order), np.append(at[order], -1), np.append(place[order] % 2, 0)

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
    def by_call(self) -> tuple[Ints, Ints]:
        """The activities by call, and where those of each call begin among them."""
        call = self.recording.activities.call
        order = np.flatnonzero(call >= 0)
        order = order[np.argsort(call[order], kind="stable")]
        return order, np.searchsorted(call[order], np.arange(len(self.gap) + 1))

    def cycle_ends(self, outcome: Outcome | None = None) -> list[Floats]:
        """For each rank where its cycles' work ends, ns: with their mark or the last activity launched in them."""
        marked, place, _, _ = self._marks
        if outcome is None:
            reach = np.full(self.recording.cycles.height + 1, NEVER, dtype=np.int64)  # the last is of none
            np.maximum.at(reach, self.recording.activities.cycle, self.recording.activities.end)
        else:
            reach = outcome.reached.cycles
        found, count = [], 0
        for rows, ends, recorded, later in marked:
            if outcome is not None:
                ends = _between(ends, recorded, later, outcome.reached.marks[place[count : count + len(recorded)]])
            work, count = reach[rows], count + len(recorded)
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
