"""The incremental state of packet sequences: interned texts, defaults, and clocks.

A sequence is the packets of one writer, in order. From time to time its incremental state is cleared; until then an id
stands for one text. Here, the packets from one clear to the next are a span, and every packet is in one. Clock ids from
64 on are local to a sequence, and their times are often increments from packet to packet; a clock snapshot gives the
time of the trace clock at which they started. See https://perfetto.dev/docs/concepts/clock-sync.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..kineto.columns import NULL, Strings
from ..protobuf.tokens import Ints, Tokens, map_distinct
from .packets import CLEARED, INTERNED

_REALTIME, _BOOTTIME = 1, 6
_OF_SEQUENCE = range(64, 128)
_LATEST = 1 << 62
_LONGEST_STEP = 1 << 42  # Maximum nanoseconds from one packet to the next, so that their sum cannot overflow.


class Sequences:
    """State by sequence and span, kept across stretches. ``to_realtime`` (ns) converts trace time to Unix time."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._span_of: dict[int, int] = {}
        self._spans = 0
        self._texts: dict[str, dict[tuple[int, int], int]] = {kind: {} for kind in INTERNED}
        self._clock: dict[int, int] = {}
        self._track: dict[int, int] = {}
        self._running: dict[tuple[int, int], tuple[int, int, int, bool]] = {}
        self._shifts: dict[int, int] = {}
        self.to_realtime: int | None = None
        self.lost = 0

    def spans(self, tokens: Tokens, packets: int) -> Ints:
        """The span of each packet, after storing the interned texts and defaults of these packets."""
        sequence = tokens.column("packet.sequence", packets, 0)
        flags, old = tokens.column("packet.flags", packets, 0), tokens.column("packet.cleared", packets, 0)
        cleared = ((flags & CLEARED) != 0) | (old != 0)
        self.lost += int(np.count_nonzero(tokens.field("packet.lost").values & ~cleared[tokens.owners("packet.lost")]))
        spans = np.empty(packets, np.int64)
        for number in np.unique(sequence).tolist():
            at = np.flatnonzero(sequence == number)
            if number not in self._span_of:
                self._span_of[number] = self._next()
            local = np.cumsum(cleared[at])
            numbers = [self._span_of[number], *(self._next() for _ in range(int(local[-1])))]
            spans[at] = np.array(numbers, np.int64)[local]
            self._span_of[number] = numbers[-1]
        self._learn(tokens, spans)
        return spans

    def _next(self) -> int:
        self._spans += 1
        return self._spans

    def _learn(self, tokens: Tokens, spans: Ints) -> None:
        packet = tokens.owners("packet.interned")
        for kind, texts in self._texts.items():
            path = f"packet.interned.{kind}"
            count = tokens.count(path)
            if not count:
                continue
            ids = tokens.column(f"{path}.id", count, 0)
            codes = tokens.text_column(f"{path}.text", count, self._strings.code)
            owner = spans[packet[tokens.owners(path)]]
            texts.update(zip(zip(owner.tolist(), ids.tolist(), strict=True), codes.tolist(), strict=True))
        defaults = tokens.owners("packet.defaults")
        clock = tokens.field("packet.defaults.clock")
        self._clock.update(zip(spans[defaults[clock.owners]].tolist(), clock.values.tolist(), strict=True))
        track = tokens.field("packet.defaults.event.track")
        inside = tokens.owners("packet.defaults.event")
        self._track.update(zip(spans[defaults[inside[track.owners]]].tolist(), track.values.tolist(), strict=True))

    def texts(self, kind: str, spans: Ints, ids: Ints) -> Ints:
        """The codes of interned texts by id, each in its span; -1 for unknown ids."""
        if not len(ids):
            return ids
        number, which = np.unique(ids, return_inverse=True)
        span, whose = np.unique(spans, return_inverse=True)
        pair, where = np.unique(whose * len(number) + which, return_inverse=True)
        texts = self._texts[kind]
        codes = [texts.get((int(span[at // len(number)]), int(number[at % len(number)])), -1) for at in pair.tolist()]
        of_each: Ints = np.array(codes, np.int64)[where]
        return of_each

    def tracks(self, spans: Ints, tracks: Ints) -> Ints:
        """The track of each event: its own, else the default of its span, else a number made up for the span."""
        return np.where(tracks == NULL, map_distinct(spans, lambda span: self._track.get(span, -span)), tracks)

    def times(self, tokens: Tokens, packets: int, spans: Ints) -> Ints:
        """The time of each packet on the trace clock in ns, NULL if it has none."""
        sequence = tokens.column("packet.sequence", packets, 0)
        times, clock = tokens.column("packet.time", packets), tokens.column("packet.clock", packets)
        times[(times < 0) | (times >= _LATEST)] = NULL
        clock = np.where(clock == NULL, map_distinct(spans, lambda span: self._clock.get(span, 0)), clock)
        snapshots = self._snapshots(tokens)
        begin = 0
        for at, clocks in [*snapshots, (packets, [])]:
            self._convert(times, clock, sequence, begin, at)
            if at < packets:
                self._take(int(sequence[at]), clocks)
            begin = at
        return times

    def _snapshots(self, tokens: Tokens) -> list[tuple[int, list[tuple[int, int, bool, int]]]]:
        """The packets that are clock snapshots, each with its (clock id, time, incremental, unit in ns)."""
        packet, count = tokens.owners("packet.snapshot"), tokens.count("packet.snapshot.clock")
        columns = (tokens.column(f"packet.snapshot.clock.{n}", count, 0) for n in ("id", "time", "incremental"))
        ids, times, counts = (column.tolist() for column in columns)
        unit = tokens.column("packet.snapshot.clock.multiplier", count, 1).tolist()
        results: dict[int, list[tuple[int, int, bool, int]]] = {}
        owners = tokens.owners("packet.snapshot.clock").tolist()
        for owner, *clock in zip(owners, ids, times, counts, unit, strict=True):
            results.setdefault(int(packet[owner]), []).append((clock[0], clock[1], bool(clock[2]), clock[3]))
        return sorted(results.items())

    def _take(self, sequence: int, clocks: list[tuple[int, int, bool, int]]) -> None:
        sound = {number: time for number, time, _, _ in clocks if 0 <= time < _LATEST}
        own = sound.get(_BOOTTIME)
        if own is None:
            own = next((time for number, time in sound.items() if number in self._shifts), None)
        for number, time, counts, unit in clocks:
            if number not in sound or not 0 < unit < 1 << 31:
                continue
            if number in _OF_SEQUENCE:
                self._running[sequence, number] = (time * unit, own if own is not None else time * unit, unit, counts)
            elif own is not None:
                self._shifts.setdefault(number, own - time)
        if self.to_realtime is None and own is not None and _REALTIME in sound:
            self.to_realtime = sound[_REALTIME] - own

    def _convert(self, times: Ints, clock: Ints, sequence: Ints, begin: int, end: int) -> None:
        part, clocks = times[begin:end], clock[begin:end]
        sound = part != NULL
        for number in np.unique(clocks[sound]).tolist():
            if number in self._shifts and number != _BOOTTIME:
                part[sound & (clocks == number)] += self._shifts[number]
            elif number in _OF_SEQUENCE:
                for own in np.unique(sequence[begin:end][sound & (clocks == number)]).tolist():
                    self._count(part, sound & (clocks == number) & (sequence[begin:end] == own), own, number)

    def _count(self, times: Ints, ours: npt.NDArray[np.bool_], sequence: int, clock: int) -> None:
        at = np.flatnonzero(ours)
        state = self._running.get((sequence, clock))
        if state is None or not -_LATEST < state[1] < _LATEST:  # its snapshot is missing or invalid
            times[at] = NULL
            return
        value, own, unit, counts = state
        longest = _LATEST // unit
        times[at] = np.minimum(times[at], longest) * unit
        if counts:
            passed = np.minimum(np.cumsum(np.minimum(times[at], _LONGEST_STEP)), _LATEST)
            times[at] = own + passed
            self._running[sequence, clock] = (value + int(passed[-1]), own + int(passed[-1]), unit, True)
        else:
            times[at] = own + (times[at] - value)

