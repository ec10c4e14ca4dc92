"""Builds the Trace of one Perfetto trace, in bounded memory.

Packets are walked stretch by stretch. Slice begins wait in a scratch file, as columns, until their ends are known; then
each gets its device or thread from its track, and becomes a row in the same way as a Kineto event: categories, kinds
and names are Kineto's. Slices without a category are classified by their track, name and arguments.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from ..account.repeats import without_repeats
from ..errors import Unreadable
from ..ingest import limits
from ..ingest.stream import Source, head
from ..kineto.columns import CODES, FLOATS, INTS, NULL, Block, Strings
from ..kineto.info import devices_of, label_of, rank_of
from ..kineto.tables import Tables
from ..loader import Job
from ..native.allocator import keep_freed
from ..protobuf.stretches import Stretch, Stretches
from ..protobuf.tokens import Ints, map_distinct
from ..protobuf.walk import walk_for
from ..recording.database import tables_of
from ..recording.quantities import with_checked
from ..trace import Device, Info, Trace
from .counters import Counters
from .events import Begins, TrackEvents, counts, events_of, kinds
from .packets import OTHER_TYPES, PACKETS, Unpacked, has_compressed
from .sequences import Sequences
from .slices import Slices
from .tracks import Lanes, Tracks

_ABSOLUTE = 10**18
_BATCH = 1 << 16
_INT = {name: row for row, name in enumerate(INTS)}
_DOCUMENT = ("trace_metadata", "device_properties")
"""Instants in which PyTorch's first writer put the metadata that its JSON has beside the events."""


def load(job: Job) -> Trace:
    """Read the file, which may be compressed. Raises Unreadable if it has no track events."""
    keep_freed()
    with Source(job.path) as source, (job.workspace / ".begins").open("w+b") as scratch:
        try:
            return _Load(job, source, scratch).trace()
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        finally:
            (job.workspace / ".begins").unlink(missing_ok=True)


