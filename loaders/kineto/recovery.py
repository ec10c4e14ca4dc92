"""Events one by one, where a block is no valid list: the slow way both readers take around damage.

What cannot be an event is skipped up to the next thing that looks like one, and counted. An event is accepted after
damage only where an event may begin (behind a ``},``) and where it has a phase, so that the inside of a broken event
is not taken for events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .columns import Number
from .decode import decode
from .document import KEYS
from .info import Tally

LONGEST_EVENT = 16 << 20
"""An event that is longer is taken for damage."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_AGAIN = re.compile(rb"\}\s*,\s*(?=\{\s*" + KEYS + rb")")
_AFTER = re.compile(rb",\s*(?=\{\s*" + KEYS + rb")")
_ENDED = re.compile(rb"\s*(?:[,\]]|\Z)")
_BLANK = re.compile(rb"[ \t\r\n]*")
_walker = json.JSONDecoder(parse_float=Number)

Take = Callable[[dict[str, Any], int, int, bool], None]
"""Receives an event, its start and end in the data and whether it was repaired."""


class Walk(Struct):
    """Where a walk stopped: ``place`` is the first byte not used; ``closed`` where that is the end of the list.

    ``comma`` says that a comma was read since the last event, ``moved`` that an event was read or damage passed.
    """

    place: int
    closed: bool
    comma: bool
    moved: bool


def extent(data: bytes, start: int) -> int:
    """The end of the object or list that begins at ``start``; -1 where the data ends first."""
    depth = 0
    for found in _TOKEN.finditer(data, start):
        token = found[0]
        if token == b'"':
            return -1
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                return found.end()
    return -1


def walk(
    data: bytes, place: int, final: bool, take: Take, tally: Tally, limit: int | None = None, comma: bool = True
) -> Walk:
    """Read events from ``place`` on; ``limit`` stops after that many. ``final`` says that no data follows,
    ``comma`` that none is due before the first event."""
    text = data.decode("latin-1")
    count, skipped_to = 0, -1

    def skip(to: int) -> int:
        nonlocal skipped_to
        tally.skipped_stretches += place != skipped_to
        tally.skipped_bytes += to - place
        skipped_to = to
        return to

    def done(closed: bool) -> Walk:
        return Walk(place, closed, comma, count > 0 or skipped_to >= 0)

    while limit is None or count < limit:
        place = _blank(data, place)
        if place >= len(data):
            return done(False)
        head = data[place]
        if head == 0x5D:
            return done(True)
        if head == 0x2C:
            comma, place = True, place + 1
            continue
        end, event, repaired = _event(data, text, place, final)
        if end < 0:
            again = _resume(data, place, _AGAIN) if final or len(data) - place > LONGEST_EVENT else -1
            if again < 0 and (final or len(data) - place < LONGEST_EVENT):
                return done(False)
            place, comma = skip(again if again >= 0 else len(data)), True
        elif event is _BROKEN:
            again = end if head in b"{[" and _ENDED.match(data, end) else -1
            again = again if again >= 0 else _resume(data, place, _AGAIN if head in b"{[" else _AFTER)
            if again < 0 and not final and len(data) - place < LONGEST_EVENT:
                return done(False)
            place, comma = skip(again if again >= 0 else len(data)), again != end
        else:
            if not comma:
                skip(place)
            if isinstance(event, dict):
                take(event, place, end, repaired)
            place, comma, count = end, False, count + 1
    return done(False)


class _Broken:
    """Marks a stretch that is no value."""


_BROKEN = _Broken()


def _event(data: bytes, text: str, place: int, final: bool) -> tuple[int, Any, bool]:
    """The end of the value at ``place`` (-1: the data ends first), the value and whether it was repaired."""
    try:
        _, end = _walker.raw_decode(text, place)
    except (json.JSONDecodeError, RecursionError):
        if data[place] not in b"{[":
            return place + 1, _BROKEN, False
        end = extent(data, place)
        if end < 0:
            return -1, None, False
    if end >= len(data) and not final and data[place] not in b"{[":
        return -1, None, False
    try:
        value, repaired = decode(data[place:end])
    except ValueError:
        return end, _BROKEN, False
    return end, value, repaired


def _resume(data: bytes, place: int, pattern: re.Pattern[bytes]) -> int:
    """The next place behind a damaged one where an event begins; -1 where there is none."""
    for found in pattern.finditer(data, place):
        start = found.end()
        end = extent(data, start)
        if end < 0:
            continue
        try:
            value, _ = decode(data[start:end])
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("ph"), str):
            return start
    return -1


def _blank(data: bytes, place: int) -> int:
    found = _BLANK.match(data, place)
    return found.end() if found else place
