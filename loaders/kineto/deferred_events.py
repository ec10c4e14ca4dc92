"""Events whose meaning depends on the rest of the file: written to a scratch file and interpreted at the end.

Metadata may follow the events it describes, and counters and slices without category are interpreted by their process.
So metadata, counters, profiler ranges, slices without category and begin/end pairs are written to a scratch file as
they are found, and reread when the whole file has been scanned. That bounds memory and lets both readers share the
interpretation. The compiled scanner leaves neighbouring slices in one piece, which it rereads as a whole. Memory
instants, which are numerous and self-contained, are processed at once.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from . import dialect
from .columns import INSTANT_INTS, PLACED_PHASES, Ints, MarkedRows
from .dialect import Roles, key
from .document import decode
from .samples import Samples
from .tables import Tables

if TYPE_CHECKING:
    from ..native.functions import Native
    from .placing import Places
    from .scan.blocks import SliceScanner

_HEAD = struct.Struct("<qii")
_BATCH = 50_000
_FEW = 8
_MOST_NAMES = 100
_events = msgspec.json.Decoder(list[msgspec.Raw])
_PHASES = {
    "i": "instants", "I": "instants", "R": "marks", "n": "instants of asynchronous events", "c": "clock marks",
    "N": "objects", "O": "objects", "D": "objects", "P": "samples", "v": "memory dumps", "V": "memory dumps",
    "E": "ends without a begin",
}
"""Chrome trace phase → name of events that no table holds."""
_MEMORY = b'"[memory]"'


_OF_THE_RECORDER = ("Iteration Start", "Record Window End")
"""Instants that PyTorch's profiler writes about itself begin with these."""


