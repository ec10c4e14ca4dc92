"""Big files: one thread reads and cuts, others scan, and what they found is put together in the order of the file.

Blocks are cut at what looks like the border between two events. That is a guess, and it is proven by the block before:
if that one ends exactly between two events, the next begins there. If not (the guess hit a nested list, or the file is
damaged), what is left over is put before the next block and scanned again. So any input gives what a scan in one piece
would give; only speed depends on the guess.
"""

from __future__ import annotations

import mmap as mmap_module
import queue
import threading
from collections.abc import Callable
from mmap import mmap
from typing import Protocol

from msgspec import Struct

from ..native.cores import threads
from ..native.functions import Native
from .deferred_events import DeferredEvents
from .document import Document, Trailer, first_separator, last_cut
from .info import Tally
from .recovery import LONGEST_EVENT
from .scan.blocks import BlockScanner, Outcome, Text
from .scan.layout import PAD
from .tables import Tables

BLOCK_BYTES = 12 << 20
_LEAST_BYTES = 1 << 20
_BLOCKS = 30
"""A file smaller than this many blocks is read in smaller ones: memory costs most when it is touched first."""
_EARLY_BYTES = 1 << 20
_EARLY = 4
"""The first blocks and how many they are: rows to show come sooner, and making them visible has a core to itself."""
LEAST_THREADS, MOST_THREADS = 2, 8
"""Threads that scan. More than these wait for the one that reads and for each other's turn."""
_FEW = 4
"""With more threads blocks are half as large, so that what waits takes no more memory."""
_SLACK = 256 << 10
"""Room in a buffer for what the block before left over; one that needs more is made anew."""


class Filler(Protocol):
    """A source that fills buffers; fewer bytes than asked for only at the end."""

    def readinto(self, view: memoryview, /) -> int:
        """The number of bytes written into the view."""
        ...


class _Piece(Struct):
    number: int
    data: mmap
    stop: int
    base: int
    first: bool
    final: bool


def block_for(size: int) -> int:
    """How many bytes to read at once of a text of about this size."""
    return max(_LEAST_BYTES, min(BLOCK_BYTES, size // _BLOCKS))


class Pipeline:
    """One load through the compiled scanner."""

    def __init__(
        self,
        native: Native,
        document: Document,
        tables: Tables,
        deferred: DeferredEvents,
        tally: Tally,
        block: int = BLOCK_BYTES,
    ) -> None:
        self._native = native
        self.document, self.tables, self.deferred, self.tally = document, tables, deferred, tally
        self._threads = threads(LEAST_THREADS, MOST_THREADS)
        self._block = block if self._threads <= _FEW else max(_LEAST_BYTES, block // 2)
        self._lock = threading.Lock()
        self._turn = threading.Condition()
        self._next = 0
        self._carry: tuple[int, bytes] | None = None
        self._behind = Trailer()
        self._closed = False
        self._error: BaseException | None = None
        self._work: queue.Queue[_Piece | None] = queue.Queue(self._threads)
        self._free: queue.SimpleQueue[mmap] = queue.SimpleQueue()
        for _ in range(self._threads + 2):
            self._free.put(_buffer(self._block + _SLACK + PAD))

    def run(self, source: Filler, progress: Callable[[int], None]) -> None:
        """Read to the end of the document."""
        scanners = [threading.Thread(target=self._scan, daemon=True) for _ in range(self._threads)]
        for thread in scanners:
            thread.start()
        try:
            self._read(source, progress)
        except BaseException as error:
            self._fail(error)
        finally:
            for _ in scanners:
                self._work.put(None)
            for thread in scanners:
                thread.join()
        if self._error is not None:
            raise self._error
        if self._closed:
            self.tally.whole, self.tally.closed = True, self._behind.closes(self.document)

    def _read(self, source: Filler, progress: Callable[[int], None]) -> None:
        rest, base = self.document.rest, self.document.base
        self.document.rest = b""
        data, number, filled = _buffer(len(rest) + _EARLY_BYTES + _SLACK + PAD), 0, len(rest)
        data[:filled] = rest
        separator = first_separator(rest)
        while self._error is None:
            size = self._block if number >= _EARLY else min(self._block, _EARLY_BYTES)
            if len(data) < filled + size + PAD:
                data = _buffer(filled + size + _SLACK + PAD, data, filled)
            with memoryview(data) as view:
                got = source.readinto(view[filled : filled + size])
            filled += got
            final = got < size
            cut = filled if final else last_cut(data, separator, 0, filled)
            if cut < 0:
                if filled < LONGEST_EVENT:
                    continue
                cut = filled
            piece = _Piece(number, data, cut, base, number == 0 and not self.document.begun, final)
            rest_size = filled - cut
            data = self._free.get()
            if len(data) < rest_size + self._block + PAD:
                data = _buffer(rest_size + self._block + _SLACK + PAD)
            data[:rest_size] = memoryview(piece.data)[cut:filled]
            self._work.put(piece)
            number, base, filled = number + 1, base + cut, rest_size
            progress(self.tally.events)
            if final:
                return

    def _scan(self) -> None:
        own: BlockScanner | None = None
        while (piece := self._work.get()) is not None:
            try:
                if self._error is None:
                    own = own or BlockScanner(self._native, self.tables, self._lock, over=self._over)
                    outcome = own.scan(piece.data, piece.stop, piece.base, piece.first, piece.final)
                    self._in_order(piece, outcome, own)
            except BaseException as error:
                self._fail(error)
            self._free.put(piece.data)

    def _over(self) -> bool:
        """Whether what is scanned from here on is thrown away: behind the list there may be anything, of any length."""
        return self._closed or self._error is not None

    def _in_order(self, piece: _Piece, outcome: Outcome, own: BlockScanner) -> None:
        with self._turn:
            while self._next != piece.number and self._error is None:
                self._turn.wait()
        if self._error is not None:
            return
        if self._closed:
            self._behind.add(bytes(memoryview(piece.data)[: piece.stop]))
        else:
            data: Text = piece.data
            stop, base = piece.stop, piece.base
            if self._carry is not None:
                base, left = self._carry
                stop = len(left) + piece.stop
                data = bytearray(stop + PAD)
                data[: len(left)] = left
                data[len(left) : stop] = memoryview(piece.data)[: piece.stop]
                outcome = own.scan(data, stop, base, True, piece.final)
            self._emit(outcome, data, stop, base)
        with self._turn:
            self._next += 1
            self._turn.notify_all()

    def _emit(self, outcome: Outcome, data: Text, stop: int, base: int) -> None:
        self._carry = None
        view = memoryview(data)
        if outcome.closed:
            self._closed = True
            self._behind.add(bytes(view[outcome.place + 1 : stop]))
        elif outcome.incomplete:
            self._carry = base + outcome.place, bytes(view[outcome.place : stop])
        elif outcome.comma:
            self._carry = base + stop, b""
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


_ALONE = {"flags": mmap_module.MAP_PRIVATE | mmap_module.MAP_ANONYMOUS} if hasattr(mmap_module, "MAP_PRIVATE") else {}
"""Memory that could be shared with another process costs half as much again to touch first."""


def _buffer(size: int, old: mmap | None = None, filled: int = 0) -> mmap:
    """Memory that costs nothing until it is written to; begins with what was in an old one."""
    try:
        new = mmap(-1, size, **_ALONE)
    except OSError as error:
        raise MemoryError from error
    if old is not None:
        new[:filled] = old[:filled]
    return new


_COUNTS = "events flows repaired odd skipped_bytes skipped_stretches".split()

