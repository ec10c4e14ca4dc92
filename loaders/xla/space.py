"""The planes of a profile: their devices, the names their events refer to, and the positions of their lines.

An XSpace has one plane per device and one for the host; a plane has lines (streams, threads) and tables of the names
that events and statistics refer to by id. The tables may follow the lines that use them, so they are read first. The
messages: https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from ..ingest.stream import Source
from ..protobuf.layout import BYTES, FIXED, LENGTH, NUMBER, SKIP, TEXT
from ..protobuf.stretches import Cut, Stretches, WireField, part_of, parts
from ..protobuf.tokens import Fields, Shape, Tokens, Walk, header, reals
from ..protobuf.walk import in_python

PLANE, HOSTNAME, ERROR, WARNING = 1, 4, 2, 3
_LINE, _EVENT_NAMES, _STAT_NAMES = 3, 4, 5
STATISTIC: Fields = {
    1: ("name", NUMBER), 2: ("real", FIXED), 3: ("whole", NUMBER), 4: ("signed", NUMBER), 5: ("text", TEXT),
    7: ("reference", NUMBER),
}  # fmt: skip
NAMES = Shape({
    2: ("name", TEXT),
    4: ("event", {1: ("key", NUMBER), 2: ("of", {1: ("id", NUMBER), 2: ("name", TEXT), 4: ("display", TEXT)})}),
    5: ("stat", {1: ("key", NUMBER), 2: ("of", {1: ("id", NUMBER), 2: ("name", TEXT)})}),
    6: ("own", STATISTIC),
})  # fmt: skip
HEADER = Shape({
    1: ("id", NUMBER), 2: ("name", TEXT), 3: ("begin", NUMBER), 11: ("display", TEXT), 4: ("event", SKIP),
})  # fmt: skip
_EVENTS = Shape({4: ("event", BYTES)})
_DEVICE = re.compile(r"/device:(GPU|TPU):(\d{1,9})\b")


class Line(Struct, frozen=True):
    """A line: its id and name, the absolute time its events are relative to (ns), and its position in the file."""

    id: int
    name: str
    begin_ns: int
    start: int
    end: int


class Plane(Struct):
    """A plane: its lines, the names of events and statistics by id, and its own statistics (``recorded``) by id."""

    name: str = ""
    lines: list[Line] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    statistics: dict[int, str] = field(default_factory=dict)
    recorded: dict[int, int | float | str] = field(default_factory=dict)

    @property
    def own(self) -> dict[str, int | float | str]:
        """The plane's own statistics, by name."""
        return {self.statistics.get(number, ""): value for number, value in self.recorded.items()}

    @property
    def device(self) -> tuple[str, int] | None:
        """The device of the plane as (word, number), such as ('GPU', 0); None for the host and other planes."""
        match = _DEVICE.match(self.name)
        return (match[1], int(match[2])) if match else None


class Space(Struct):
    """All planes, the host names, the profiler's own errors and warnings (``complaints``), and the number of damaged
    parts (``broken``). ``end`` is the position up to which the file could be read; ``cut``: it ends early."""

    planes: list[Plane] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    broken: int = 0
    end: int = 0
    cut: bool = False


_LONGEST_TEXT = 4096


def space_of(file: int, size: int, walk: Walk) -> Space:
    """The planes of an open file of ``size`` bytes, without their events."""
    space = Space()
    try:
        for field in parts(file, 0, size):
            if field.number == PLANE:
                space.planes.append(_plane(file, field, walk, space))
            elif field.number in (HOSTNAME, ERROR, WARNING) and field.end > field.begin:
                text = _bytes(file, field)
                (space.hosts if field.number == HOSTNAME else space.complaints).append(text)
            space.end = field.end
    except Cut as cut:
        space.end, space.cut = cut.at, True
        if last := _last(file, cut.at, size, walk, space):
            space.planes.append(last)
    return space


def _bytes(file: int, field: WireField) -> str:
    return os.pread(file, min(field.end - field.begin, _LONGEST_TEXT), field.begin).decode("utf-8", "replace")


def _last(file: int, at: int, size: int, walk: Walk, space: Space) -> Plane | None:
    """The last, incomplete plane of a truncated file; None if it has no lines."""
    begin = _cut_content(file, at, size, PLANE)
    plane = _plane(file, WireField(PLANE, at, begin, size, 0), walk, space) if begin else Plane()
    return plane if plane.lines else None


def _plane(file: int, field: WireField, walk: Walk, space: Space) -> Plane:
    plane = Plane()
    spans: list[list[int]] = []
    try:
        for inner in parts(file, field.begin, field.end):
            if inner.number == _LINE:
                if (line := _line(file, inner.begin, inner.end, walk)) is not None:
                    plane.lines.append(line)
            elif spans and spans[-1][1] == inner.start:
                spans[-1][1] = inner.end
            else:
                spans.append([inner.start, inner.end])
    except Cut as cut:
        space.broken += 1
        if (line := _cut_line(file, cut.at, field.end, walk)) is not None:
            plane.lines.append(line)
    for start, end in spans:
        _name(plane, file, start, end, walk, space)
    return plane


def _cut_line(file: int, at: int, end: int, walk: Walk) -> Line | None:
    """The last, incomplete line of a truncated plane, if any."""
    begin = _cut_content(file, at, end, _LINE)
    return _line(file, begin, end, walk) if begin else None