class DeferredEvents:
    """The scratch file, and the processes, threads and counts read back from it: ``ignored`` by what is in no table,
    ``others`` by what every event but a slice is and whether it is read."""

    def __init__(self, workspace: Path, tables: Tables) -> None:
        self._tables, self._samples = tables, Samples(tables)
        self._path = workspace / ".deferred"
        self._file = self._path.open("w+b")
        self.repaired = self.broken = self.broken_bytes = 0
        self.processes: dict[Any, dict[str, str]] = {}
        self.threads: dict[tuple[Any, Any], str] = {}
        self.ignored: Counter[str] = Counter()
        self.others: Counter[tuple[str, bool]] = Counter()
        self.xla = False
        self.native: Native | None = None
        self._rows = MarkedRows(tables.strings)

    def add(self, raw: bytes, offset: int, count: int = 1) -> None:
        """Add one event's text, or that of neighbouring slices, and its offset in the source, in file order."""
        if count == 1 and _MEMORY in raw and self._memory(raw):
            return
        self._file.write(_HEAD.pack(offset, len(raw), count))
        self._file.write(raw)

    def add_all(self, texts: Sequence[tuple[int, bytes, int]], instants: Sequence[Ints]) -> None:
        """Add a block's events as (offset, text, events in it), and its memory instants as arrays of rows
        ``INSTANT_INTS``."""
        numbers = np.concatenate(instants, axis=1) if instants else np.empty((len(INSTANT_INTS), 0), np.int64)
        offsets, position = numbers[INSTANT_INTS.index("offset")], 0
        for offset, raw, count in texts:
            if count == 1 and _MEMORY in raw:  # keep the samples in file order
                before = int(np.searchsorted(offsets, offset))
                self._samples.instants(numbers[:, position:before])
                position = before
            self.add(raw, offset, count)
        self._samples.instants(numbers[:, position:])
        if numbers.shape[1]:
            self.others["[memory] (ph i)", True] += numbers.shape[1]

    def _memory(self, raw: bytes) -> bool:
        """Process the event if it is a memory instant; returns whether it was."""
        try:
            event, repaired = decode(raw)
        except ValueError:
            return False
        if repaired or not isinstance(event, dict) or event.get("name") != "[memory]":
            return False
        if event.get("ph") not in ("i", "I"):
            return False
        self.others["[memory] (ph i)", True] += 1
        self._samples.memory(event)
        return True

    def close(self) -> None:
        """Remove the scratch file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _events(self) -> Iterator[tuple[bytes, int, int]]:
        """What was added, in order: text, its offset, and the number of events in it."""
        self._file.seek(0)
        while head := self._file.read(_HEAD.size):
            offset, size, count = _HEAD.unpack(head)
            yield self._file.read(size), offset, count

    def resolve(self) -> None:
        """Reread all events and add them to the tables."""
        tables = self._tables
        self._file.flush()
        for raw, _, count in self._events():
            if count == 1 and b'"M"' in raw and (event := self._decoded(raw)) and event.get("ph") == "M":
                self._metadata(event)
        self.repaired = self.broken = self.broken_bytes = 0
        roles = Roles(self.processes, self.threads)
        tables.texts.device_word = roles.word or tables.texts.device_word
        self.xla = roles.xla
        self._samples.flush()

        @cache
        def places() -> Places:
            from .placing import Places  # here, because most recordings have no such slices

            return Places(tables, roles, self.ignored)

        @cache
        def scanner() -> SliceScanner:
            from .scan.blocks import SliceScanner

            assert self.native is not None  # only the compiled scanner joins events
            return SliceScanner(self.native, tables, places().take)

        for raw, offset, count in self._joined_or_alone():
            if count > 1:
                self._flush(places)
                tally = scanner().read(raw, offset)
                self.repaired += tally.repaired
                self.broken += tally.skipped_stretches
                self.broken_bytes += tally.skipped_bytes
            elif (event := self._decoded(raw)) is not None and event.get("ph") != "M":
                self._resolve_one(event, offset, len(raw), roles, places)
        self._flush(places)
        self._samples.flush()
        self.ignored["begins without an end"] += places().waiting if places.cache_info().currsize else 0

    def _joined_or_alone(self) -> Iterator[tuple[bytes, int, int]]:
        """The texts, with short spans cut into their events: a scan costs as much as some events read alone."""
        for raw, offset, count in self._events():
            if 1 < count < _FEW:
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    at = 0
                    alone = []
                    for event in _events.decode(b"[" + raw + b"]"):
                        at = raw.index(b"{", at)
                        alone.append((bytes(event), offset + at, 1))
                        at += len(memoryview(event))
                    yield from alone
                    continue
            yield raw, offset, count

    def _decoded(self, raw: bytes) -> dict[str, Any] | None:
        try:
            value, repaired = decode(raw)
        except ValueError:
            self.broken += 1
            self.broken_bytes += len(raw)
            return None
        self.repaired += repaired
        return value if isinstance(value, dict) else None

    def _metadata(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        if not isinstance(args, dict):
            return
        pid, name = key(event.get("pid")), event.get("name")
        if name == "process_name":
            self.processes.setdefault(pid, {})["name"] = str(args.get("name", ""))
        elif name == "process_labels":
            self.processes.setdefault(pid, {})["labels"] = str(args.get("labels", ""))
        elif name == "thread_name":
            self.threads[pid, key(event.get("tid"))] = str(args.get("name", ""))

    def _resolve_one(
        self, event: dict[str, Any], offset: int, size: int, roles: Roles, places: Callable[[], Places]
    ) -> None:
        """Interpret one event; slices that wait for their place are collected."""
        phase = event.get("ph")
        if phase == "C":
            self.others["counters (ph C)", True] += 1
            self._samples.add(event, dialect.counter(event, roles.devices))
        elif event.get("name") == "[memory]" and phase in ("i", "I"):
            self.others["[memory] (ph i)", True] += 1
            self._samples.memory(event)
        elif phase == "X" and str(event.get("cat")).lower() == "cuda_profiler_range":
            self._samples.add(event, dialect.counter({**event, "name": ""}, roles.devices))
        elif phase in PLACED_PHASES:
            self._rows.add(event, offset, offset + size)
            if len(self._rows) >= _BATCH:
                self._flush(places)
        else:
            if str(event.get("name")).startswith(_OF_THE_RECORDER):
                return
            what, category = _PHASES.get(str(phase), f"events of phase {phase}"), event.get("cat")
            self.ignored[what] += 1
            named = category if type(category) is str and category else what
            self.others[(named if len(self.others) < _MOST_NAMES else "others", False)] += 1

    def _flush(self, places: Callable[[], Places]) -> None:
        """Place the slices collected one by one."""
        if len(self._rows):
            places().take(self._rows.block(0), self._rows.marks())
            self._rows = MarkedRows(self._tables.strings)
