"""The JSON document around the events: where their list begins and ends, and the values before and after it.

The list may be the document itself (Ascend) or the value of ``traceEvents``, with megabytes of metadata on either side.
Top-level keys are walked exactly, so that a ``traceEvents`` inside a string or a nested object does not mislead. Values
are passed over without being made into objects, which take thirty times the room of their text; only short ones are.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from mmap import mmap
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field

from ..ingest import limits
from .columns import Number
from .decode import decode, whole

HEADER_BYTES = 1 << 20
"""Bytes read at first to find the list of events."""
TRAILER_BYTES = 16 << 20
"""Bytes after the events that are kept to be looked at."""
_KEPT_BYTES = 1 << 20
"""A longer value, and values that are longer together, mean nothing to us."""
_GROWTH = 4
KEYS = rb'"(?:ph|name|cat|ts|dur|pid|tid|id|args|s|bp)"\s*:'
"""Keys an event may begin with."""
SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_BORDER = re.compile(rb"\}\s*,\s*\{\s*" + KEYS)
EVENT = re.compile(rb"\{\s*(?=" + KEYS + rb")")

_walker = json.JSONDecoder(strict=False, parse_int=whole, parse_float=Number)
_passer = msgspec.json.Decoder(msgspec.Raw)
_ENDED = re.compile(r"trailing characters \(byte (\d+)\)")
"""How msgspec says where a value ended that others follow; where it says something else, a slower way is taken."""
_PLAIN = re.compile(rb'(?:-?[0-9]{1,15}|true|false|null|"[^"\\\x00-\x1f\x80-\xff]{0,200}")(?=\s*[,}])')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")
_PADDING = b" \t\r\n\0"
"""Bytes behind a document that are nothing."""


class BlockReader(Protocol):
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


def open_document(reader: BlockReader, block: int) -> Document:
    """Read up to the first event. ``found`` stays false where there is no list of events. Raises limits.Exceeded."""
    data, most = reader.read(block), limits.limit("header")
    while True:
        try:
            return _enter(data)
        except Incomplete:
            if len(data) > most:
                what = "has more than its metadata should take before the events"
                raise limits.Exceeded("header", what) from None
            more = reader.read(min((_GROWTH - 1) * len(data), most + 1 - len(data)) if data else block)
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
    values, place, found = _pairs(data, text, start + 1)
    if not found:
        return Document(values, rest=data, wrapped=True)
    return Document(values, data[place:], place, wrapped=True, found=True)


def _pairs(data: bytes, text: str, place: int) -> tuple[dict[str, Any], int, bool]:
    """Key and value pairs from ``place`` on, and the place behind them: in ``traceEvents`` where the flag says so, else
    behind the object's end or where no pair is.

    Of the values those that are short. Raises limits.Exceeded for more keys than there can be.
    """
    values: dict[str, Any] = {}
    keys, most, room = 0, limits.limit("header-keys"), _KEPT_BYTES
    while True:
        place = _skip(text, place)
        if text.startswith("}", place):
            return values, place + 1, False
        if text.startswith(",", place):
            place += 1
            continue
        begin = place
        key, place = _key(text, place)
        place = _skip(text, place)
        if key is None or not text.startswith(":", place):
            return values, begin, False
        place = _skip(text, place + 1)
        if key == "traceEvents" and text.startswith("[", place):
            return values, place + 1, True
        keys += 1
        if keys > most:
            raise limits.Exceeded("header-keys", f"has more than {most:,} keys beside its events")
        end = _passed(data, text, place)
        room -= end - place
        values[key] = None
        if room > 0:
            with suppress(ValueError):
                values[key] = decode(data[place:end])[0]
        else:
            room += end - place
        place = end


def _key(text: str, place: int) -> tuple[str | None, int]:
    """The string at ``place`` and its end; None where something else is there. Raises Incomplete."""
    if not text.startswith('"', place):
        return None, place
    try:
        found, end = _walker.raw_decode(text, place)
    except ValueError as error:
        raise Incomplete from error
    return str(found), end


def _passed(data: bytes, text: str, place: int) -> int:
    """The end of the value at ``place``. Raises Incomplete where the text may only be too short."""
    if plain := _PLAIN.match(data, place):
        return plain.end()
    try:
        _passer.decode(memoryview(data)[place:])
        raise Incomplete
    except (msgspec.DecodeError, RecursionError) as error:
        if ended := _ENDED.search(str(error)):
            return place + int(ended[1]) - 1
        if "truncated" in str(error):  # sound as far as it goes: to look for its end bracket by bracket takes seconds
            raise Incomplete from None
    if data[place] in b"{[":
        end = extent(data, place)
    else:
        try:
            _, end = _walker.raw_decode(text, place)
        except ValueError:
            end = -1
    if not 0 <= end < len(data):
        raise Incomplete
    return end


def extent(data: bytes, start: int, stop: int | None = None) -> int:
    """The end of the object or list that begins at ``start``; -1 where the data, or ``stop``, comes first."""
    depth = 0
    for found in _TOKEN.finditer(data, start, len(data) if stop is None else stop):
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


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    end = found.end() if found else place
    if end >= len(text):
        raise Incomplete
    return end


class Trailer:
    """What stands behind the list of events, as much of it as is kept.

    ``unread`` says of the text behind the document that it was not read; None where there is none.
    """

    def __init__(self) -> None:
        self.unread: str | None = None
        self._parts: list[bytes] = []
        self._room = TRAILER_BYTES
        self._last = b""  # byte that is no white space

    def add(self, data: bytes) -> None:
        """The next part, the first from behind the list's ``]``."""
        if self._room > 0:
            self._parts.append(data)
        self._room -= len(data)
        self._last = (data[-64:].rstrip() or data.rstrip())[-1:] or self._last

    def closes(self, document: Document) -> bool:
        """Take in the values that stand here; whether the document closed, as far as was looked."""
        data, place = b"".join(self._parts), 0
        if document.wrapped:
            try:
                values, place, again = _pairs(data + b" ", data.decode("latin-1") + " ", 0)
            except Incomplete:
                return self._room < 0 and self._last == b"}"  # of more than is kept, the end alone tells
            except limits.Exceeded:  # all events are there
                return True
            document.values |= values
            if again:  # a second list of events in the same object
                place -= 1
        self.unread = _unread(data[place:].lstrip(_PADDING), TRAILER_BYTES - self._room - len(data))
        return True


def _unread(rest: bytes, more: int) -> str | None:
    """What to say of text behind a document that goes on for ``more`` bytes; None where there is none."""
    if not rest:
        return None
    second = rest[:1] in (b"{", b"[")
    what = "a second JSON document or list of events follows the first" if second else "more follows the JSON document"
    return f"{what}: the last {len(rest) + more:,} bytes were not read"


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
