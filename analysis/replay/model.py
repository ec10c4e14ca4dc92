"""The replay model of a run: replayed unchanged it ends when the run did; with changes it predicts their savings."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ..core.call_tree import Ints, Mask, Rows
from .events import events_of
from .loop import NEVER, run
from .program import REPLAY, plain
from .recording import Recording
from .together import RankLinks, no_links
from .waits import order_of

Floats = npt.NDArray[np.float64]


class Knobs(Struct):
    """The quantities a change can scale: activity durations, host time before calls, call durations (ns), wait shares.

    ``launch_lag``, ``before_lag`` and ``floor`` are as in ``Order``, ``group`` and ``transfer`` as in ``RankLinks``.
    Arrays are replaced, never modified in place: unchanged ones are shared with the model.
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
        """The largest cut: ``dur`` and its activity, or ``gap`` or ``length`` and its call; None if nothing was cut."""
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

    def changes_from(self, recorded: Knobs) -> tuple[float, ...]:
        """The summed change of each array, which identifies a change: equal tuples mean the same change."""
        return tuple(
            0.0 if getattr(self, name) is getattr(recorded, name)
            else float(getattr(self, name).sum() - getattr(recorded, name).sum()) for name in self.__struct_fields__)


class Reached(Struct, frozen=True):
    """Times in a replay, ns: the last activity end of each cycle (``NEVER`` without any), and ``Model._marks``."""

    cycles: Ints
    marks: Ints


class Outcome(Struct, frozen=True):
    """Times in a replay with these knobs, ns: ``begin``, ``finish`` of calls; ``start``, ``end`` of activities."""

    begin: Ints
    finish: Ints
    start: Ints
    end: Ints
    reached: Reached
    knobs: Knobs


