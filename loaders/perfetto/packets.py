"""The packets of a Perfetto trace: the fields of them that mean something to the tables, and compressed ones unpacked.

A trace is a row of packets. Those of track events refer to tracks, which descriptors describe, and to texts and
defaults that earlier packets of the same sequence gave. A writer may put many packets into one, deflated: few and large
ones, so such a trace is read packet by packet, and what comes out is a trace without. The messages:
https://perfetto.dev/docs/reference/trace-packet-proto.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ..ingest.stream import Source
from ..protobuf.layout import BYTES, FIXED, LENGTH, NUMBER, TEXT, varint
from ..protobuf.tokens import Fields, Shape

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # Types of track events.
CLEARED = 1  # Flag of a packet from which on its sequence has forgotten texts and defaults.

_SCALARS: Fields = {
    2: ("flag", NUMBER), 3: ("unsigned", NUMBER), 4: ("signed", NUMBER), 5: ("real", FIXED), 6: ("text", TEXT),
    7: ("pointer", NUMBER), 17: ("text_id", NUMBER),
}  # fmt: skip
_NAMED: Fields = {1: ("name_id", NUMBER), 10: ("name", TEXT), **_SCALARS}
_LIST: Fields = {12: ("item", {3: ("unsigned", NUMBER), 4: ("signed", NUMBER)})}
_INTERNED: Fields = {1: ("id", NUMBER), 2: ("text", TEXT)}
INTERNED = {"category": 1, "name": 2, "annotation": 3, "value": 29}
"""Kinds of texts a sequence may give a number, and their fields."""

_EVENT: Fields = {
    9: ("type", NUMBER), 11: ("track", NUMBER), 3: ("category_id", NUMBER), 22: ("category", TEXT),
    10: ("name_id", NUMBER), 23: ("name", TEXT), 30: ("count", NUMBER), 44: ("real_count", FIXED),
    47: ("flow", FIXED), 36: ("old_flow", NUMBER), 48: ("last_flow", FIXED), 42: ("old_last_flow", NUMBER),
    4: ("annotation", {**_NAMED, **_LIST, 11: ("entry", {**_NAMED, **_LIST})}),
    6: ("legacy", {2: ("phase", NUMBER)}),
}  # fmt: skip
_DESCRIPTOR: Fields = {
    1: ("uuid", NUMBER), 5: ("parent", NUMBER), 2: ("name", TEXT), 10: ("static_name", TEXT),
    3: ("process", {1: ("pid", NUMBER), 6: ("name", TEXT)}),
    4: ("thread", {1: ("pid", NUMBER), 2: ("tid", NUMBER), 5: ("name", TEXT)}),
    8: ("counter", {
        3: ("unit", NUMBER), 4: ("multiplier", NUMBER), 5: ("incremental", NUMBER), 6: ("unit_name", TEXT),
    }),
}  # fmt: skip
_CLOCKS: Fields = {
    1: ("clock", {1: ("id", NUMBER), 2: ("time", NUMBER), 3: ("incremental", NUMBER), 4: ("multiplier", NUMBER)}),
}  # fmt: skip
PACKETS = Shape({
    1: ("packet", {
        8: ("time", NUMBER), 58: ("clock", NUMBER), 10: ("sequence", NUMBER), 13: ("flags", NUMBER),
        41: ("cleared", NUMBER), 42: ("lost", NUMBER), 50: ("compressed", BYTES),
        11: ("event", _EVENT), 60: ("track", _DESCRIPTOR), 6: ("snapshot", _CLOCKS),
        12: ("interned", {number: (kind, _INTERNED) for kind, number in INTERNED.items()}),
        59: ("defaults", {58: ("clock", NUMBER), 11: ("event", {11: ("track", NUMBER)})}),
    }),
})  # fmt: skip
"""What is read of a trace."""
PACKET, COMPRESSED = 1, 50


_MOST = 64 << 20  # Bytes one packet may unpack to.
_PIECE = 1 << 20
_HEADER = 20


class Unpacked:
    """Reads a source as ``Source.readinto`` does. ``damaged`` counts packets that could not be unpacked whole."""

    def __init__(self, source: Source) -> None:
        self._source, self._bytes = source, b""
        self._chunks, self._ready = self._packets(), memoryview(b"")
        self.damaged = 0

    def readinto(self, view: memoryview) -> int:
        """Fill a buffer with what comes next; fewer bytes than it has room for only at the end."""
        filled = 0
        while filled < len(view):
            if not self._ready:
                self._ready = memoryview(next(self._chunks, b""))
            if not self._ready:
                break
            chunk = self._ready[: len(view) - filled]
            view[filled : filled + len(chunk)] = chunk
            self._ready = self._ready[len(chunk) :]
            filled += len(chunk)
        return filled

    def _packets(self) -> Iterator[bytes]:
        """The bytes of the trace, none of them empty. What is no packet, or cannot be one, is left as it is."""
        while self._fill(2 * _HEADER):
            begin, inside, size = self._header()
            if inside and size <= _MOST and self._fill(begin + size) >= begin + size:
                packet = self._take(begin + size)
                if unpacked := self._inflated(packet[begin + inside :]):
                    yield unpacked
                continue
            remaining = begin + size if begin > 0 else len(self._bytes)
            while remaining > 0 and self._fill(min(remaining, _PIECE)):
                chunk = self._take(remaining)
                remaining -= len(chunk)
                yield chunk

    def _fill(self, size: int) -> int:
        """Have at least so many bytes at hand, fewer only at the end; how many there are."""
        if len(self._bytes) < size:
            self._bytes += self._source.read(max(size - len(self._bytes), 1 << 16))
        return len(self._bytes)

    def _take(self, size: int) -> bytes:
        chunk, self._bytes = self._bytes[:size], self._bytes[size:]
        return chunk

    def _header(self) -> tuple[int, int, int]:
        """Bytes before the packet's content (0: it is none), where in that its compressed packets begin (0: it has
        none), its size."""
        tag, at = varint(self._bytes, 0)
        size, begin = varint(self._bytes, at) if at >= 0 else (0, -1)
        if begin < 0 or tag != PACKET << 3 | LENGTH:
            return 0, 0, 0
        tag, at = varint(self._bytes, begin)
        if at < 0 or tag != COMPRESSED << 3 | LENGTH:
            return begin, 0, size
        length, at = varint(self._bytes, at)
        return begin, at - begin if at - begin + length == size and at >= 0 else 0, size

    def _inflated(self, data: bytes) -> bytes:
        decoder = zlib.decompressobj()
        try:
            unpacked = decoder.decompress(data, _MOST)
        except zlib.error:
            self.damaged += 1
            return b""
        self.damaged += not decoder.eof
        return unpacked


def has_compressed(head: bytes) -> bool:
    """Whether one of the first packets holds compressed ones."""
    at = 0
    for _ in range(256):
        tag, at = varint(head, at)
        size, begin = varint(head, at) if at >= 0 and tag == PACKET << 3 | LENGTH else (0, -1)
        if begin < 0:
            return False
        if varint(head, begin)[0] == COMPRESSED << 3 | LENGTH:
            return True
        at = begin + size
        if at >= len(head):
            return False
    return False
