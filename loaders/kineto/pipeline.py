"""Large files: threads take pieces of the text and scan them in parallel; the rows are appended in file order.

Pieces are cut at a likely border between two events. Scanning the previous piece verifies the guess: if that ends
exactly between two events, the cut was right. If not (a nested list looked like a border, or the file is damaged), the
rest is prepended to the next piece, which is scanned again. So every input gives the same rows as a scan in one piece.

Decompression is sequential, so only one thread at a time reads a compressed file. In an uncompressed file each thread
reads its own piece and a little text before it, so that both neighbours search the same bytes for their common border.
That saves a reader thread and two buffers: 500 MB take an eighth less time on two cores and 40 MB less memory.
"""

from __future__ import annotations

import mmap as mmap_module
import threading
from collections.abc import Callable
from mmap import mmap

from msgspec import Struct

from ..ingest.stream import Source
from ..native.functions import Native
from ..native.processor import threads
from .deferred_events import DeferredEvents
from .document import Document, Trailer, first_separator, last_cut
from .info import Tally
from .recovery import LONGEST_EVENT
from .scan.blocks import BlockScanner, Outcome, Text
from .scan.layout import PAD
from .tables import Tables

_EARLY_BYTES = 1 << 20
_EARLY = 4  # So many first pieces of at most ``_EARLY_BYTES``, so that the first rows can be shown sooner.
_SLACK = 256 << 10
"""Room in a buffer for the rest of the previous piece; if more is needed, a new buffer is made. Also the bytes read
before a piece of an uncompressed file to find its border; a longer event hides it."""


class Piece(Struct):
    """``data[begin:stop]`` is text, followed by ``PAD`` bytes; ``base`` is the offset of ``data[0]`` in the source.
    ``first``: no comma is due before it; ``final``: nothing follows. A piece that is not ``bordered`` was cut at an
    arbitrary byte and can only be scanned together with the next one."""

    number: int
    data: mmap
    begin: int
    stop: int
    base: int
    first: bool
    final: bool
    bordered: bool = True


class _Numbered:
    def __init__(self, document: Document, block: int) -> None:
        self._block, self._begun = block, document.begun
        self._number, self._base = 0, document.base
        self._separator = first_separator(document.rest)
        self._lock = threading.Lock()

    def _size(self) -> int:
        return self._block if self._number >= _EARLY else min(self._block, _EARLY_BYTES)


class InOrder(_Numbered):
    """Pieces of a source that is read sequentially, beginning with ``document.rest``."""

    def __init__(self, source: Source, document: Document, block: int) -> None:
        super().__init__(document, block)
        self._source, self._rest, self._over = source, document.rest, False

    def take(self, data: mmap) -> Piece | None:
        """The next piece, in ``data`` or, if that is too small, in a new buffer; None at the end. Raises OSError."""
        with self._lock:
            return None if self._over else self._next(data)

    def _next(self, data: mmap) -> Piece:
        size, filled = self._size(), len(self._rest)
        data = _room(data, filled + size)
        data[:filled], self._rest = self._rest, b""
        while True:
            data = _room(data, filled + size, filled)
            with memoryview(data) as view:
                got = self._source.readinto(view[filled : filled + size])
            filled += got
            final = got < size
            cut = filled if final else last_cut(data, self._separator, 0, filled)
            if cut < 0 and filled >= LONGEST_EVENT:
                cut = filled
            if cut >= 0:
                break
        piece = Piece(self._number, data, 0, cut, self._base, self._number == 0 and not self._begun, final)
        self._rest, self._over = data[cut:filled], final
        self._number, self._base = self._number + 1, self._base + cut
        return piece


