"""The bytes of a file, decompressed and decoded: the head for format recognition, and blocks for reading.

Nobody looks at content before that: gzip, zstd, xz and bzip2 are unpacked, a byte order mark is dropped, UTF-16 and
UTF-32 become UTF-8, and the line ends of such texts, or of one without any line feed, become line feeds.

Files come from killed jobs and full disks, so a compressed stream may end or turn to garbage anywhere. All data decoded
up to that point are returned, and ``Source.ended`` gives the reason; data with a wrong checksum are returned in full,
and ``Source.fault`` says so. No library exception leaves this module. Compression is detected by magic bytes, never by
file name. The memory per block is bounded whatever size the stream declares, and so is the total unpacked size
(``limits``).
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from types import TracebackType

from ..loader import HEAD_BYTES
from . import limits
from .decoders import DECODERS, MARK_BYTES, Decoder, Text, encoding_of

BLOCK_BYTES = 8 << 20  # Decompressed bytes in one block.

_PIECE_BYTES = 1 << 20
"""Bytes decompressed at a time: few enough to stay in the CPU cache until they are copied to their destination, and
enough that the decompressing thread rarely waits for the GIL among scanning threads."""

SQLITE = b"SQLite format 3\0"


_UNSOUND = "damaged: the gzip checksum is wrong; the data was read in full, but values may be wrong"


class Source:
    """A file read from its beginning, decompressed and decoded if necessary.

    ``size`` is the file's length and ``position`` the bytes consumed, both as stored: their ratio is the progress.
    ``decompressed`` counts the bytes returned. ``ended`` is None, or a clause saying why a compressed stream stopped
    early; ``fault`` is a warning about that or any other fault of the stream. Raises OSError, and Unreadable if a
    compressed file expands beyond the limit; nothing else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path, self._file = path, FileIO(path)
        self.size = os.fstat(self._file.fileno()).st_size
        self.position = 0
        self.decompressed = 0
        self.ended: str | None = None
        self._unsound = 0
        self._pending = b""
        self._spare = memoryview(b"")
        magic = self._file.read(MARK_BYTES) or b""
        self._file.seek(0)
        self._kind = next((kind for kind in DECODERS if magic.startswith(kind.magic)), None)
        self._text: Text | None = None
        self._begun = False
        self.compressed = self._kind is not None or encoding_of(magic) is not None
        self._most = max(limits.UNCOUNTED_BYTES, self.size * limits.limit("unfolded"))
        self._decoder: Decoder | None = None
        self._lock = threading.Lock()

    @property
    def fault(self) -> str | None:
        """A warning about the compressed stream as read so far; None if it is intact."""
        if self.ended:
            return f"truncated: {self.ended}"
        return _UNSOUND if self._unsound else None

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        """The next ``size`` decompressed bytes; fewer only at the end, b"" after it."""
        if not self.compressed:
            return self._plain(size)
        return b"".join(self._pieces(size))

    def readinto(self, view: memoryview) -> int:
        """Fill a buffer with the next decompressed bytes; returns their number, less than its size only at the end."""
        if self.compressed:
            filled = 0
            for piece in self._pieces(len(view)):
                view[filled : filled + len(piece)] = piece
                filled += len(piece)
            return filled
        written = 0
        while written < len(view) and (got := self._file.readinto(view[written:])):
            written += got
        self.position += written
        self.decompressed += written
        return written

    def read_at(self, view: memoryview, offset: int) -> int:
        """Fill a buffer from ``offset`` of an uncompressed file; returns the bytes read, fewer only at the end.

        Thread-safe. ``position`` and ``decompressed`` become the highest offset read by any call.
        """
        filled = 0
        while filled < len(view) and (got := os.preadv(self._file.fileno(), [view[filled:]], offset + filled)):
            filled += got
        with self._lock:
            self.position = self.decompressed = max(self.position, offset + filled)
        return filled

    def skip(self, size: int) -> None:
        """Skip decompressed bytes: a seek in an uncompressed file; otherwise they must all be decompressed."""
        if not self.compressed:
            self._file.seek(size, os.SEEK_CUR)
            self.position += size
            self.decompressed += size
            return
        for _ in self._pieces(size):
            pass

    def __iter__(self) -> Iterator[bytes]:
        while block := self.read():
            yield block

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _plain(self, size: int) -> bytes:
        block = self._file.read(size) or b""
        while 0 < len(block) < size and (more := self._file.read(size - len(block))):
            block += more
        self.position += len(block)
        self.decompressed += len(block)
        return block

    def _pieces(self, size: int) -> Iterator[memoryview]:
        """The next ``size`` decoded bytes, in pieces; fewer only at the end."""
        while size > 0:
            piece = self._spare or memoryview(self._decoded(min(size, _PIECE_BYTES)))
            if not piece:
                return
            piece, self._spare = piece[:size], piece[size:]
            size -= len(piece)
            self.decompressed += len(piece)
            if self.decompressed > self._most:
                what = f"unpacks to more than {self._most / (1 << 30):,.1f} GiB from {self.size / (1 << 20):,.1f} MiB"
                raise limits.Exceeded("unfolded", what).unreadable(os.fspath(self._path))
            yield piece

    def _decoded(self, room: int) -> bytes:
        """Some bytes of the text as UTF-8; b"" at the end of the stream or at a fault."""
        while True:
            piece = self._piece(room)
            if not self._begun:
                self._begun = True
                while piece and len(piece) < MARK_BYTES and (more := self._piece(room)):
                    piece += more
                drop, encoding = encoding_of(piece[:MARK_BYTES]) or (0, "")
                piece, self._text = piece[drop:], Text(encoding) if encoding else None
            if self._text is None:
                return piece
            text = self._text.feed(piece, not piece)
            if text or not piece:
                return text

    def _piece(self, room: int) -> bytes:
        """Some decompressed bytes; b"" at the end of the stream or at a fault."""
        if self._kind is None:
            data = self._file.read(room) or b""
            self.position += len(data)
            return data
        while self.ended is None:
            data = self._pending or self._file.read(self._kind.chunk) or b""
            if self._decoder is None:
                data += self._file.read(4) or b"" if len(data) < 4 else b""
                if not self._next_member(data):
                    return b""
                self._decoder = self._kind()
            try:
                piece = self._decoder.feed(data, room)
            except Exception as error:
                self.ended = f"the compressed stream is damaged near byte {self.position:,} of {self.size:,} ({error})"
                return b""
            self._pending = self._decoder.rest()
            self.position = self._file.tell() - len(self._pending)
            if self._decoder.done:
                self._unsound += not self._decoder.sound
                self._decoder = None
            elif not data and not piece:
                self.ended = f"the compressed stream is cut off after {self.size:,} bytes"
            if piece:
                return piece
        return b""

    def _next_member(self, data: bytes) -> bool:
        """Whether another member begins here; trailing zero bytes are ignored, anything else sets ``ended``."""
        assert self._kind is not None
        if data.startswith(self._kind.magic):
            return True
        if data.strip(b"\0"):
            self.ended = f"data that is not compressed follows byte {self.position:,} of {self.size:,}"
        return False


