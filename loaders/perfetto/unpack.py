"""The bytes of a trace with its compressed packets unpacked.

A writer may put many packets into one, deflated. Such packets are few and large, so a trace that has them is read
packet by packet here, and what comes out is a trace without.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ..ingest.stream import Source
from ..protobuf.layout import LENGTH, varint
from .packets import COMPRESSED, PACKET

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
        taken, self._bytes = self._bytes[:size], self._bytes[size:]
        return taken

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