class FromAnywhere(_Numbered):
    """Pieces of an uncompressed file, read at any offset."""

    def __init__(self, source: Source, document: Document, block: int) -> None:
        super().__init__(document, block)
        self._source, self._before = source, 0

    def take(self, data: mmap) -> Piece | None:
        """As ``InOrder.take``, but threads read in parallel."""
        end = self._source.size
        with self._lock:
            number, begin, size, before = self._number, self._base, self._size(), self._before
            if number and begin >= end:
                return None
            self._number, self._base, self._before = number + 1, begin + size, min(_SLACK, size)
        length = before + max(0, min(size, end - begin))
        data = _room(data, length)
        with memoryview(data) as view:
            got = self._source.read_at(view[:length], begin - before)
        final = got < length or begin + size >= end
        start, cut = self._border(data, 0, min(before, got)), self._border(data, before, got)
        first, bordered = number == 0 and not self._begun, final or cut >= 0
        start, stop = before if start < 0 else start, got if final or cut < 0 else cut
        return Piece(number, data, min(start, got), stop, begin - before, first, final, bordered)

    def _border(self, data: mmap, begin: int, offset: int) -> int:
        """The last border between two events within ``_SLACK`` bytes before ``offset``; -1 if there is none."""
        return last_cut(data, self._separator, max(begin, offset - _SLACK), offset)


_ALONE = {"flags": mmap_module.MAP_PRIVATE | mmap_module.MAP_ANONYMOUS} if hasattr(mmap_module, "MAP_PRIVATE") else {}
"""The first touch of a page of shared memory (mmap's default) costs 1.5 times as much."""


def buffer(size: int) -> mmap:
    """A buffer for ``size`` bytes of text; pages are allocated when first written. Raises MemoryError."""
    try:
        return mmap(-1, size + _SLACK + PAD, **_ALONE)
    except OSError as error:
        raise MemoryError from error


def _room(data: mmap, size: int, filled: int = 0) -> mmap:
    """``data`` if it has room for ``size`` bytes of text, else a new buffer with its first ``filled`` bytes copied."""
    if len(data) >= size + PAD:
        return data
    new = buffer(size)
    new[:filled] = data[:filled]
    return new


BLOCK_BYTES = 12 << 20
_LEAST_BYTES = 1 << 20
_BLOCKS = 12
"""A file of fewer blocks than this is read in smaller ones, because the first touch of memory is expensive."""
LEAST_THREADS, MOST_THREADS = 2, 16  # Scanning threads; more would only wait for the GIL.
_FEW = 4
"""With more threads the pieces shrink so that total memory stays the same: 16 threads read 2 GB in 400 MiB."""


