"""JSON as recorders write it: single values, exact or repaired, and the document around the events.

JSON that ``orjson`` accepts decodes to the same value, except that non-integer numbers stay text (``Number``). Invalid
JSON that recorders are known to write is repaired and reported: bare ``nan`` and ``inf`` in any spelling, raw control
characters and lone surrogates in strings, bytes that are not UTF-8, and integers of thousands of digits, which become
``Number`` too.

The list of events may be the document itself (Ascend) or the value of ``traceEvents``, with megabytes of metadata
before or after it. Top-level keys are parsed exactly, so that ``traceEvents`` inside a string or a nested object is not
mistaken for it. Only short values are decoded; others are skipped, because objects take 30 times the memory of their
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from mmap import mmap
from typing import Any

import msgspec
from msgspec import Struct, field

from ..ingest import limits
from ..ingest.stream import Source
from .columns import Number

_exact = msgspec.json.Decoder(float_hook=Number)
_DIGITS = 400  # More digits than any integer, or float, a recorder writes.


def exact_integer(text: str) -> int | Number:
    """The integer, or its text as ``Number`` if it has more digits than Python converts."""
    return int(text) if len(text) <= _DIGITS else Number(text)


_lenient = json.JSONDecoder(parse_int=exact_integer, parse_float=Number, parse_constant=lambda word: None, strict=False)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*+"|(-?\b(?:inf(?:inity)?|nan)\b)', re.IGNORECASE | re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(raw: bytes | bytearray | memoryview) -> tuple[Any, bool]:
    """Decode a value; returns it and whether it was repaired. A bare nan or inf becomes None. Raises ValueError."""
    try:
        return _exact.decode(raw), False
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    text = bytes(raw).decode("utf-8", "replace")
    text = _WORD.sub(lambda match: "null" if match[1] else match[0], text)
    try:
        value = _lenient.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return _well_formed(value), True


def _well_formed(value: Any) -> Any:
    """The value with lone surrogates, which UTF-8 cannot encode, replaced by U+FFFD."""
    return _mapped(value, lambda inner: _SURROGATE.sub("�", inner) if type(inner) is str else inner)


def plain_numbers(value: Any) -> Any:
    """A decoded value with every ``Number`` converted to float."""
    return _mapped(value, lambda inner: float(inner) if isinstance(inner, Number) else inner)


def _mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The value with ``convert`` applied to every scalar in it, keys included."""
    if isinstance(value, list):
        return [_mapped(item, convert) for item in value]
    if isinstance(value, dict):
        return {convert(key): _mapped(item, convert) for key, item in value.items()}
    return convert(value)


HEADER_BYTES = 1 << 20  # Bytes read first to find the list of events.
TRAILER_BYTES = 16 << 20  # Bytes after the events that are kept for parsing.
_KEPT_BYTES = 1 << 20  # Total text of the metadata values that are decoded; longer ones are skipped.
_GROWTH = 4
KEYS = rb'"(?:ph|name|cat|ts|dur|pid|tid|id|args|s|bp)"\s*:'  # Keys an event may begin with.
SEPARATOR = re.compile(rb"\}\s*,\s*\{")
_BORDER = re.compile(rb"\}\s*,\s*\{\s*" + KEYS)
EVENT = re.compile(rb"\{\s*(?=" + KEYS + rb")")

_walker = json.JSONDecoder(strict=False, parse_int=exact_integer, parse_float=Number)
_passer = msgspec.json.Decoder(msgspec.Raw)
_ENDED = re.compile(r"trailing characters \(byte (\d+)\)")
"""msgspec's message when text follows a value, with the position; other messages lead to a slower scan."""
_PLAIN = re.compile(rb'(?:-?[0-9]{1,15}|true|false|null|"[^"\\\x00-\x1f\x80-\xff]{0,200}")(?=\s*[,}])')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]*")
_PADDING = b" \t\r\n\0"  # Bytes ignored after a document.


class Incomplete(Exception):
    """The text ends before the value does."""


class Document(Struct):
    """A trace opened at its first event: ``rest`` are the bytes already read, ``base`` is the offset of the first of
    them. ``begun``: an event has been read before them, so a comma must come next."""

    values: dict[str, Any] = field(default_factory=dict)
    rest: bytes = b""
    base: int = 0
    wrapped: bool = False
    has_events: bool = False
    begun: bool = False


def open_document(source: Source, block: int) -> Document:
    """Read up to the first event; ``has_events`` is false if there is no list of events. Raises limits.Exceeded."""
    data, limit = source.read(block), limits.limit("header")
    while True:
        try:
            text = data.decode("latin-1")
            start = _skip(text, 3 if data.startswith(b"\xef\xbb\xbf") else 0)
            if text.startswith("[", start):
                return Document(rest=data[start + 1 :], base=start + 1, has_events=True)
            if not text.startswith("{", start):
                return Document(rest=data)
            values, offset, is_open = _pairs(data, text, start + 1)
            if not is_open:
                return Document(values, rest=data, wrapped=True)
            return Document(values, data[offset:], offset, wrapped=True, has_events=True)
        except Incomplete:
            if len(data) > limit:
                what = "has more than its metadata should take before the events"
                raise limits.Exceeded("header", what) from None
            more = source.read(min((_GROWTH - 1) * len(data), limit + 1 - len(data)) if data else block)
            if not more:
                return Document(rest=data)
            data += more


