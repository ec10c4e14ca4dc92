"""The events of a line as raw columns, and the host events that are HLO ops and launch kernels.

An event has its time in picoseconds from the start of the line, and ids, defined by the plane, for its name and the
names of its statistics. Few distinct texts describe how kernels were launched, so each is parsed once. A launch call
names its op but is on another line, so it is linked to the slice with that name that was open when the call began; if
the runtime recorded no such slice, the call has no operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..kineto.columns import FAR_TIME, NULL, Strings
from ..protobuf.layout import NUMBER
from ..protobuf.stretches import Stretches, part_of
from ..protobuf.tokens import Ints, Shape, Tokens, Walk, map_distinct
from .space import STATISTIC, Line, Plane

EVENTS = Shape({4: ("event", {1: ("name", NUMBER), 2: ("start", NUMBER), 3: ("dur", NUMBER), 4: ("stat", STATISTIC)})})
_LATEST = 1 << 62
_NO_NAME = "event without a name"


class XPlaneEvents(NamedTuple):
    """Some events of a line, in its order: start and duration in ns (``FAR_TIME`` where out of range), code of the
    name, position in the file."""

    start: Ints
    dur: Ints
    name: Ints
    offset: Ints
    statistics: Statistics

    @property
    def rows(self) -> int:
        """The number of events."""
        return len(self.start)


class Statistics:
    """The statistics of some events, by name."""

    def __init__(self, tokens: Tokens, plane: Plane, strings: Strings, events: int) -> None:
        self._plane, self._strings, self._events = plane, strings, events
        count = tokens.count("event.stat")
        self._owner = tokens.owners("event.stat")
        self._name = tokens.column("event.stat.name", count, 0)
        signed = tokens.column("event.stat.signed", count)
        integers = tokens.column("event.stat.whole", count)
        self._number = np.where(signed == NULL, integers, signed)
        self._text = tokens.text_column("event.stat.text", count, strings.code)
        self._reference = tokens.column("event.stat.reference", count)

    def _of(self, name: str) -> npt.NDArray[np.intp]:
        numbers = [number for number, statistic in self._plane.statistics.items() if statistic == name]
        return np.flatnonzero(np.isin(self._name, numbers)) if numbers else np.empty(0, np.intp)

    def numbers(self, name: str) -> Ints:
        """The numeric value of a statistic for each event, NULL if it has none."""
        out = np.full(self._events, NULL, np.int64)
        at = self._of(name)
        out[self._owner[at]] = self._number[at]
        return out

    def texts(self, name: str) -> Ints:
        """The text of a statistic for each event, as a code of ``Strings``, -1 if it has none."""
        out = np.full(self._events, -1, np.int64)
        at = self._of(name)
        if len(at):
            codes, refer = self._text[at], self._reference[at]
            names, code = self._plane.statistics, self._strings.code
            coded = map_distinct(refer, lambda number: code(names[number]) if number in names else -1)
            out[self._owner[at]] = np.where(codes >= 0, codes, coded)
        return out


class XPlaneReader:
    """Reads events of lines; ``broken`` counts unreadable events, ``damaged`` lines that end in damage."""

    def __init__(self, file: int, walk: Walk, strings: Strings) -> None:
        self._file, self._walk, self._strings = file, walk, strings
        self.broken = 0
        self.damaged = 0

    def events(self, plane: Plane, line: Line) -> Iterator[XPlaneEvents]:
        """The events of a line in file order, in blocks."""
        stretches = Stretches(EVENTS, self._walk, line.start)
        for stretch in stretches.over(part_of(self._file, line.start, line.end)):
            tokens = stretch.tokens
            rows = tokens.count("event")
            if rows:
                yield self._events(tokens, rows, stretch.base, plane, line)
        self.broken += stretches.broken
        self.damaged += stretches.damage is not None

    def _events(self, tokens: Tokens, rows: int, base: int, plane: Plane, line: Line) -> XPlaneEvents:
        start, dur = tokens.column("event.start", rows, 0), tokens.column("event.dur", rows, 0)
        numbers, code = tokens.column("event.name", rows, 0), self._strings.code
        names = map_distinct(numbers, lambda number: code(plane.events.get(number, _NO_NAME)))
        begin = line.begin_ns if abs(line.begin_ns) < _LATEST else 0
        at = begin + (start + 500) // 1000
        # a time before the clock began is none
        sound = (np.abs(start) < _LATEST) & (at >= min(begin, 0)) & (abs(line.begin_ns) < _LATEST)
        return XPlaneEvents(
            np.where(sound, at, FAR_TIME), np.where(np.abs(dur) < _LATEST, (dur + 500) // 1000, FAR_TIME),
            names, base + tokens.field("event").values,
            Statistics(tokens, plane, self._strings, rows),
        )  # fmt: skip


_DETAIL = re.compile(r"\b(\w+):(\d{1,18}(?:,\d{1,18}){0,2})(?![\w.])")


class Details:
    """Values in texts like ``regs:32 grid:8,1,1 block:128,1,1 occ_pct:50`` and ``kind:3 size:4096``, parsed once."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._by_code: dict[int, dict[str, str]] = {}

    def numbers(self, codes: Ints, keys: Sequence[str]) -> Ints:
        """The sum of the values of ``keys`` in each text, NULL if it has none of them."""

        def total(code: int) -> int:
            values = [value for key, value in self._details(code).items() if key in keys]
            return sum(map(int, values)) if values and all(map(str.isdecimal, values)) else NULL

        return map_distinct(codes, total)

    def triples(self, codes: Ints, key: str) -> Ints:
        """The code of the grid or block in each text, -1 if it has none."""

        def triple(code: int) -> int:
            text = self._details(code).get(key, "")
            return self._strings.code(text) if text.count(",") == 2 else -1

        return map_distinct(codes, triple)

    def _details(self, code: int) -> dict[str, str]:
        if code not in self._by_code:
            self._by_code[code] = dict(_DETAIL.findall(self._strings.texts[code][:2000])) if code >= 0 else {}
        return self._by_code[code]