def block_for(size: int) -> int:
    """Bytes per piece for a text of about ``size`` bytes."""
    return max(_LEAST_BYTES, min(BLOCK_BYTES, size // _BLOCKS))


class Pipeline:
    """One load with the compiled scanner."""

    def __init__(
        self, native: Native, document: Document, tables: Tables, deferred: DeferredEvents, tally: Tally,
        block: int = BLOCK_BYTES,
    ) -> None:
        self._native = deferred.native = native
        self.document, self.tables, self.deferred, self.tally = document, tables, deferred, tally
        self._threads = self._working = threads(LEAST_THREADS, MOST_THREADS)
        self._block = min(block, max(_LEAST_BYTES, block * _FEW // max(self._threads, _FEW)))
        self._lock = threading.Lock()
        self._turn = threading.Condition()
        self._telling = threading.Lock()
        self._next = 0
        self._carry: tuple[int, bytes, bool] | None = None
        self._behind = Trailer()
        self._closed = self._ended = False
        self._error: BaseException | None = None

    def run(self, source: Source, progress: Callable[[int], None], seekable: bool) -> None:
        """Read to the end of the document, with parallel reads at any offset if the source is ``seekable``."""
        pieces = (FromAnywhere if seekable else InOrder)(source, self.document, self._block)
        self.document.rest = b""
        scanners = [threading.Thread(target=self._scan, args=(pieces,), daemon=True) for _ in range(self._threads)]
        for thread in scanners:
            thread.start()
        try:
            self._watch(progress)
        except BaseException as error:
            self._fail(error)
        finally:
            for thread in scanners:
                thread.join()
        if self._error is not None:
            raise self._error
        if self._closed:
            self.tally.whole, self.tally.closed = True, self._behind.closes(self.document)
            self.tally.unread = self._behind.unread

    def _watch(self, progress: Callable[[int], None]) -> None:
        """Report progress after each piece."""
        position = 0
        while self._working and self._error is None:
            with self._turn:
                while self._next == position and self._working and self._error is None:
                    self._turn.wait()
                position = self._next
            with self._telling:
                progress(self.tally.events)

    def _scan(self, pieces: FromAnywhere | InOrder) -> None:
        try:
            scanner, data = BlockScanner(self._native, self.tables, self._lock, over=self._over), buffer(self._block)
            while self._error is None:
                with self._telling:  # pause reading while the first rows, which the user waits for, are prepared
                    pass
                if (piece := pieces.take(data)) is None:
                    break
                data = piece.data
                outcome = None
                if piece.bordered:
                    outcome = scanner.scan(data, piece.stop, piece.base, piece.first, piece.final, piece.begin)
                self._in_order(piece, outcome, scanner)
        except BaseException as error:
            self._fail(error)
        with self._turn:
            self._working -= 1
            self._turn.notify_all()

    def _over(self) -> bool:
        """Whether scan results would be dropped: the list ended (any text may follow it) or the load failed."""
        return self._closed or self._error is not None

    def _in_order(self, piece: Piece, outcome: Outcome | None, scanner: BlockScanner) -> None:
        with self._turn:
            while self._next != piece.number and self._error is None:
                self._turn.wait()
        if self._error is not None:
            return
        if self._closed:
            self._behind.add(bytes(memoryview(piece.data)[piece.begin : piece.stop]))
        elif self._ended:  # a file that shrinks during the load has several final pieces
            pass
        elif self._carry is None and outcome is not None:
            self._emit(outcome, piece.data, piece.stop, piece.base)
        else:
            self._joined(piece, scanner)
        self._ended = piece.final
        with self._turn:
            self._next += 1
            self._turn.notify_all()

    def _joined(self, piece: Piece, scanner: BlockScanner) -> None:
        """Scan a piece with the carried text before it; carry both on if the piece was cut at an arbitrary byte."""
        base, tail, comma = self._carry or (piece.base + piece.begin, b"", piece.first)
        stop = len(tail) + piece.stop - piece.begin
        data = bytearray(stop + PAD)
        data[: len(tail)] = tail
        data[len(tail) : stop] = memoryview(piece.data)[piece.begin : piece.stop]
        if not piece.bordered and stop < LONGEST_EVENT:
            self._carry = base, bytes(memoryview(data)[:stop]), comma
        else:
            self._emit(scanner.scan(data, stop, base, comma, piece.final), data, stop, base)

    def _emit(self, outcome: Outcome, data: Text, stop: int, base: int) -> None:
        self._carry = None
        view = memoryview(data)
        if outcome.closed:
            self._closed = True
            self._behind.add(bytes(view[outcome.place + 1 : stop]))
        elif outcome.incomplete:
            self._carry = base + outcome.place, bytes(view[outcome.place : stop]), outcome.comma
        elif outcome.comma:
            self._carry = base + stop, b"", True
        for rows in outcome.rows:
            self.tables.add(rows)
        self.deferred.add_all(sorted(outcome.deferred), outcome.instants)
        for count in _COUNTS:
            setattr(self.tally, count, getattr(self.tally, count) + getattr(outcome.tally, count))
        self.tally.used = base + outcome.place

    def _fail(self, error: BaseException) -> None:
        with self._turn:
            self._error = self._error or error
            self._turn.notify_all()


_COUNTS = "events flows repaired odd skipped_bytes skipped_stretches".split()