def _pairs(data: bytes, text: str, offset: int) -> tuple[dict[str, Any], int, bool]:
    """Parse key-value pairs from ``offset`` on; returns the values (long ones as None), the end offset and a flag: true
    if the end is just inside the list of ``traceEvents``, false if it is after the object or where no pair follows.
    Raises limits.Exceeded for too many keys."""
    values: dict[str, Any] = {}
    keys, limit, room = 0, limits.limit("header-keys"), _KEPT_BYTES
    while True:
        offset = _skip(text, offset)
        if text.startswith("}", offset):
            return values, offset + 1, False
        if text.startswith(",", offset):
            offset += 1
            continue
        begin = offset
        key, offset = _key(text, offset)
        offset = _skip(text, offset)
        if key is None or not text.startswith(":", offset):
            return values, begin, False
        offset = _skip(text, offset + 1)
        if key == "traceEvents" and text.startswith("[", offset):
            return values, offset + 1, True
        keys += 1
        if keys > limit:
            raise limits.Exceeded("header-keys", f"has more than {limit:,} keys beside its events")
        end = _value_end(data, text, offset)
        room -= end - offset
        values[key] = None
        if room > 0:
            with suppress(ValueError):
                values[key] = decode(data[offset:end])[0]
        else:
            room += end - offset
        offset = end


def _key(text: str, offset: int) -> tuple[str | None, int]:
    """The string at ``offset`` and its end; None if there is no string. Raises Incomplete."""
    if not text.startswith('"', offset):
        return None, offset
    try:
        key, end = _walker.raw_decode(text, offset)
    except ValueError as error:
        raise Incomplete from error
    return str(key), end


def _value_end(data: bytes, text: str, offset: int) -> int:
    """The end of the value at ``offset``. Raises Incomplete if more text may be needed."""
    if plain := _PLAIN.match(data, offset):
        return plain.end()
    try:
        _passer.decode(memoryview(data)[offset:])
        raise Incomplete
    except (msgspec.DecodeError, RecursionError) as error:
        if ended := _ENDED.search(str(error)):
            return offset + int(ended[1]) - 1
        if "truncated" in str(error):  # valid so far; searching for its end bracket by bracket would take seconds
            raise Incomplete from None
    if data[offset] in b"{[":
        end = extent(data, offset)
    else:
        try:
            _, end = _walker.raw_decode(text, offset)
        except ValueError:
            end = -1
    if not 0 <= end < len(data):
        raise Incomplete
    return end


def extent(data: bytes, start: int, stop: int | None = None) -> int:
    """The end of the object or list that begins at ``start``; -1 if the data, or ``stop``, comes first."""
    depth = 0
    for match in _TOKEN.finditer(data, start, len(data) if stop is None else stop):
        token = match[0]
        if token == b'"':
            return -1
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth <= 0:
                return match.end()
    return -1


def _skip(text: str, offset: int) -> int:
    blank = _BLANK.match(text, offset)
    end = blank.end() if blank else offset
    if end >= len(text):
        raise Incomplete
    return end


class Trailer:
    """The text after the list of events, up to ``TRAILER_BYTES``. ``unread`` is a clause about text after the document
    that was not read; None if there is none."""

    def __init__(self) -> None:
        self.unread: str | None = None
        self._parts: list[bytes] = []
        self._room = TRAILER_BYTES
        self._last = b""  # last byte that is not white space

    def add(self, data: bytes) -> None:
        """Append the next part; the first begins after the list's ``]``."""
        if self._room > 0:
            self._parts.append(data)
        self._room -= len(data)
        self._last = (data[-64:].rstrip() or data.rstrip())[-1:] or self._last

    def closes(self, document: Document) -> bool:
        """Add the values found here to the document; returns whether the document is closed, as far as known."""
        data, offset = b"".join(self._parts), 0
        if document.wrapped:
            try:
                values, offset, again = _pairs(data + b" ", data.decode("latin-1") + " ", 0)
            except Incomplete:
                return self._room < 0 and self._last == b"}"  # longer than is kept: only its last byte tells
            except limits.Exceeded:  # too many keys, but all events have been read
                return True
            document.values |= values
            if again:  # a second list of events in the same object
                offset -= 1
        self.unread = _unread(data[offset:].lstrip(_PADDING), TRAILER_BYTES - self._room - len(data))
        return True


def _unread(rest: bytes, more: int) -> str | None:
    """A clause about unread text after a document, ``rest`` and ``more`` further bytes; None if there is none."""
    if not rest:
        return None
    second = rest[:1] in (b"{", b"[")
    what = "a second JSON document or list of events follows the first" if second else "more follows the JSON document"
    return f"{what}: the last {len(rest) + more:,} bytes were not read"


def first_separator(data: bytes) -> bytes:
    """The most frequent separator of events near the start, with the first key of the next event if possible."""
    return separator_of(data[: 1 << 20], _BORDER) or separator_of(data[: 1 << 20])


def separator_of(sample: bytes, pattern: re.Pattern[bytes] = SEPARATOR) -> bytes:
    """The most frequent match of ``pattern`` in a sample; b'' if there is none."""
    counts: dict[bytes, int] = {}
    for match in pattern.finditer(sample):
        counts[match[0]] = counts.get(match[0], 0) + 1
    return max(counts, key=lambda text: counts[text], default=b"")


def last_cut(data: bytes | bytearray | mmap, separator: bytes, start: int, stop: int) -> int:
    """The end of the event before the last separator in ``data[start:stop]``; -1 if there is none."""
    offset = data.rfind(separator, start, stop) if separator else -1
    return offset + 1 if offset >= 0 else -1


def events_end(data: bytes, start: int = 0) -> list[int]:
    """Offsets of the first 8 ``]`` that may close the list of events, in file order."""
    ends = re.compile(rb"(?:\}\s*|\A\s*)(\])\s*(?=,\s*\"[^\"]{1,80}\"\s*:|\}\s*\Z|\Z)")
    return [match.start(1) for _, match in zip(range(8), ends.finditer(data, start), strict=False)]
