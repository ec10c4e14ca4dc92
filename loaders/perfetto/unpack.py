"""The bytes of a trace with its compressed packets unpacked.

A writer may put many packets into one, deflated. Such packets are few and large, so a trace that has them is read
packet by packet here, and what comes out is a trace without.
"""

from __future__ import annotations

import zlib

from ..ingest.stream import Source
from ..protobuf.layout import LENGTH
from .packets import COMPRESSED, PACKET

_MOST = 64 << 20
"""Bytes one packet may unpack to."""
_PIECE = 1 << 20
_HEADER = 20


class Unpacked:
    """Reads a source as ``Source.readinto`` does. ``damaged`` counts packets that could not be unpacked whole."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ahead = b""
        self._ready = memoryview(b"")
        self._raw = 0
        self._compressed = b""
        self.damaged = 0

    def readinto(self, view: memoryview) -> int:
        """Fill a buffer with what comes next; fewer bytes than it has room for only at the end."""
        filled = 0
        while filled < len(view):
            if not self._ready and not self._next():
                break
            chunk = self._ready[: len(view) - filled]
            view[filled : filled + len(chunk)] = chunk
            self._ready = self._ready[len(chunk) :]
            filled += len(chunk)
        return filled

    def _fill(self, size: int) -> None:
        if len(self._ahead) < size:
            self._ahead += self._source.read(max(size - len(self._ahead), 1 << 16))

    def _next(self) -> bool:
        """Have something ready; False at the end."""
        if self._raw:
            self._fill(min(self._raw, _PIECE))
            chunk, self._ahead = self._ahead[: self._raw], self._ahead[self._raw :]
            self._raw -= len(chunk)
            self._ready = memoryview(chunk)
            return bool(chunk)
        self._fill(_HEADER)
        if not self._ahead:
            return False
        head, content, size = self._header()
        if size <= 0 or head < 0:  # nothing to unpack here, and nothing to go by: as it is
            self._raw = max(head if head > 0 else len(self._ahead), 1)
            return self._next()
        self._fill(min(head + size, _MOST))
        packet = self._ahead[head : head + size]
        if content and len(packet) == size:
            self._ahead = self._ahead[head + size :]
            self._ready = memoryview(self._inflated(packet[content:]))
            return bool(self._ready) or self._next()
        self._raw = head + size
        return self._next()

    def _header(self) -> tuple[int, int, int]:
        """Bytes before the packet's content, where in that its compressed packets begin (0: it has none), its size."""
        tag, at = _varint(self._ahead, 0)
        if at < 0 or tag != PACKET << 3 | LENGTH:
            return -1, 0, 0
        size, at = _varint(self._ahead, at)
        if at < 0:
            return -1, 0, 0
        self._fill(at + _HEADER)
        tag, inner = _varint(self._ahead, at)
        if tag != COMPRESSED << 3 | LENGTH or inner < 0:
            return at, 0, size
        length, inner = _varint(self._ahead, inner)
        return at, inner - at if inner >= 0 and inner - at + length == size else 0, size

    def _inflated(self, data: bytes) -> bytes:
        decoder = zlib.decompressobj()
        try:
            unpacked = decoder.decompress(data, _MOST)
        except zlib.error:
            self.damaged += 1
            return b""
        self.damaged += not decoder.eof
        return unpacked


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    return 0, -1


def has_compressed(head: bytes) -> bool:
    """Whether one of the first packets holds compressed ones."""
    at = 0
    for _ in range(256):
        tag, at = _varint(head, at)
        size, begin = _varint(head, at) if at >= 0 and tag == PACKET << 3 | LENGTH else (0, -1)
        if begin < 0:
            return False
        if _varint(head, begin)[0] == COMPRESSED << 3 | LENGTH:
            return True
        at = begin + size
        if at >= len(head):
            return False
    return False
