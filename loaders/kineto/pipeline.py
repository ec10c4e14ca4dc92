"""Large files: each thread takes the next piece of the text and scans it; the rows are joined in the file's order.

Pieces are cut at what looks like the border between two events. The piece before proves that guess: if it ends exactly
between two events, the next one begins there. If not (a nested list looked like it, or the file is damaged), the rest
is put before the next piece and scanned again. So every input gives the same rows as a scan in one piece.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..ingest.stream import Source
from ..native.functions import Native
from ..native.processor import threads
from .deferred_events import DeferredEvents
from .document import Document, Trailer
from .info import Tally
from .pieces import FromAnywhere, InOrder, Piece, buffer
from .recovery import LONGEST_EVENT
from .scan.blocks import BlockScanner, Outcome, Text
from .scan.layout import PAD
from .tables import Tables

BLOCK_BYTES = 12 << 20
_LEAST_BYTES = 1 << 20
_BLOCKS = 12
"""A file smaller than this many pieces is read in smaller ones: memory costs most when it is touched first."""
LEAST_THREADS, MOST_THREADS = 2, 16  # Threads that scan. More than these wait for the interpreter.
_FEW = 4
"""With more threads pieces are so much smaller that all of them take no more memory: 2 GB are read in 400 MiB by 16."""


def block_for(size: int) -> int:
    """How many bytes to read at once of a text of about this size."""
    return max(_LEAST_BYTES, min(BLOCK_BYTES, size // _BLOCKS))


class Pipeline:
    """One load through the compiled scanner."""

    def __init__(
        self, native: Native, document: Document, tables: Tables, deferred: DeferredEvents, tally: Tally,
        block: int = BLOCK_BYTES,
    ) -> None:
        self._native = native
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
        """Read to the end of the document, from any place at any time where the source is ``seekable``."""
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
                with self._telling:  # while the first rows are made, which somebody waits for, nothing more is read
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
        """Whether the result would be dropped: anything may follow the list of events, and be of any length."""
        return self._closed or self._error is not None

    def _in_order(self, piece: Piece, outcome: Outcome | None, scanner: BlockScanner) -> None:
        with self._turn:
            while self._next != piece.number and self._error is None:
                self._turn.wait()
        if self._error is not None:
            return
        if self._closed:
            self._behind.add(bytes(memoryview(piece.data)[piece.begin : piece.stop]))
        elif self._ended:  # a file that shrank meanwhile ends more than once
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
        """Scan a piece behind what was left over, or leave it over too where it ends anywhere."""
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

