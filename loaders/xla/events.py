"""Events of a line as raw columns: times, names, and of their statistics those that mean something to the tables.

An event gives its time as picoseconds from the line's beginning, its name and the names of its statistics as numbers of
the plane. The same few texts say how a kernel was launched, so each is taken apart once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..kineto.columns import CODES, FLOATS, INTS, NULL, Block, Strings
from ..protobuf.layout import NUMBER
from ..protobuf.stretches import Stretches, part_of
from ..protobuf.tokens import Ints, Shape, Tokens, Walk, map_distinct
from .space import STATISTIC, Line, Plane

EVENTS = Shape({4: ("event", {1: ("name", NUMBER), 2: ("start", NUMBER), 3: ("dur", NUMBER), 4: ("stat", STATISTIC)})})
_LATEST = 1 << 62
_NO_NAME = "event without a name"


class XPlaneEvents(NamedTuple):
    """Some events of a line, by their order in it: start and duration in ns, code of the name, place in the file."""

    start: Ints
    dur: Ints
    name: Ints
    offset: Ints
    statistics: Statistics

    @property
    def rows(self) -> int:
        """How many."""
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
        """A statistic as a number of each event, NULL where it has none."""
        out = np.full(self._events, NULL, np.int64)
        at = self._of(name)
        out[self._owner[at]] = self._number[at]
        return out

    def texts(self, name: str) -> Ints:
        """A statistic as a code of ``Strings`` of each event, -1 where it has none."""
        out = np.full(self._events, -1, np.int64)
        at = self._of(name)
        if len(at):
            codes, refer = self._text[at], self._reference[at]
            names, code = self._plane.statistics, self._strings.code
            coded = map_distinct(refer, lambda number: code(names[number]) if number in names else -1)
            out[self._owner[at]] = np.where(codes >= 0, codes, coded)
        return out


class XPlaneReader:
    """Reads events of lines; ``broken`` counts those that could not be."""

    def __init__(self, file: int, walk: Walk, strings: Strings) -> None:
        self._file, self._walk, self._strings = file, walk, strings
        self.broken = 0
        self.damaged = 0

    def events(self, plane: Plane, line: Line) -> Iterator[XPlaneEvents]:
        """The events of a line in the order of the file."""
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
        sound = (np.abs(start) < _LATEST) & (np.abs(dur) < _LATEST) & (abs(line.begin_ns) < _LATEST)
        begin = line.begin_ns if abs(line.begin_ns) < _LATEST else 0
        return XPlaneEvents(
            np.where(sound, begin + (start + 500) // 1000, NULL), np.where(sound, (dur + 500) // 1000, NULL),
            names, base + tokens.field("event").values,
            Statistics(tokens, plane, self._strings, rows),
        )  # fmt: skip


def block(rows: int, ints: dict[str, Ints | int], codes: dict[str, Ints | int], floats: dict[str, Ints]) -> Block:
    """Columns of Kineto's names as a block; what is not given is missing."""
    result = Block(
        np.full((len(INTS), rows), NULL, np.int64), np.full((len(CODES), rows), -1, np.int32),
        np.full((len(FLOATS), rows), np.nan), 0,
    )  # fmt: skip
    arrays = (INTS, ints, result.ints), (CODES, codes, result.codes), (FLOATS, floats, result.floats)
    for names, columns, array in arrays:
        for name, values in columns.items():
            array[names.index(name)] = values
    return result


_DETAIL = re.compile(r"\b(\w+):(\d{1,18}(?:,\d{1,18}){0,2})(?![\w.])")


class Details:
    """What texts like ``regs:32 grid:8,1,1 block:128,1,1 occ_pct:50`` and ``kind:3 size:4096`` say, each read once."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._by_code: dict[int, dict[str, str]] = {}

    def numbers(self, codes: Ints, keys: Sequence[str]) -> Ints:
        """The sum of some values of each text, NULL where it has none of them."""

        def total(code: int) -> int:
            values = [value for key, value in self._details(code).items() if key in keys]
            return sum(map(int, values)) if values and all(map(str.isdecimal, values)) else NULL

        return map_distinct(codes, total)

    def triples(self, codes: Ints, key: str) -> Ints:
        """The code of a grid or block, -1 where the text has none."""

        def triple(code: int) -> int:
            text = self._details(code).get(key, "")
            return self._strings.code(text) if text.count(",") == 2 else -1

        return map_distinct(codes, triple)

    def _details(self, code: int) -> dict[str, str]:
        if code not in self._by_code:
            self._by_code[code] = dict(_DETAIL.findall(self._strings.texts[code][:2000])) if code >= 0 else {}
        return self._by_code[code]
