"""Decoders of compressed members, and of text in other encodings, for ``stream``."""

from __future__ import annotations

import codecs
from typing import Any, Protocol

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
XZ, BZIP2 = b"\xfd7zXZ\0", b"BZh"
COMPRESSED = (GZIP, ZSTD, XZ, BZIP2)


class Decoder(Protocol):
    """Decoder of one compressed member or frame; ``feed`` is asked for at most ``room`` bytes."""

    done: bool
    sound: bool
    """Whether the data match their checksum; a decoder without this information raises on a mismatch."""

    def feed(self, data: bytes, room: int) -> bytes:
        """The next decoded bytes."""
        ...

    def rest(self) -> bytes:
        """Bytes that were fed and not used."""
        ...


class Gzip:
    """Decoder of one gzip member (RFC 1952); a file may have several.

    Header and checksum are handled here, because isal's own reader drops the last block on a checksum mismatch.
    """

    chunk = 64 << 10
    magic = GZIP

    def __init__(self) -> None:
        from isal import isal_zlib

        self._decoder, self._crc32 = isal_zlib.decompressobj(wbits=-15), isal_zlib.crc32
        self._header = self._trailer = self._rest = b""
        self._begun = self.done = False
        self.sound = True
        self._crc = self._size = 0

    def feed(self, data: bytes, room: int) -> bytes:
        """The next decoded bytes."""
        if not self._begun:
            self._header += data
            if (begin := _after_header(self._header)) < 0:
                self._rest = b""
                return b""
            self._begun, data = True, self._header[begin:]
        decoded = b""
        if not self._decoder.eof:
            decoded = self._decoder.decompress(data, room)
            self._crc = self._crc32(decoded, self._crc)
            self._size += len(decoded)
            self._rest = self._decoder.unconsumed_tail
            if not self._decoder.eof:
                return decoded
            data = self._decoder.unused_data
        self._trailer += data
        self._trailer, self._rest = self._trailer[:_TRAILER], self._trailer[_TRAILER:]
        self.done = len(self._trailer) == _TRAILER
        expected = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        self.sound = not self.done or self._trailer == expected
        return decoded

    def rest(self) -> bytes:
        """Bytes that were fed and not used."""
        return self._rest


_TRAILER = 8  # Bytes after the data of a gzip member: checksum and size.
_LONGEST_HEADER = 1 << 20  # A gzip header may hold a file name and a comment.


def _after_header(data: bytes) -> int:
    """The offset after a gzip header; -1 if ``data`` does not hold all of it. Raises ValueError if it is invalid."""
    if len(data) < 10:
        return -1
    flags, place = data[3], 10
    if data[2] != 8 or flags & 0xE0:
        raise ValueError("unknown method or flags")
    if flags & 4:
        place += 2 + int.from_bytes(data[10:12], "little")
    for flag in (8, 16):
        if flags & flag:
            place = data.find(b"\0", place) + 1 or len(data) + 1
    place += 2 if flags & 2 else 0
    if place > _LONGEST_HEADER:
        raise ValueError("a header without an end")
    return place if place <= len(data) else -1


class Zstd:
    """Decoder of one zstd frame. Four bytes can expand to 128 KiB, so it is fed in small chunks."""

    chunk = 4 << 10
    magic = ZSTD
    sound = True

    def __init__(self) -> None:
        import zstandard

        self._decoder = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
        self.done = False

    def feed(self, data: bytes, room: int) -> bytes:
        """The next decoded bytes."""
        decoded = self._decoder.decompress(data)
        self.done = self._decoder.eof
        return decoded

    def rest(self) -> bytes:
        """Bytes that were fed and not used."""
        return self._decoder.unused_data if self.done else b""


class Whole:
    """Decoder of one xz or bzip2 stream, with the standard library's."""

    chunk = 64 << 10
    sound = True
    magic = b""

    def __init__(self) -> None:
        self._decoder = self._new()
        self.done = False

    def _new(self) -> Any:
        raise NotImplementedError

    def feed(self, data: bytes, room: int) -> bytes:
        """The next decoded bytes."""
        decoded: bytes = self._decoder.decompress(data, room)
        self.done = self._decoder.eof
        return decoded

    def rest(self) -> bytes:
        """Bytes that were fed and not used."""
        return bytes(self._decoder.unused_data) if self.done else b""


class Xz(Whole):
    """Decoder of one xz stream."""

    magic = XZ

    def _new(self) -> Any:
        import lzma

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << 30)


class Bzip2(Whole):
    """Decoder of one bzip2 stream."""

    magic = BZIP2

    def _new(self) -> Any:
        import bz2

        return bz2.BZ2Decompressor()


class Text:
    """Text in another encoding, or with other line ends, as UTF-8 with line feeds."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._held = ""

    def feed(self, data: bytes, final: bool) -> bytes:
        """The next bytes; a carriage return at the end is held until it is known what follows it."""
        text = self._held + self._decoder.decode(data, final)
        self._held = "\r" if text.endswith("\r") and not final else ""
        text = text[: len(text) - len(self._held)]
        return text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")


_MARKS = ((codecs.BOM_UTF8, ""), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
          (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
"""(Byte order mark, encoding; '' for UTF-8, whose mark is only dropped). UTF-32's begin as UTF-16's."""
_CONTROLS = frozenset(range(32)) - {9, 13}
MARK_BYTES = 4096  # Bytes searched for a byte order mark and for line ends.


def encoding_of(start: bytes) -> tuple[int, str] | None:
    """(bytes to drop, encoding to decode from; '' for none) of a text that begins so; None if it is to be left."""
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return (len(mark), encoding) if not encoding else (0, encoding)
    return (0, "utf-8") if b"\r" in start[:-1] and not _CONTROLS & set(start) else None


DECODERS: tuple[type[Gzip | Zstd | Whole], ...] = (Gzip, Zstd, Xz, Bzip2)
