"""The reader without compiled code: blocks of events through msgspec, one typed object per event.

It reads small traces, where loading compiled code costs more than it saves, and all traces if there is no compiled
code. A block is first split into raw events, so that each has its byte offset and one that msgspec rejects is decoded
by itself. A block is cut at a likely separator; if it then is not a list of complete events, because the cut was wrong
or the file is damaged, ``walk`` reads it event by event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..ingest.stream import Source
from .columns import ARG_KEYS, ARGS_READ, EVENT_KEYS, FLOWS, Number, Rows
from .deferred_events import DeferredEvents
from .document import Document, Trailer, decode, events_end, last_cut, separator_of
from .info import Tally
from .recovery import LONGEST_EVENT, walk
from .tables import Tables

BLOCK_BYTES = 8 << 20

_Args: Any = msgspec.defstruct(
    "_Args",
    [(f"f{n}", msgspec.Raw if kind == "json" else Any, None) for n, (kind, _) in enumerate(ARGS_READ.values())],
    rename={f"f{n}": key for n, key in enumerate(ARG_KEYS)}, gc=False,
)  # fmt: skip
_Event: Any = msgspec.defstruct(
    "_Event", [("ph", Any, None), *((key, Any, None) for key in EVENT_KEYS), ("args", _Args | None, None)], gc=False
)
_events = msgspec.json.Decoder(list[msgspec.Raw])
_typed = msgspec.json.Decoder(_Event, float_hook=Number)
_values = msgspec.structs.astuple
_no_args = [None] * len(ARG_KEYS)


Progress = Callable[[int], None]  # Called after each block with the number of events so far.


class Plain:
    """One load with msgspec."""

    def __init__(
        self, document: Document, tables: Tables, deferred: DeferredEvents, tally: Tally, block: int = BLOCK_BYTES
    ) -> None:
        self.document, self.tables, self.deferred, self.tally = document, tables, deferred, tally
        self._size = block

    def run(self, source: Source, progress: Progress) -> None:
        """Read to the end of the document."""
        data, base = self.document.rest, self.document.base
        self.document.rest = b""
        separator = separator_of(data[: 1 << 20])
        while True:
            more = source.read(self._size)
            cut = last_cut(data, separator, 0, len(data)) if more else len(data)
            if cut < 0 and len(data) < LONGEST_EVENT:
                data += more
                continue
            used, closed = self._block(data if cut < 0 else data[:cut], base, not more)
            self.document.begun = self.document.begun or used > 0
            base += used
            data = data[used:] + more
            self.tally.used = base
            progress(self.tally.events)
            if closed:
                break
            if not more:
                return
        behind = Trailer()
        behind.add(data[1:])
        while more := source.read(BLOCK_BYTES):
            behind.add(more)
        self.tally.whole, self.tally.closed = True, behind.closes(self.document)
        self.tally.unread = behind.unread

    def _block(self, data: bytes, base: int, final: bool) -> tuple[int, bool]:
        """Read one block; returns the number of bytes used and whether the list ended there."""
        ends = events_end(data) if final else [len(data)]
        for end in ends:
            if self._whole(data[:end], base):
                return end, final
        if final and (cut := data.rfind(b"}")) >= 0 and self._whole(data[: cut + 1], base):
            return cut + 1, False
        rows = Rows(self.tables.strings)

        def take(event: dict[str, Any], start: int, end: int, repaired: bool) -> None:
            self.tally.events += 1
            if rows.sort(event, start, end):
                self.tally.repaired += repaired
            else:
                self.deferred.add(data[start:end], base + start)

        stop = walk(data, 0, final, take, self.tally, comma=not self.document.begun)
        self._emit(rows, data, base)
        return stop.place, stop.closed

    def _whole(self, data: bytes, base: int) -> bool:
        """Read a block if it is a list of complete events; otherwise do nothing and return False."""
        try:
            text = b"[" + data.lstrip(b" \t\r\n").removeprefix(b",") + b"]"
            raws = _events.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        rows = Rows(self.tables.strings)
        offset = 0
        for raw in raws:
            size = len(memoryview(raw))
            try:
                event = _typed.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                start = data.index(bytes(raw), offset)
                offset = start + size
                odd, repaired = decode(raw)
                self.tally.odd += 1
                if not isinstance(odd, dict) or rows.sort(odd, start, offset):
                    self.tally.repaired += repaired
                else:
                    self.deferred.add(bytes(raw), base + start)
                continue
            start = data.index(b"{", offset)
            offset = start + size
            phase = event.ph
            if phase == "X" and type(event.cat) is str:
                args = event.args
                values = (event.ts, event.dur, event.pid, event.tid, event.cat, event.name)
                rows.add_values(values, _no_args if args is None else _values(args), start, offset)
            elif phase in FLOWS:
                rows.arrow(event.cat, event.name)
            else:
                self.deferred.add(bytes(raw), base + start)
        self.tally.events += len(raws)
        self._emit(rows, data, base)
        return True

    def _emit(self, rows: Rows, data: bytes, base: int) -> None:
        self.tally.flows += rows.flows
        rows_by_table = self.tables.rows_of(rows.block(base))
        self.tables.add(rows_by_table)
        for start, end in rows_by_table.ranges:
            self.deferred.add(data[start:end], base + start)