class _Load:
    def __init__(self, job: Job, source: Source, scratch: BinaryIO) -> None:
        self.job, self.source, self.scratch = job, source, scratch
        self.strings = Strings()
        self.tables = Tables(self.strings, job.workspace, job.lasting, "TrackEvent")
        self.sequences, self.tracks, self.slices = Sequences(self.strings), Tracks(), Slices()
        self.begins = Begins(self.strings, self.sequences)
        self.counters = Counters(self.tables, self.tracks)
        self.lanes: dict[int, int] = {}
        self.document: dict[str, Any] = {}
        self.ignored: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.events = self.packets = self.untimed = self.rows = 0

    def trace(self) -> Trace:
        with closing(self.tables):
            compressed = has_compressed(head(self.job.path))
            unpacked = Unpacked(self.source) if compressed else None
            growth = 8 if self.source.compressed or compressed else 1
            stretches = Stretches(PACKETS, walk_for(self.source.size * growth, self.job.compiled))
            for stretch in stretches.over((unpacked or self.source).readinto):
                self._take(stretch)
                self.job.progress(self.source.position, self.source.size, self.events)
            broken = stretches.broken + (unpacked.damaged if unpacked else 0)
            if not self.events:
                raise Unreadable(self.job.path, *self._nothing(broken, stretches.damage))
            self._finish()
            self.counters.flush()
            frames = self.tables.finish(rank_of(self.document), self.job.lasting)
            trace = Trace(self._info(broken, stretches, compressed)).with_tables(**frames)
            return with_checked(without_repeats(trace, self.job), self.job)

    def _take(self, stretch: Stretch) -> None:
        tokens = stretch.tokens
        count = tokens.count("packet")
        if not count:
            return
        self.packets += count
        self.tracks.learn(tokens)
        events = events_of(tokens, self.sequences)
        self.ignored["compressed packets"] += tokens.count("packet.compressed")
        for name in OTHER_TYPES.values():
            if others := tokens.count(f"packet.{name}"):
                self.others[name] += others
        if not len(events.type):
            return
        timed = events.time != NULL
        begin, end, instant, counter = kinds(events)
        self.events += int((begin | instant | counter).sum())
        self.untimed += int((~timed & (begin | end | counter)).sum())
        self.ignored["events of other types"] += int((~(begin | end | instant | counter)).sum())
        names = self.begins.names(tokens, events)
        if instant.any():
            self._instants(stretch, events, names, np.flatnonzero(instant))
        if counter.any():
            self.counters.add(events, counts(tokens, len(events.type)), np.flatnonzero(counter & timed))
        paired = np.flatnonzero((begin | end) & timed)
        if not len(paired):
            return
        self.slices.add(events.time[paired], self._numbers(events.track[paired]), begin[paired])
        at = np.flatnonzero(begin & timed)
        if len(at):
            self._wait(self.begins.block(tokens, events, names, at, stretch.base))

    def _numbers(self, tracks: Ints) -> Ints:
        """The tracks as small consecutive numbers."""
        return map_distinct(tracks, lambda track: self.lanes.setdefault(track, len(self.lanes)))

    def _wait(self, block: Block) -> None:
        self.rows += block.rows
        np.array([block.rows], np.int64).tofile(self.scratch)
        for array in (block.ints, block.codes, block.floats):
            np.ascontiguousarray(array).tofile(self.scratch)

    def _waited(self) -> Block | None:
        rows = np.fromfile(self.scratch, np.int64, 1)
        if not len(rows):
            return None
        count = int(rows[0])
        ints = np.fromfile(self.scratch, np.int64, len(INTS) * count).reshape(len(INTS), count)
        codes = np.fromfile(self.scratch, np.int32, len(CODES) * count).reshape(len(CODES), count)
        floats = np.fromfile(self.scratch, np.float64, len(FLOATS) * count).reshape(len(FLOATS), count)
        return Block(ints, codes, floats, 0)

    def _instants(self, stretch: Stretch, events: TrackEvents, names: Ints, at: Ints) -> None:
        """Read memory samples and PyTorch's metadata of the recording; other instants are counted as ignored."""
        texts = self.strings.texts
        names_by_code = {code: texts[code] for code in np.unique(names[at]).tolist()
                  if code >= 0 and texts[code] in (*_DOCUMENT, "[memory]")}  # fmt: skip
        instants = at[np.isin(names[at], list(names_by_code))] if names_by_code else at[:0]
        self.ignored["instants"] += len(at) - len(instants)
        if not len(instants):
            return
        arguments = self.begins.annotations.whole(stretch.tokens, events.span, set(instants.tolist()))
        for row in instants.tolist():
            values = arguments.get(row, {})
            if names_by_code[int(names[row])] == "[memory]":
                place = self.tracks.place(int(events.track[row]))
                self.counters.memory(int(events.time[row]), place, values)
            else:
                self.document.update(_document(values))

    def _finish(self) -> None:
        """Pair begins with ends, and add the slices to the tables."""
        durations, position = self.slices.durations(), 0
        lanes = Lanes(self.tracks, self.strings, self.ignored)
        self.scratch.seek(0)
        while (block := self._waited()) is not None:
            block.ints[_INT["dur"]] = durations[position : position + block.rows]
            position += block.rows
            rows = lanes.placed(block)
            if rows.rows:
                self.tables.add(self.tables.rows_of(rows))
            self.job.progress(self.source.position, self.source.size, self.events)
        self.tables.texts.device_word = self.tracks.word or self.tables.texts.device_word

    def _nothing(self, broken: int, damage: int | None) -> tuple[str, str]:
        if broken or damage is not None:
            return "is a damaged Perfetto trace: none of its packets can be read", "Copy it again in binary mode."
        why = f"is a Perfetto trace without track events ({self.packets:,} packets of other kinds)"
        return why, "Open it in Perfetto itself; warplens reads what PyTorch and the track event SDK record."

    def _info(self, broken: int, stretches: Stretches, compressed: bool) -> Info:
        tables, word = self.tables, self.tables.texts.device_word
        devices = devices_of(self.document)
        ids = [f"{word} {number}" for number in sorted(tables.spools["kernels"].devices) if number >= 0]
        rank = rank_of(self.document)
        row_ranks = tables.spools["kernels"].ranks | tables.spools["host"].ranks
        epoch = tables.earliest
        if epoch is not None and epoch < _ABSOLUTE:
            shift = self.sequences.to_realtime
            epoch = None if shift is None else epoch + shift
        facts: dict[str, Any] = {"events": self.events, "packets": self.packets,
                                 "tables": tables_of({"track_event": self.events}, self.others)}
        facts |= {"ignored": {key: count for key, count in self.ignored.items() if count}}
        distributed = self.document.get("distributedInfo")
        if isinstance(distributed, dict):
            facts |= {key: distributed[key] for key in ("backend", "world_size") if key in distributed}
        size, damage = self.source.decompressed, stretches.damage
        covered = damage / size if damage is not None and size else 1.0
        return Info(
            source=str(self.job.path), label=label_of(self.job.path), format="perfetto", tool=self._tool(),
            bytes=self.source.size, devices=tuple(devices.get(each, Device(each)) for each in ids),
            ranks=tuple(sorted(row_ranks if rank is None else {rank, *row_ranks})), epoch_ns=epoch,
            clock="wall clock" if epoch is not None else None,
            coverage=None if self.source.ended or compressed else min(1.0, covered),
            warnings=self._warnings(broken, stretches), facts=facts,
        )  # fmt: skip

    def _tool(self) -> str:
        processes = {track.process for track in self.tracks.by_uuid.values()}
        return "PyTorch Kineto (Perfetto)" if "Kineto Trace" in processes or self.document else "Perfetto"

    def _warnings(self, broken: int, stretches: Stretches) -> tuple[str, ...]:
        warnings = []
        if self.source.fault:
            warnings.append(self.source.fault)
        if stretches.damage is not None and not self.source.ended:
            how = "ends in the middle of a packet" if stretches.cut else "is damaged"
            warnings.append(f"truncated: the file {how} at byte {stretches.damage:,}; {self.events:,} events were read")
        counted = (
            (broken, "damaged packets were skipped"),
            (self.ignored["compressed packets"], "compressed packets in the middle of the trace were skipped"),
            (self.sequences.lost, "times the recorder lost packets: slices and names may be missing"),
            (self.untimed + self.tables.untimed, "events have no usable time and are left out"),
            (self.slices.open, "slices were still open at the end: their duration is not known"),
            (self.slices.stray, "ends of slices have no begin and are left out"),
        )
        warnings += [f"{count:,} {what}" for count, what in counted if count]
        warnings += self.tables.time_warnings()
        return tuple(warnings)


