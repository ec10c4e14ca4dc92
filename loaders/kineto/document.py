"""The JSON document around the events: where their list begins and ends, and the values before and after it.

The list may be the document itself (Ascend) or the value of ``traceEvents``, with megabytes of metadata on either side.
Top-level keys are walked exactly, so that a ``traceEvents`` inside a string or a nested object does not mislead.
"""

from __future__ import annotations

import json
import re
from mmap import mmap
from typing import Any, Protocol

from msgspec import Struct, field

from .columns import Number
from .decode import decode

HEADER_BYTES = 1 << 20
"""Bytes read at first to find the list of events."""
HEADER_LIMIT = 64 << 20
"""Bytes of metadata before or after the events that are looked at."""
KEYS = rb'"(?:ph|name|cat|ts|dur|pid|tid|id|args|s|bp)"\s*:'
"""Keys an event may begin with."""
SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_BORDER = re.compile(rb"\}\s*,\s*\{\s*" + KEYS)
EVENT = re.compile(rb"\{\s*(?=" + KEYS + rb")")

_walker = json.JSONDecoder(strict=False, parse_float=Number)
_BLANK = re.compile(r"[ \t\r\n]*")


class Reader(Protocol):
    """Decompressed bytes in order; fewer than asked only at the end."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        ...


class Incomplete(Exception):
    """The text ends before the value does."""


class Document(Struct):
    """A trace opened at its first event: ``rest`` are bytes already read, the first of them at offset ``base``.

    ``begun`` says that an event was read before them, so that a comma is due.
    """

    values: dict[str, Any] = field(default_factory=dict)
    rest: bytes = b""
    base: int = 0
    wrapped: bool = False
    found: bool = False
    begun: bool = False


def open_document(reader: Reader, block: int) -> Document:
    """Read up to the first event. ``found`` stays false where there is no list of events."""
    data = reader.read(block)
    while True:
        try:
            return _enter(data)
        except Incomplete:
            more = reader.read(max(block, len(data))) if len(data) < HEADER_LIMIT else b""
            if not more:
                return Document(rest=data)
            data += more


def _enter(data: bytes) -> Document:
    text = data.decode("latin-1")
    start = _skip(text, 3 if data.startswith(b"\xef\xbb\xbf") else 0)
    if text.startswith("[", start):
        return Document(rest=data[start + 1 :], base=start + 1, found=True)
    if not text.startswith("{", start):
        return Document(rest=data)
    values, place = _pairs(data, text, start + 1)
    if place < 0:
        return Document(values, rest=data, wrapped=True)
    return Document(values, data[place:], place, wrapped=True, found=True)


def _pairs(data: bytes, text: str, place: int) -> tuple[dict[str, Any], int]:
    """Key and value pairs from ``place`` on, up to and into ``traceEvents``; -1 as place where the object ends."""
    values: dict[str, Any] = {}
    while True:
        place = _skip(text, place)
        if text.startswith("}", place):
            return values, -1
        if text.startswith(",", place):
            place += 1
            continue
        key, place = _value(data, text, place)
        place = _skip(text, place)
        if not isinstance(key, str) or not text.startswith(":", place):
            return values, -1
        place = _skip(text, place + 1)
        if key == "traceEvents" and text.startswith("[", place):
            return values, place + 1
        values[key], place = _value(data, text, place)


def _value(data: bytes, text: str, place: int) -> tuple[Any, int]:
    """The value at ``place`` and where it ends. Raises Incomplete where the text may only be too short."""
    try:
        _, end = _walker.raw_decode(text, place)
    except RecursionError:
        return None, len(text)
    except json.JSONDecodeError as error:
        raise Incomplete from error
    if end >= len(text):
        raise Incomplete
    try:
        return decode(data[place:end])[0], end
    except ValueError:
        return None, end


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    end = found.end() if found else place
    if end >= len(text):
        raise Incomplete
    return end


def trailer(document: Document, data: bytes) -> bool:
    """Take in the values after the end of the list (``data`` starts behind its ``]``); whether the document closed."""
    if not document.wrapped:
        return True
    if len(data) > HEADER_LIMIT:
        return True
    try:
        values, place = _pairs(data + b" ", data.decode("latin-1") + " ", 0)
    except Incomplete:
        return False
    document.values |= values
    return place < 0


def first_separator(data: bytes) -> bytes:
    """The text from the end of one event to the first key of the next that is the most frequent near the start."""
    return separator_of(data[: 1 << 20], _BORDER) or separator_of(data[: 1 << 20])


def separator_of(sample: bytes, pattern: re.Pattern[bytes] = SEPARATOR) -> bytes:
    """The text between two events that is the most frequent in a sample; b'' where there is none."""
    seen: dict[bytes, int] = {}
    for found in pattern.finditer(sample):
        seen[found[0]] = seen.get(found[0], 0) + 1
    return max(seen, key=lambda text: seen[text], default=b"")


def last_cut(data: bytes | bytearray | mmap, separator: bytes, start: int, stop: int) -> int:
    """The end of the last event before a separator in ``data[start:stop]``; -1 where there is none."""
    place = data.rfind(separator, start, stop) if separator else -1
    return place + 1 if place >= 0 else -1


def events_end(data: bytes, start: int = 0) -> list[int]:
    """Places of ``]`` that may close the list of events, the likeliest first."""
    ends = re.compile(rb"(?:\}\s*|\A\s*)(\])\s*(?=,\s*\"[^\"]{1,80}\"\s*:|\}\s*\Z|\Z)")
    return [found.start(1) for _, found in zip(range(8), ends.finditer(data, start), strict=False)]
