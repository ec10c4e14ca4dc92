"""Reads events one by one where a block is not a valid list: the slow path of both readers around damage.

Text that cannot be an event is skipped up to the next likely event, and counted. After damage an event is accepted only
where one may begin (after ``},``) and if it has a phase, so that the inside of a broken event is not taken for events.
The assumed extent of a broken event is bounded, so that time is linear in the length of the text rather than
proportional to length times number of faults.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..ingest.stream import Source
from .columns import Number, name_text
from .document import KEYS, decode, exact_integer, extent, plain_numbers
from .info import Tally

LONGEST_EVENT = 16 << 20  # A longer event is considered damage.

_NESTED = 16
"""Apparent event beginnings that one event may contain, as in a list of objects with names; a damaged event that seems
to span more has lost its end."""
_AGAIN = re.compile(rb"\}\s*,\s*(?=\{\s*" + KEYS + rb")")
_AFTER = re.compile(rb",\s*(?=\{\s*" + KEYS + rb")")
_ENDED = re.compile(rb"\s*(?:[,\]]|\Z)")
_BLANK = re.compile(rb"[ \t\r\n]*")
_walker = json.JSONDecoder(parse_int=exact_integer, parse_float=Number)

Take = Callable[[dict[str, Any], int, int, bool], None]
"""Called with an event, its start and end in the data and whether it was repaired."""


class RecoveredStretch(Struct):
    """Where a walk stopped: ``place`` is the first unused byte; ``closed``: that is the end of the list; ``comma``: a
    comma was read since the last value; ``moved``: a value was read or damage skipped."""

    place: int
    closed: bool
    comma: bool
    moved: bool


class _Reach:
    """The farthest end an event may have, given its start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._borders: list[int] | None = None

    def __call__(self, start: int) -> int:
        """The offset that the event at ``start`` cannot extend beyond."""
        if self._borders is None:
            self._borders = [match.end() for match in _AGAIN.finditer(self._data)]
        last = bisect_right(self._borders, start) + _NESTED
        return self._borders[last] if last < len(self._borders) else len(self._data)


def walk(
    data: bytes, offset: int, final: bool, take: Take, tally: Tally, limit: int | None = None, comma: bool = True
) -> RecoveredStretch:
    """Read events from ``offset`` on, at most ``limit`` of them; values that are not objects do not count. ``final``:
    no data follows; ``comma``: none is due before the first event."""
    text, reach = data.decode("latin-1"), _Reach(data)
    count, read_any, skipped_to = 0, False, -1

    def skip(to: int) -> int:
        nonlocal skipped_to
        tally.skipped_stretches += offset != skipped_to
        tally.skipped_bytes += to - offset
        skipped_to = to
        return to

    def done(closed: bool) -> RecoveredStretch:
        return RecoveredStretch(offset, closed, comma, read_any or skipped_to >= 0)

    while limit is None or count < limit:
        offset = _blank(data, offset)
        if offset >= len(data):
            return done(False)
        head = data[offset]
        if head == 0x5D:
            return done(True)
        if head == 0x2C:
            comma, offset = True, offset + 1
            continue
        end, event, repaired = _event(data, text, offset, final, reach)
        if end == _CUT:
            again = _resume(data, offset, _AGAIN, reach) if final or len(data) - offset > LONGEST_EVENT else -1
            if again < 0 and (final or len(data) - offset < LONGEST_EVENT):
                return done(False)
            offset, comma = skip(again if again >= 0 else len(data)), True
        elif event is _BROKEN:
            again = end if end >= 0 and head in b"{[" and _ENDED.match(data, end) else -1
            again = again if again >= 0 else _resume(data, offset, _AGAIN if head in b"{[" else _AFTER, reach)
            if again < 0 and not final and len(data) - offset < LONGEST_EVENT:
                return done(False)
            offset, comma = skip(again if again >= 0 else len(data)), again != end
        else:
            if not comma:
                skip(offset)
            if isinstance(event, dict):
                take(event, offset, end, repaired)
                count += 1
            offset, comma, read_any = end, False, True
    return done(False)


_BROKEN = object()  # In place of a value: the text is not valid JSON.
_CUT, _ENDLESS = -1, -2  # In place of an event's end: the data ends first; the event has lost its end.


def _event(data: bytes, text: str, offset: int, final: bool, reach: _Reach) -> tuple[int, Any, bool]:
    """The end of the value at ``offset`` (or _CUT or _ENDLESS), the value and whether it was repaired."""
    try:
        _, end = _walker.raw_decode(text, offset)
    except (ValueError, RecursionError):  # invalid JSON, or an integer of more digits than Python converts
        if data[offset] not in b"{[":
            return offset + 1, _BROKEN, False
        stop = reach(offset)
        end = extent(data, offset, stop)
        if end < 0:
            return (_CUT, None, False) if stop == len(data) else (_ENDLESS, _BROKEN, False)
    if end >= len(data) and not final and data[offset] not in b"{[":
        return _CUT, None, False
    try:
        value, repaired = decode(data[offset:end])
    except ValueError:
        return end, _BROKEN, False
    return end, value, repaired


def _resume(data: bytes, offset: int, pattern: re.Pattern[bytes], reach: _Reach) -> int:
    """The offset of the next intact event after damage at ``offset``; -1 if there is none."""
    for match in pattern.finditer(data, offset):
        start = match.end()
        end = extent(data, start, reach(start))
        if end < 0:
            continue
        try:
            value, _ = decode(data[start:end])
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("ph"), str):
            return start
    return -1


def _blank(data: bytes, offset: int) -> int:
    blank = _BLANK.match(data, offset)
    return blank.end() if blank else offset


_FIRST = 64 << 10


def arguments(path: str | Path, offset: int, name: str | None = None) -> dict[str, Any]:
    """The ``args`` of the event at ``offset`` (column ``offset`` of kernels and host); {} if it has none. Raises
    OSError, and ValueError if no event (of that name) begins there, as when the file has changed."""
    with Source(path) as source:
        source.skip(offset)
        data = source.read(_FIRST)
        while data.startswith(b"{"):
            end = extent(data, 0)
            if end >= 0:
                event, _ = decode(data[:end])
                if name is not None and name_text(event.get("name")) != name:
                    break
                recorded = event.get("args")
                return plain_numbers(recorded) if isinstance(recorded, dict) else {}
            more = source.read(len(data)) if len(data) < LONGEST_EVENT else b""
            if not more:
                break
            data += more
    raise ValueError(f"no event begins at byte {offset:,}")