class Model:
    """A recording with its dependencies, ready to be replayed any number of times."""

    def __init__(self, recording: Recording, links: RankLinks | None = None) -> None:
        self.recording, self.order, self.links = recording, order_of(recording), links or no_links(recording)
        self.events = events_of(recording, self.order, self.links)
        self.gap, self.anchor = self.events.gap, self.events.anchor
        c = recording.calls
        self.first = np.full(int(c.chain.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(self.first, c.chain, c.start)
        self._native = REPLAY.load()

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """The loop's arguments that no change affects."""
        order, events, links, within = self.order, self.events, self.links, self.recording.within
        narrow: dict[str, npt.NDArray[Any]] = {
            "events": events.code, "chain": self.recording.calls.chain, "advances": events.advances,
            "waits_to": order.waits.to, "wait_on": events.wait, "launch": events.launch, "base": events.base,
            "before": events.before, "cross_to": order.cross.to, "cross_on": events.cross, "cycle": within,
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
        """Replay the run, as recorded or with these knobs."""
        return self._replayed(knobs or self.recorded, 1, None, True)[0]

    def cycles_with(self, knobs: Knobs, half_host: bool = False, at_peak: Ints | None = None) -> list[float]:
        """Cycle time (``cycle_ns``) in one pass: with these knobs; with host time halved on top (``half_host``); and
        with ``at_peak`` as the activity durations and the recorded host time."""
        lanes = 3 if at_peak is not None else 2 if half_host else 1
        return [self.cycle_ns(one) for one in self._replayed(knobs, lanes, at_peak, not self.cycles)]

    def _replayed(self, knobs: Knobs, lanes: int, at_peak: Ints | None, whole: bool) -> list[Outcome]:
        """One outcome per lane; unless ``whole``, its arrays are ring buffers in which later rows overwrite earlier."""
        typed, fixed, sizes, masks = self._made, self._fixed, [], []
        for rows, room in ((len(self.gap), self.events.call_room), (len(self.links.group), self.events.room)):
            whole_of = whole or room >= rows
            sizes.append(rows if whole_of else room)
            masks.append(-1 if whole_of else room - 1)
        calls, activities = sizes
        cycles, marks = self.recording.cycles.height, len(self._marks[2]) - 1
        arrays = [np.full(len(knobs.transfer) * lanes, NEVER), np.repeat(self.first, lanes)]
        arrays += [np.zeros(size * lanes, dtype=np.int64) for size in (calls, calls, activities, activities)]
        arrays += [np.full(cycles * lanes, NEVER), np.empty(marks * lanes, dtype=np.int64)]
        outputs = [typed(one) for one in arrays]
        arguments = [
            fixed["events"], typed(knobs.gap), typed(knobs.length), typed(knobs.floor),
            typed(knobs.wait_share, np.float64),
            *(fixed[name] for name in ("chain", "advances", "waits_to", "wait_on", "wait_lag", "launch")),
            typed(knobs.launch_lag), *(fixed[name] for name in ("fixed", "base", "base_lag", "before")),
            typed(knobs.before_lag), *(fixed[name] for name in ("cross_to", "cross_on", "cross_lag")), typed(knobs.dur),
            typed(knobs.group, np.int32), typed(knobs.transfer),
            *(fixed[name] for name in ("ahead", "late", "cycle", "members", "mark_at", "mark_end")), typed(self.gap),
            typed(knobs.dur if at_peak is None else at_peak), lanes, *masks,
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
        """The dependency that set an activity's start: an activity, or -2 - its launch call; -1 for neither."""
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
        """The activity whose end let a call return in a replay, -1 if the call did not have to wait."""
        order, knobs = self.order, outcome.knobs
        waits = self.events.wait[order.waits.to[call] : order.waits.to[call + 1]]
        waits = waits[waits >= 0]
        if not len(waits) or knobs.wait_share[call] <= 0:
            return -1
        by = int(waits[outcome.end[waits].argmax()])
        least = outcome.begin[call] + knobs.floor[call]
        return by if outcome.end[by] + order.wait_lag[call] > least else -1

    def total(self, outcome: Outcome) -> int:
        """Length of a replay from the first call or activity to the end of the last, ns."""
        return int(max(outcome.end.max(), outcome.finish[self._real].max())) - self.begin(outcome)

    def begin(self, outcome: Outcome) -> int:
        """Where the first call or activity of a replay begins, ns."""
        return int(min(outcome.start.min(), outcome.begin[self._real].min()))

    @cached_property
    def _marks(self) -> tuple[list[tuple[Ints, Floats, Ints, Mask]], Ints, Ints, Ints]:
        """Marks: the call begins and ends around the ends of cycles, from which replayed cycle ends are interpolated.
        Per rank: cycle rows, cycle ends (ns), recorded times of its marks (ns), and which of these are later than all
        before. For the marks of all ranks: index of each in ``Reached.marks``; then, in that array's order, its index
        among the events (-1 ends the list) and whether it is a call's end."""
        c, cycles = self.recording.calls, self.recording.cycles
        ends_of = (cycles["start_ns"] + cycles["dur_ns"]).to_numpy().astype(np.float64)
        marks, places = [], [np.zeros(0, dtype=np.int64)]
        for rows in self.cycle_rows:
            matching = np.flatnonzero((c.chain == self.chain_of(rows)) & (self.events.advances > 0))
            recorded = np.stack((c.start[matching], c.end[matching]), axis=1).ravel()
            later = np.append(True, recorded[1:] > np.maximum.accumulate(recorded)[:-1])
            rising, step = recorded[later], np.cumsum(later) - 1
            last = np.searchsorted(rising, ends_of[rows], side="right") - 1
            near = np.zeros(len(rising), dtype=bool)
            near[np.concatenate((last, last + 1, [0, len(rising) - 1])).clip(0, len(rising) - 1)] = True
            keep = np.flatnonzero(near[step] & (recorded == rising[step]))
            marks.append((rows, ends_of[rows], recorded[keep], later[keep]))
            places.append(2 * matching[keep // 2] + keep % 2)
        place = np.concatenate(places)
        at = np.where(place % 2, self.events.returned[place // 2], self.events.begun[place // 2])
        order = np.argsort(at, kind="stable")
        return marks, np.argsort(order), np.append(at[order], -1), np.append(place[order] % 2, 0)

    @cached_property
    def launches(self) -> Mask:
        """The calls that launched an activity."""
        call = self.recording.activities.call
        some = np.zeros(len(self.gap), dtype=bool)
        some[call[call >= 0]] = True
        return some

    @cached_property
    def _real(self) -> Mask:
        """The recorded calls: cycle edges, which may lie outside of the recording, are left out."""
        return self.recording.calls.row >= 0

    @cached_property
    def cycle_rows(self) -> list[Ints]:
        """Per rank, the rows of its cycles, sorted by start."""
        cycles = self.recording.cycles.with_row_index("at").sort("start_ns", maintain_order=True)
        return [group["at"].to_numpy().astype(np.int64) for _, group in cycles.group_by("rank", maintain_order=True)]

    @cached_property
    def by_call(self) -> tuple[Ints, Ints]:
        """The activities sorted by launch call, and the offset of each call's activities among them."""
        call = self.recording.activities.call
        order = np.flatnonzero(call >= 0)
        order = order[np.argsort(call[order], kind="stable")]
        return order, np.searchsorted(call[order], np.arange(len(self.gap) + 1))

    def cycle_ends(self, outcome: Outcome | None = None) -> list[Floats]:
        """Per rank, when each cycle's work ends, ns: the later of its mark's end and its last activity's end."""
        marked, place, _, _ = self._marks
        if outcome is None:
            reach = np.full(self.recording.cycles.height + 1, NEVER, dtype=np.int64)  # the last is for no cycle
            np.maximum.at(reach, self.recording.within, self.recording.activities.end)
        else:
            reach = outcome.reached.cycles
        ended, count = [], 0
        for rows, ends, recorded, later in marked:
            if outcome is not None:
                ends = _between(ends, recorded, later, outcome.reached.marks[place[count : count + len(recorded)]])
            work, count = reach[rows], count + len(recorded)
            ended.append(np.where(work == NEVER, ends, work if self.recording.device_time else np.maximum(ends, work)))
        return ended

    def chain_of(self, cycles: Ints) -> int:
        """The host timeline that launched most of these cycles' activities."""
        a, c = self.recording.activities, self.recording.calls
        matching = (a.call >= 0) & np.isin(a.cycle, cycles)
        chains = c.chain[a.call[matching]] if matching.any() else c.chain
        return int(np.bincount(chains).argmax())

    def cycle_ns(self, outcome: Outcome | None = None) -> float:
        """Cycle time in a replay, ns, or as recorded: (the later of the last end of their work and of a mark - recorded
        begin of the first) / cycles, over the whole ones that are no warm-up, averaged over ranks.

        The length of the whole replay without such cycles.
        """
        spans = [
            (float(ends[own].max()) - float(self._begin[rows[own]].min())) / len(own)
            for rows, own, ends in zip(self.cycle_rows, self._used, self.cycle_ends(outcome), strict=True) if len(own)]
        if spans:
            return float(np.mean(spans))
        recording = self.recording
        return float(recording.end - recording.begin) if outcome is None else float(self.total(outcome))

    @cached_property
    def changeable(self) -> Mask:
        """The activities that a change of the cycles applies to: their own work; all without cycles."""
        cycle = self.recording.activities.cycle
        return cycle >= 0 if self.cycles else np.ones(len(cycle), dtype=bool)

    @cached_property
    def callable(self) -> Mask:
        """The calls that a change of the cycles applies to: those from the begin of the first one on."""
        start = self.recording.calls.start
        begin = min((int(self._begin[rows[own]].min()) for rows, own in zip(self.cycle_rows, self._used, strict=True)
                     if len(own)), default=None)
        return np.ones(len(start), dtype=bool) if begin is None else start >= begin

    @cached_property
    def _begin(self) -> Ints:
        return self.recording.cycles["begin_ns"].to_numpy()

    @cached_property
    def _used(self) -> list[Ints]:
        """Per rank, the places of those of its cycles that are whole and no warm-up."""
        used = self.recording.cycles.select(pl.col("complete") & ~pl.col("warm_up")).to_series().to_numpy()
        return [np.flatnonzero(used[rows]) for rows in self.cycle_rows]

    @cached_property
    def cycles(self) -> int:
        """How many cycles ``cycle_ns`` is the mean of; 0 where it is the length of the whole recording."""
        return max((len(own) for own in self._used), default=0)


def _between(moments: Floats, recorded: Ints, later: Mask, replayed: Ints) -> Floats:
    """Replayed times of ``moments`` (ns), interpolated between marks. Of marks recorded at the same time, the last one
    counts that does not come earlier in the replay than its predecessor."""
    forward = later.copy()
    forward[1:] |= replayed[1:] >= replayed[:-1]
    recorded, replayed = recorded[forward], replayed[forward]
    at = np.interp(moments, recorded, replayed)
    at = np.where(moments < recorded[0], moments - recorded[0] + replayed[0], at)
    return np.asarray(np.where(moments > recorded[-1], moments - recorded[-1] + replayed[-1], at))
