"""Runs the compiled scanner over one block of text: rows, deferred events, and where the block really ended.

The scanner does the bulk. This module provides its output tables, decodes the events it marked odd, and gets it past
damage with ``walk``. Each thread has its own ``BlockScanner`` with a local string table; each local text is mapped to
its code in the shared ``Strings`` once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ...native.functions import Native
from ..columns import (
    CODES,
    FLOATS,
    HOST_CODES,
    HOST_INTS,
    INSTANT_INTS,
    INSTANT_KEYS,
    INTS,
    MARK_KEYS,
    MARKS,
    NULL,
    Block,
    Codes,
    Floats,
    Ints,
    MarkedRows,
    Rows,
)  # fmt: skip
from ..document import decode
from ..info import Tally
from ..recovery import LONGEST_EVENT, walk
from ..tables import SortedRows, Tables
from . import layout

Text = bytearray | mmap
_ROWS = (1 << 15) - 24
"""Rows of the output tables: not a power of two, or the columns would compete for the same CPU cache lines."""
_WINDOW = 256 << 10  # Bytes walked at damage before the whole rest of the block is tried.
_MOST_WALKED = 1 << 12  # Maximum events read one by one after repeated damage.


class Outcome(Struct):
    """The result of a block: ``place`` is the first unused position; ``closed``: the list ended there; ``incomplete``:
    an event begins there that does not end in the block; ``comma``: the block ended with a comma. ``deferred`` are
    (offset, text, events in it), ``instants`` arrays with rows ``INSTANT_INTS``."""

    rows: list[SortedRows] = field(default_factory=list)
    deferred: list[tuple[int, bytes, int]] = field(default_factory=list)
    instants: list[Ints] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    place: int = 0
    closed: bool = False
    incomplete: bool = False
    comma: bool = False


class BlockScanner:
    """The scanner state and output tables of one thread."""

    def __init__(
        self, native: Native, tables: Tables, lock: threading.Lock, rows: int = _ROWS,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        """``over`` returns whether the result is no longer needed: the list ended earlier, or the load failed."""
        self._over = over
        self._native = native
        self._tables, self._strings, self._lock = tables, tables.strings, lock
        row = np.empty(len(INTS) + len(INSTANT_KEYS) + len(MARKS) - 1, np.int64)
        self._row = row, np.empty(len(CODES), np.int32), np.empty(len(FLOATS), np.float64)
        self._ints = np.empty((len(INTS), rows), np.int64)
        self._device_ints, self._host_ints = np.empty_like(self._ints), np.empty((len(HOST_INTS), rows), np.int64)
        self._codes, self._device_codes = (np.empty((len(CODES), rows), np.int32) for _ in range(2))
        self._floats, self._device_floats = (np.empty((len(FLOATS), rows), np.float64) for _ in range(2))
        self._host_codes = np.empty((len(HOST_CODES), rows), np.int32)
        self._instants = np.empty((len(INSTANT_INTS), rows), np.int64)
        self._route = np.zeros(1, np.uint8)
        self._learned: set[int] = set()
        self._odd = np.empty((4096, 3), np.int64)
        self._deferred, self._spans = np.empty((16384, 2), np.int64), np.empty((4096, 3), np.int64)
        self._state = np.zeros(layout.STATE, np.int64)
        self._seed = np.uint64(int.from_bytes(os.urandom(8)))
        self._predicted = np.zeros(layout.PREDICTIONS * layout.PREDICTED_WORDS, np.uint64)
        self._notes = np.zeros(layout.PREDICTIONS, np.int64)
        self._heap = np.zeros(1 << 20, np.uint8)
        self._ends = np.zeros(1 << 14, np.int64)
        self._hashes = np.zeros(1 << 14, np.uint64)
        self._slots = np.full(1 << 15, -1, np.int32)
        self._global = np.full(1, -1, np.int32)
        self._mended, self._walked = -_WINDOW, 1

    def scan(self, data: Text, stop: int, base: int, comma: bool, final: bool, begin: int = 0) -> Outcome:
        """Read ``data[begin:stop]``, which begins between two events and is followed by ``PAD`` arbitrary bytes.
        ``comma``: no comma is due before the first event; ``final``: no text follows."""
        if not 0 <= begin <= stop <= len(data) - layout.PAD:
            raise ValueError("the buffer has no room behind its text")
        buf = np.frombuffer(data, np.uint8)
        out, state = Outcome(), self._state
        state[layout.AT], state[layout.COMMA] = begin, comma
        self._mended = -_WINDOW
        while not self._over():
            code = self._native.call(
                "scan", buf, stop, *self._row, self._ints, self._codes, self._floats, self._device_ints,
                self._device_codes, self._device_floats, self._host_ints, self._host_codes, self._instants, self._route,
                self._odd, self._deferred, self._spans, self._heap, self._ends, self._hashes, self._slots, self._seed,
                self._predicted, self._notes, state,
            )  # fmt: skip
            self._take(data, base, out)
            if code == layout.STRINGS:
                self._grow()
            elif code == layout.SYNTAX or (
                code == layout.INCOMPLETE and (final or stop - int(state[layout.AT]) > LONGEST_EVENT)
            ):
                if not self._around(data, stop, base, final, out):
                    out.incomplete = True
                    break
            elif code != layout.FULL:
                out.closed, out.incomplete = code == layout.CLOSED, code == layout.INCOMPLETE
                break
        out.place, out.comma = int(state[layout.AT]), bool(state[layout.COMMA])
        return out

    def _take(self, data: Text, base: int, out: Outcome) -> None:
        """Convert the scanner's output to rows of tables."""
        state = self._state
        rows, devices, hosts = int(state[layout.ROWS]), int(state[layout.DEVICES]), int(state[layout.HOSTS])
        odds, deferrals = int(state[layout.ODD]), int(state[layout.ASIDE])
        out.tally.flows += int(state[layout.FLOWS])
        out.tally.events += int(state[layout.EVENTS])
        out.tally.repaired += int(state[layout.REPAIRED])
        if instants := int(state[layout.INSTANTS]):
            out.instants.append(self._instants[:, :instants].copy())
            out.instants[-1][INSTANT_INTS.index("offset")] += base
        ranges = [*((begin, end, 1) for begin, end in self._deferred[:deferrals].tolist()),
                  *self._spans[: int(state[layout.SPANS])].tolist()]
        out.deferred += [(base + begin, bytes(data[begin:end]), count) for begin, end, count in ranges]
        self._number_texts()
        if not rows + devices + hosts:
            return
        block = self._block(self._ints, self._codes, self._floats, rows, base)
        device = self._block(self._device_ints, self._device_codes, self._device_floats, devices, base)
        host = self._block(self._host_ints, self._host_codes, self._floats, hosts, base)
        if rows:
            self._learn(self._codes[CODES.index("cat"), :rows])
        self._add(self._read_odd(data, self._odd[:odds], block, out) if odds else block, data, out, device, host)

    def _block(self, ints: Ints, codes: Codes, floats: Floats, rows: int, base: int) -> Block:
        return Block(ints[:, :rows], codes[:, :rows], floats[:, :rows], base, self._global)

    def _learn(self, categories: Codes) -> None:
        """Add the routes of new categories (this thread's codes) for the next scans."""
        new = np.flatnonzero(np.bincount(categories[categories >= 0]))
        if not self._learned.issuperset(codes := new.tolist()):
            self._learned.update(codes)
            self._route = self._routed(new)

    def _routed(self, new: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
        longer = np.zeros(max(len(self._route), len(self._global) - 1), np.uint8)
        longer[: len(self._route)] = self._route
        longer[new] = self._tables.places(self._global[new])
        return longer

    def _add(
        self, block: Block, data: Text, out: Outcome, device: Block | None = None, host: Block | None = None
    ) -> None:
        rows = self._tables.rows_of(block, device, host)
        out.rows.append(rows)
        out.deferred += [(block.base + begin, bytes(data[begin:end]), 1) for begin, end in rows.ranges]

    def _number_texts(self) -> None:
        """Map texts new in this thread's table to their codes in the shared ``Strings``."""
        last, names = len(self._global) - 1, int(self._state[layout.NAMES])
        if names == last:
            return
        ends = self._ends[last : names + 1]
        texts = _texts(self._heap[ends[0] : ends[-1]].tobytes(), (ends - ends[0]).tolist())
        with self._lock:
            codes = self._strings.numbers(texts)
        self._global = np.concatenate([self._global[:-1], np.array(codes, np.int32), self._global[-1:]])

    def _read_odd(self, data: Text, odd: npt.NDArray[np.int64], block: Block, out: Outcome) -> Block:
        """The block with its odd rows decoded in Python; those that are not slices are removed."""
        block = block.translated()
        keep = np.ones(block.rows, bool)
        positions: list[int] = []
        with self._lock:
            rows = Rows(self._strings)
            for row, begin, end in odd.tolist():
                raw = bytes(data[begin:end])
                if _sort(raw, begin, end, block.base, rows, out):
                    positions.append(row)
                else:
                    keep[row] = False
            alone = rows.block(block.base)
            out.tally.flows += rows.flows
        block.ints[:, positions], block.codes[:, positions] = alone.ints, alone.codes
        block.floats[:, positions] = alone.floats
        if keep.all():
            return block
        return Block(block.ints[:, keep], block.codes[:, keep], block.floats[:, keep], block.base)

    def _around(self, data: Text, stop: int, base: int, final: bool, out: Outcome) -> bool:
        """Get the scan past damage at its position; False if more text is needed. The scan resumes after the next
        event, or after more events if the last damage was close: each walk copies the window, and a list without commas
        is damaged at every event."""
        start, comma = int(self._state[layout.AT]), bool(self._state[layout.COMMA])
        self._walked = min(2 * self._walked, _MOST_WALKED) if start - self._mended < _WINDOW else 1
        for end in sorted({min(stop, start + _WINDOW), stop}):
            with self._lock:
                rows = Rows(self._strings)
                tally = Tally()
                def take(event: dict[str, Any], begin: int, behind: int, repaired: bool, rows: Rows = rows) -> None:
                    out.tally.events += 1
                    if rows.sort(event, start + begin, start + behind):
                        out.tally.repaired += repaired
                    else:
                        out.deferred.append((base + start + begin, bytes(data[start + begin : start + behind]), 1))

                text, last = bytes(data[start:end]), final and end == stop
                walked = walk(text, 0, last, take, tally, limit=self._walked, comma=comma)
                block = rows.block(base)
                out.tally.flows += rows.flows
            if walked.moved or walked.closed:
                if len(rows):
                    self._add(block, data, out)
                out.tally.skipped_stretches += tally.skipped_stretches
                out.tally.skipped_bytes += tally.skipped_bytes
                self._state[layout.AT], self._state[layout.COMMA] = start + walked.place, walked.comma
                self._mended = start + walked.place
                return True
        return False

    def _grow(self) -> None:
        """At least double the part of the string table that is full, with room for the text that did not fit."""
        names = int(self._state[layout.NAMES])
        room = int(self._ends[names]) + int(self._state[layout.WANTED]) + layout.PAD
        if 2 * len(self._heap) >= room and room > len(self._heap):
            self._heap = _longer(self._heap, 2 * len(self._heap))
        elif room > len(self._heap):
            self._heap = _longer(self._heap, 2 * room)
        if names + 2 >= len(self._ends) or 2 * (names + 1) >= len(self._slots):
            self._ends = _longer(self._ends, 2 * len(self._ends))
            self._hashes = _longer(self._hashes, len(self._ends))
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
            self._native.call("rehash", self._hashes, names, self._slots)


class SliceScanner(BlockScanner):
    """Reads slices that wait for their place (``Outcome.deferred`` of more than one event) into blocks with marks."""

    def __init__(self, native: Native, tables: Tables, take: Callable[[Block, Ints], None]) -> None:
        """``take`` gets a block with absolute offsets and its ``MARKS``, both to be copied."""
        super().__init__(native, tables, threading.Lock())
        self._each = take
        self._state[layout.PLACING] = 1

    def read(self, text: bytes, offset: int) -> Tally:
        """Read a span of events; returns how many of them were repaired or cannot be decoded."""
        data = bytearray(len(text) + layout.PAD)
        data[: len(text)] = text
        return self.scan(data, len(text), offset, True, True).tally

    def _take(self, data: Text, base: int, out: Outcome) -> None:
        state = self._state
        rows, odds = int(state[layout.ROWS]), int(state[layout.ODD])
        out.tally.repaired += int(state[layout.REPAIRED])
        self._number_texts()
        if not rows:
            return
        block = self._block(self._ints, self._codes, self._floats, rows, 0).translated()
        marks = self._instants[: len(MARKS), :rows]
        texts = slice(len(MARK_KEYS), len(MARKS) - 1)
        codes = marks[texts]
        codes[codes == NULL] = -1
        marks[texts] = self._global.take(codes, mode="wrap")
        for row, begin, end in self._odd[:odds].tolist():
            alone = MarkedRows(self._strings)
            try:
                event, repaired = decode(bytes(data[begin:end]))
            except ValueError:
                out.tally.skipped_stretches += 1
                out.tally.skipped_bytes += end - begin
                marks[:, row] = 0  # of no phase
                continue
            out.tally.repaired += repaired
            alone.add(event, begin, end)
            one, at = alone.block(0), slice(row, row + 1)
            block.ints[:, at], block.codes[:, at], block.floats[:, at] = one.ints, one.codes, one.floats
            marks[:, at] = alone.marks()
        for column in ("offset", "end"):
            block.ints[INTS.index(column)] += base
        self._each(block, marks)


def _longer(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _texts(heap: bytes, ends: list[int]) -> list[str]:
    """Decode JSON strings whose contents are concatenated in ``heap``."""
    if heap.isascii() and b"\\" not in heap:
        plain = heap.decode("ascii")
        return [plain[start:end] for start, end in pairwise(ends)]
    return [_text(heap[start:end]) for start, end in pairwise(ends)]


def _text(raw: bytes) -> str:
    """Decode a JSON string given without its quotes."""
    if b"\\" in raw:
        try:
            return str(decode(b'"' + raw + b'"')[0])
        except ValueError:
            pass
    return raw.decode("utf-8", "replace")


def _sort(raw: bytes, begin: int, end: int, base: int, rows: Rows, out: Outcome) -> bool:
    """Decode one event and add it to rows or deferred events; returns whether it became a row."""
    try:
        event, repaired = decode(raw)
    except ValueError:
        out.tally.events -= 1
        out.tally.skipped_stretches += 1
        out.tally.skipped_bytes += end - begin
        return False
    out.tally.odd += 1
    before = len(rows)
    if not isinstance(event, dict) or rows.sort(event, begin, end):
        out.tally.repaired += repaired
    else:
        out.deferred.append((base + begin, raw, 1))
    return len(rows) > before

