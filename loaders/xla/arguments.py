"""All statistics of one event, read again from the file when somebody asks for them."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

from ..ingest.stream import Source
from ..protobuf.stretches import Cut, WireField, parts
from ..protobuf.walk import in_python
from .space import Plane, space_of

_EVENT, _NAME, _STATISTIC = 4, 1, 4
_REAL, _WHOLE, _SIGNED, _TEXT, _BYTES, _REFERENCE = range(2, 8)
_LONGEST_TEXT = 1 << 16


def arguments(path: Path, offset: int, name: str) -> dict[str, Any]:
    """The statistics of the event of that name whose content begins at ``offset``. Raises OSError as ``open`` does,
    ValueError where no such event begins there or the file is compressed."""
    with Source(path) as source:
        if source.compressed:
            raise ValueError("a compressed profile is not unpacked again")
    file = os.open(path, os.O_RDONLY)
    try:
        space = space_of(file, os.fstat(file).st_size, in_python)
        lines = ((plane, line) for plane in space.planes for line in plane.lines if line.start <= offset < line.end)
        for plane, line in lines:
            for field in parts(file, line.start, line.end):
                if field.number == _EVENT and field.begin == offset:
                    return _statistics(file, field, plane, name)
                if field.begin > offset:
                    break
    except Cut:
        pass
    finally:
        os.close(file)
    raise ValueError(f"no event begins at byte {offset:,}")


def _statistics(file: int, event: WireField, plane: Plane, name: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for field in parts(file, event.begin, event.end):
        if field.number == _NAME and plane.events.get(field.value) != name:
            raise ValueError("another event is there")
        if field.number == _STATISTIC:
            statistic = list(parts(file, field.begin, field.end))
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
    content = os.pread(file, min(field.end - field.begin, _LONGEST_TEXT), field.begin)
    if field.number == _REAL and field.end - field.begin == 8:
        return struct.unpack("<d", content)[0]
    return content.decode("utf-8", "replace") if field.number == _TEXT else f"{field.end - field.begin:,} bytes"