def _cut_content(file: int, at: int, end: int, number: int) -> int:
    """Where the content of the message at ``at`` begins, if it extends beyond ``end``; else 0."""
    head = np.frombuffer(os.pread(file, 16, at), np.uint8)
    if not len(head) or head[0] != number << 3 | LENGTH:
        return 0
    begin, size = header(head, 0, len(head))
    return at + begin if at + begin + size > end else 0


def _line(file: int, begin: int, end: int, walk: Walk) -> Line | None:
    number, start, names = 0, 0, {"name": "", "display": ""}
    has_rows = False
    for stretch in Stretches(HEADER, walk).over(part_of(file, begin, end)):
        tokens = stretch.tokens
        for name in names:
            field = tokens.field(name)
            if len(field.values):
                names[name] = tokens.text(int(field.values[-1]), int(field.sizes[-1]))
        if len(values := tokens.field("id").values):
            number = int(values[-1])
        if len(values := tokens.field("begin").values):
            start = int(values[-1])
        has_rows = True
    return Line(number, names["display"] or names["name"], start, begin, end) if has_rows else None


def events_in(line: Line, file: int, walk: Walk) -> int:
    """The number of events of a line that is not read."""
    return sum(one.tokens.count("event") for one in Stretches(_EVENTS, walk).over(part_of(file, line.start, line.end)))


def _name(plane: Plane, file: int, start: int, end: int, walk: Walk, space: Space) -> None:
    """Read the names and statistics between two positions into ``plane``."""
    stretches = Stretches(NAMES, walk)
    for stretch in stretches.over(part_of(file, start, end)):
        tokens, texts = stretch.tokens, list[str]()

        def code(text: str, texts: list[str] = texts) -> int:
            texts.append(text)
            return len(texts) - 1

        names = tokens.field("name")
        if len(names.values):
            plane.name = tokens.text(int(names.values[-1]), int(names.sizes[-1]))
        for what, names_by_number in (("event", plane.events), ("stat", plane.statistics)):
            count = tokens.count(f"{what}.of")
            keys = tokens.column(f"{what}.key", tokens.count(what), 0)[tokens.owners(f"{what}.of")]
            shown = tokens.text_column(f"{what}.of.name", count, code).tolist()
            if what == "event":
                better = tokens.text_column("event.of.display", count, code).tolist()
                shown = [b if b >= 0 and texts[b] else a for a, b in zip(shown, better, strict=True)]
            names_by_number.update({key: texts[at] for key, at in zip(keys.tolist(), shown, strict=True) if at >= 0})
        plane.recorded.update(_own(tokens, code, texts))
    space.broken += stretches.broken + (stretches.damage is not None)


def _own(tokens: Tokens, code: Callable[[str], int], texts: list[str]) -> dict[int, int | float | str]:
    """A plane's own statistics, by the id of their name."""
    count = tokens.count("own")
    names = tokens.column("own.name", count, 0).tolist()
    results: dict[int, int | float | str] = {}
    for kind in ("whole", "signed", "real"):
        values = tokens.field(f"own.{kind}")
        numbers = reals(values.values) if kind == "real" else values.values
        for owner, value in zip(values.owners.tolist(), numbers.tolist(), strict=True):
            results[names[owner]] = value
    owners, codes = tokens.texts("own.text", code)
    for owner, at in zip(owners.tolist(), codes.tolist(), strict=True):
        results[names[owner]] = texts[at]
    return results


_EVENT, _NAME, _STATISTIC = 4, 1, 4
_REAL, _WHOLE, _SIGNED, _TEXT, _BYTES, _REFERENCE = range(2, 8)
_LONGEST_VALUE = 1 << 16


def arguments(path: Path, offset: int, name: str) -> dict[str, Any]:
    """The statistics of the event ``name`` whose content begins at ``offset``. Raises OSError like ``open``, ValueError
    if no such event begins there or the file is compressed."""
    with Source(path) as source:
        if source.compressed:
            raise ValueError("a compressed profile is not decompressed again")
    file = os.open(path, os.O_RDONLY)
    try:
        space = space_of(file, os.fstat(file).st_size, in_python)
        lines = ((plane, line) for plane in space.planes for line in plane.lines if line.start <= offset < line.end)
        for plane, line in lines:
            for part in parts(file, line.start, line.end):
                if part.number == _EVENT and part.begin == offset:
                    return _statistics(file, part, plane, name)
                if part.begin > offset:
                    break
    except Cut:
        pass
    finally:
        os.close(file)
    raise ValueError(f"no event begins at byte {offset:,}")


def _statistics(file: int, event: WireField, plane: Plane, name: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for part in parts(file, event.begin, event.end):
        if part.number == _NAME and plane.events.get(part.value) != name:
            raise ValueError("another event is there")
        if part.number == _STATISTIC:
            statistic = list(parts(file, part.begin, part.end))
            label = next((plane.statistics.get(p.value, str(p.value)) for p in statistic if p.number == 1), "")
            for each in statistic:
                if each.number != 1:
                    results[label] = _value(file, each, plane)
    return results


def _value(file: int, field: WireField, plane: Plane) -> Any:
    if field.number == _REFERENCE:
        return plane.statistics.get(field.value)
    if field.number in (_WHOLE, _SIGNED):
        return field.value - (1 << 64) if field.number == _SIGNED and field.value >> 63 else field.value
    content = os.pread(file, min(field.end - field.begin, _LONGEST_VALUE), field.begin)
    if field.number == _REAL and field.end - field.begin == 8:
        return struct.unpack("<d", content)[0]
    return content.decode("utf-8", "replace") if field.number == _TEXT else f"{field.end - field.begin:,} bytes"