_MODULE = ":XLA GPU module"
Mask = npt.NDArray[np.bool_]


class Operators:
    """Finds operators of host events: ``add_names`` of device ops, ``learn`` the host's launches, then call ``of``."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._ops: set[int] = set()
        self._launches: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._sorted: tuple[Ints, Ints, Ints, Ints] | None = None

    def add_names(self, ops: Ints) -> None:
        """Register names (codes) as names of HLO ops."""
        self._ops |= set(np.unique(ops).tolist()) - {-1}

    def _is_operator(self, names: Ints) -> Mask:
        texts = self._strings.texts
        return map_distinct(names, lambda code: code in self._ops or texts[code].endswith(_MODULE), bool)

    def learn(self, events: XPlaneEvents) -> None:
        """Register the slices that are operators; their ids are negative, as all that a
        reader makes: they count from their positions in the file."""
        self.add_names(events.statistics.texts("hlo_op"))
        at = np.flatnonzero(self._is_operator(events.name) & (events.start > FAR_TIME) & (events.dur >= 0))
        if len(at):
            ends = events.start[at] + events.dur[at]
            self._launches.append((events.name[at], events.start[at], ends, -1 - events.offset[at]))

    def of(self, events: XPlaneEvents) -> tuple[Ints, Mask]:
        """The external id of each event (NULL for none), and which events are operators themselves."""
        external, is_operator = np.full(events.rows, NULL, np.int64), self._is_operator(events.name)
        external[is_operator] = -1 - events.offset[is_operator]
        op = events.statistics.texts("hlo_op")
        calls = np.flatnonzero((op >= 0) & ~is_operator & (events.start > FAR_TIME))
        if len(calls) and self._launches:
            external[calls] = self._around(op[calls], events.start[calls])
        return external, is_operator

    def _around(self, op: Ints, start: Ints) -> Ints:
        """The id of the last slice with each op's name that began by ``start``, NULL if it had ended before."""
        if self._sorted is None:
            columns = [np.concatenate(column) for column in zip(*self._launches, strict=True)]
            order = np.lexsort((columns[1], columns[0]))
            self._sorted = columns[0][order], columns[1][order], columns[2][order], columns[3][order]
        names, starts, ends, ids = self._sorted
        out = np.full(len(op), NULL, np.int64)
        for name in np.unique(op).tolist():
            low, high = np.searchsorted(names, [name, name + 1])
            rows = np.flatnonzero(op == name)
            at = np.searchsorted(starts[low:high], start[rows], side="right") - 1 + low
            inside = (at >= low) & (ends[np.maximum(at, 0)] >= start[rows]) if high > low else np.zeros(len(rows), bool)
            out[rows[inside]] = ids[at[inside]]
        return out