def _document(recorded: dict[str, Any]) -> dict[str, Any]:
    """Metadata with the keys and values of Kineto's JSON; a value may be JSON text, or a member with its key."""
    results: dict[str, Any] = {}
    for key, value in recorded.items():
        text = value.strip() if isinstance(value, str) else value
        if isinstance(text, str) and key == "properties":
            text = text.strip(",")
            inside = _json("{" + text + "}" if text.startswith('"') else text)
            results |= inside if isinstance(inside, dict) else {"deviceProperties": inside}
        else:
            parsed = _json(text) if isinstance(text, str) else text
            results[key] = text if parsed is None else parsed
    return results


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def arguments(path: Path, offset: int, name: str) -> dict[str, Any]:
    """The annotations of the event ``name`` in the packet whose content begins at ``offset``. Its texts may be interned
    by earlier packets, so the trace is read again from the beginning up to there. Raises OSError like ``open``,
    ValueError if no such event begins there."""
    strings = Strings()
    sequences = Sequences(strings)
    begins = Begins(strings, sequences)
    compressed = has_compressed(head(path))
    with Source(path) as source:
        walk = walk_for(offset, True)
        for stretch in Stretches(PACKETS, walk).over((Unpacked(source) if compressed else source).readinto):
            tokens = stretch.tokens
            if not tokens.count("packet"):
                continue
            events = events_of(tokens, sequences)
            if stretch.end <= offset:
                continue
            indices = stretch.base + tokens.field("packet").values[events.packet]
            for row in np.flatnonzero(indices == offset).tolist():
                if strings.texts[begins.names(tokens, events)[row]] == name:
                    return begins.annotations.whole(tokens, events.span, {row}).get(row, {})
            break
    raise ValueError(f"no event begins at byte {offset:,}")
