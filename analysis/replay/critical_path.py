"""The critical path of a replay: the chain of activities, calls and host code that decides when a cycle ends.

It is walked backwards from whatever ended last. Every link is tight: a step begins a fixed time after the one before it
ended, so the steps of the path add up to the cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..core.call_tree import Ints, Rows
from ..idle.cause_meanings import LABELS
from ..kernels.family import LETTERS, TITLES, family
from .host_time import HostTime
from .model import Model, Outcome

DEVICE, LAUNCH, HOST, CALL, RETURN, QUEUE, START, WAIT, MESSAGE = (
    "device", "launch", "host", "call", "return", "queue", "before", "wait", "message"
)
_LETTERS = {HOST: "H", CALL: "X", LAUNCH: "L", RETURN: "S", QUEUE: "D", START: "U", WAIT: "Q", MESSAGE: "C"}
MEANINGS = {"kernel": "kernels", "collective": "collectives", "memcpy": "copies", HOST: "host code",
            CALL: "runtime calls", LAUNCH: "launch latency", RETURN: "return from a wait",
            QUEUE: "gaps between activities", START: "work from before", WAIT: "waits without a call (polling)",
            MESSAGE: "messages"}


HOST_SIDE = (HOST, CALL, LAUNCH, RETURN, START, WAIT)
"""The kinds of steps on a host timeline."""


class Step(Struct, frozen=True):
    """One step of the path: its ``kind`` (of ``MEANINGS``), its name, and its begin and end in the replay, ns.

    ``start``: its recorded begin; ``activity``: the activity that it is or leads to, -1 for a step on the host
    timeline of ``call``.
    """

    kind: str
    name: str
    begin: int
    end: int
    start: int
    activity: int
    call: int

    @property
    def ns(self) -> int:
        """Its length."""
        return self.end - self.begin

    @property
    def letter(self) -> str:
        """Its letter in the strip: for an activity, the letter of its family, as in every view."""
        return _LETTERS.get(self.kind) or LETTERS[family(self.name, self.kind)]

    @property
    def meaning(self) -> str:
        """What the letter stands for."""
        return MEANINGS[self.kind] if self.kind in _LETTERS else TITLES[family(self.name, self.kind)]


class Path(Struct, frozen=True):
    """The critical path of one cycle, in order; ``cycle``: its row in ``Cycles``, None for the whole recording."""

    cycle: int | None
    begin: int
    end: int
    steps: tuple[Step, ...]

    def parts(self) -> list[tuple[str, str, int]]:
        """Kind, name and time (ns) of everything on the path, longest first."""
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for step in self.steps:
            sums[step.kind, step.name] += step.ns
        return sorted(((*key, ns) for key, ns in sums.items()), key=lambda part: -part[2])

    def by_kind(self) -> dict[str, int]:
        """Time (ns) of each kind on the path, longest first."""
        sums: dict[str, int] = defaultdict(int)
        for step in self.steps:
            sums[step.kind] += step.ns
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def legend(self) -> dict[str, str]:
        """The meaning of each letter of the strip, largest share of the path first."""
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for step in self.steps:
            sums[step.letter, step.meaning] += step.ns
        return dict(sorted(sums, key=lambda key: -sums[key]))

    def strip(self, lanes: Sequence[str], width: int) -> dict[str, str]:
        """One line of letters per lane: each column shows the step that takes most of it, on that step's lane.

        ``lanes`` has one label per step.
        """
        lines = {lane: [" "] * width for lane in lanes}
        if self.end <= self.begin:
            return {}
        columns: list[dict[tuple[str, str], float]] = [defaultdict(float) for _ in range(width)]
        span = self.end - self.begin
        for step, lane in zip(self.steps, lanes, strict=True):
            low, high = ((moment - self.begin) * width / span for moment in (step.begin, step.end))
            for column in range(int(low), min(int(np.ceil(high)), width)):
                columns[column][lane, step.letter] += min(high, column + 1) - max(low, column)
        for at, sums in enumerate(columns):
            if sums:
                lane, letter = max(sums.items(), key=lambda item: item[1])[0]
                lines[lane][at] = letter
        return {lane: "".join(line) for lane, line in lines.items()}


def critical_path(model: Model, host: HostTime, outcome: Outcome) -> Path:
    """The critical path of the cycle of median length in the replay; of the whole replay without two cycles.

    It begins on one rank and moves at a collective to the rank that arrived last; times are on the common clock."""
    a, c, links = model.recording.activities, model.recording.calls, model.links
    ends_of = model.cycle_ends(outcome)
    own, ahead, by_own = links.ahead, links.calls_ahead, outcome
    if own.any() or ahead.any():
        outcome = replace(outcome, begin=outcome.begin - ahead, finish=outcome.finish - ahead,
                          start=outcome.start - own, end=outcome.end - own)
    rows, ends = max(zip(model.cycle_rows, ends_of, strict=True), key=lambda one: len(one[0]),
                     default=(np.zeros(0, dtype=np.int64), np.zeros(0)))
    if len(rows) < 2:
        begin = model.begin(outcome)
        last, host_end = int(outcome.end.argmax()), int(outcome.finish.argmax())
        device_last = outcome.end[last] >= outcome.finish[host_end]
        end = int(max(outcome.end[last], outcome.finish[host_end]))
        return Path(None, begin, end, _walked(
            model, host, by_own, outcome, begin, end, last if device_last else -1, host_end))
    chain = model.chain_of(rows)
    lengths, ends = np.diff(ends), ends - int(ahead[np.argmax(c.chain == chain)])
    at = 1 + int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
    begin, end = int(ends[at - 1]), int(ends[at])
    matching = np.flatnonzero(a.cycle == rows[at])
    last = int(matching[outcome.end[matching].argmax()]) if len(matching) else -1
    before = np.flatnonzero((c.chain == chain) & (outcome.begin <= end))
    call = int(before[-1]) if len(before) else 0
    on_device = last >= 0 and int(outcome.end[last]) >= end - 1
    return Path(int(rows[at]), begin, end, _walked(
        model, host, by_own, outcome, begin, end, last if on_device else -1, call))


def _walked(
    model: Model, host: HostTime, by_own: Outcome, outcome: Outcome, begin: int, end: int, activity: int, call: int
) -> tuple[Step, ...]:
    """The steps between two moments (ns), walked backwards from an activity or, if that is -1, from a call. ``by_own``
    is the outcome on each rank's own clock, ``outcome`` the same on the common clock."""
    a, c, links = model.recording.activities, model.recording.calls, model.links
    steps, cursor = list[Step](), end
    last, polled = _last_of(links.group, outcome.start), set(model.recording.polled[0].tolist())

    def step(kind: str, name: str, low: int, start: int) -> None:
        nonlocal cursor
        start = int(start) + max(0, begin - int(low))
        low = max(int(low), begin)
        if low < cursor:
            steps.append(Step(kind, name, low, cursor, start, activity, call))
            cursor = low

    returned = False
    if activity < 0 and int(outcome.finish[call]) < cursor:
        step(HOST, _host_name(host, min(call + 1, len(c.start) - 1)), outcome.finish[call], c.end[call])
    returned = activity < 0
    most = 4 * (len(a.start) + len(c.start)) + 8
    while cursor > begin and most:
        most -= 1
        if activity >= 0:
            late = int(last[links.group[activity]]) if links.group[activity] >= 0 else activity
            recorded = a.start[late] - links.ahead[late] + links.ahead[activity]  # on the clock of the activity's rank
            step(_kind(a.kind.texts[a.kind.number[activity]]), a.name.texts[a.name.number[activity]] or "",
                 outcome.start[late], recorded)
            activity = late
            by = model.started_after(by_own, activity)
            if by >= 0:
                step(QUEUE, "gap before it" if by == a.before[activity] else "wait for another stream",
                     outcome.end[by], a.end[by])
                activity = by
            elif by <= -2:
                call = -2 - by
                step(LAUNCH, c.names[c.name[call]], outcome.begin[call], c.start[call])
                activity, returned = -1, False
            else:
                break
        elif returned:
            by, name = model.returned_after(by_own, call), c.names[c.name[call]]
            if by >= 0:
                step(WAIT if call in polled else RETURN, name, outcome.end[by], a.end[by])
                activity = by
            else:
                step(CALL, name, outcome.begin[call], c.start[call])
                returned = False
        else:
            before = int(model.anchor[call])
            if before < 0:
                break
            step(HOST, _host_name(host, call), outcome.finish[before], c.end[before])
            call, returned = before, True
    if cursor > begin:
        step(START, "before the recording began", begin, begin)
    return tuple(steps[::-1])


def _last_of(group: Rows, start: Ints) -> Ints:
    """Per collective across ranks, the member that started last."""
    members = np.flatnonzero(group >= 0)
    members = members[np.argsort(start[members], kind="stable")]
    last = np.full(int(group.max(initial=-1)) + 1, -1, dtype=np.int64)
    last[group[members]] = members
    return last


def _kind(kind: str | None) -> str:
    return kind if kind in ("kernel", "collective") else "memcpy"


def _host_name(host: HostTime, call: int) -> str:
    """The label of the cause that took most of the host time before a call."""
    return LABELS[max(host.by_cause, key=lambda name: int(host.by_cause[name][call]))]