def head(path: str | os.PathLike[str], size: int = HEAD_BYTES) -> bytes:
    """The first ``size`` bytes after decompression, as passed to sniffers.

    The schema of an SQLite database may be on any page, so its names and ``create`` statements replace everything after
    the first 100 bytes of the file. Raises OSError.
    """
    with Source(path) as source:
        first = source.read(size)
        if not first.startswith(SQLITE):
            return first
        from .sqlite_file import schema_text

        if not source.compressed:
            schema = schema_text(path)
        else:
            with tempfile.NamedTemporaryFile(suffix=".sqlite") as plain:
                plain.write(first)
                for block in source:
                    plain.write(block)
                plain.flush()
                schema = schema_text(plain.name)
        return (first[:100] + b"\n" + schema)[:size] if schema else first


def plain_file(
    path: Path, workspace: Path, progress: Callable[[int, int, int], None]
) -> tuple[Path, str | None]:
    """The file itself or, if it is compressed, an unpacked copy in the workspace; and ``Source.fault`` of the copy.

    For formats that need random access. Unpacking counts as half of the progress; the caller deletes the copy.
    """
    with Source(path) as source:
        if not source.compressed:
            return path, None
        plain = workspace / "unpacked"
        with open(plain, "wb") as out:
            for block in source:
                out.write(block)
                progress(source.position // 2, source.size, 0)
        return plain, source.fault


def line_blocks(source: Source, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The rest of the source in blocks that end at a line end, except the last.

    No text format has lines longer than four blocks: such a line is split, so that memory stays bounded.
    """
    rest = b""
    while block := source.read(size):
        cut = block.rfind(b"\n") + 1
        if cut or len(rest) >= 4 * size:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        yield rest


def read_all(path: str | os.PathLike[str]) -> tuple[bytes, str | None]:
    """All bytes of a file that fits in memory, and ``Source.fault``. Raises OSError."""
    with Source(path) as source:
        return b"".join(source), source.fault
