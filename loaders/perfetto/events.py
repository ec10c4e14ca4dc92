"""The track events of one stretch as raw columns, before they are paired and become rows.

The contents of a slice begin are written to a scratch file as Kineto's columns, in the order of the trace; its end may
come much later. Counter events become samples at once, or once their track is described (``counters``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..kineto import dialect
from ..kineto.columns import NULL, Block, Strings, block_of
from ..protobuf.tokens import Ints, Tokens, map_distinct, reals
from .annotations import Annotations, Columns
from .packets import BEGIN, COUNTER, END, INSTANT
from .sequences import Sequences

Mask = npt.NDArray[np.bool_]


class TrackEvents(NamedTuple):
    """Events, as columns: packet, type, time (ns, NULL if none), track and span."""

    packet: Ints
    type: Ints
    time: Ints
    track: Ints
    span: Ints


def events_of(tokens: Tokens, sequences: Sequences) -> TrackEvents:
    """The track events among the packets, after updating the sequences from these packets."""
    packets, count = tokens.count("packet"), tokens.count("packet.event")
    spans = sequences.spans(tokens, packets)
    times = sequences.times(tokens, packets, spans)
    packet = tokens.owners("packet.event").astype(np.int64)
    span = spans[packet]
    track = sequences.tracks(span, tokens.column("packet.event.track", count))
    return TrackEvents(packet, tokens.column("packet.event.type", count, 0), times[packet], track, span)


class Begins:
    """Reads the contents of slice begins: names, categories, arguments, flows."""

    def __init__(self, strings: Strings, sequences: Sequences) -> None:
        self._strings, self._sequences = strings, sequences
        self.annotations = Annotations(strings, sequences)

    def names(self, tokens: Tokens, events: TrackEvents) -> Ints:
        """The code of each event's name, -1 if it has none."""
        names = tokens.text_column("packet.event.name", len(events.type), self._strings.code)
        ids = tokens.field("packet.event.name_id")
        names[ids.owners] = self._sequences.texts("name", events.span[ids.owners], ids.values)
        return names

    def _categories(self, tokens: Tokens, events: TrackEvents) -> Ints:
        """The code of each event's category; of several, one that is known."""
        out = np.full(len(events.type), -1, np.int64)
        owners, codes = tokens.texts("packet.event.category", self._strings.code)
        ids = tokens.field("packet.event.category_id")
        interned = self._sequences.texts("category", events.span[ids.owners], ids.values)
        owners, codes = np.concatenate((owners, ids.owners)), np.concatenate((codes, interned))
        texts = self._strings.texts
        sure = map_distinct(codes, lambda code: code >= 0 and dialect.is_listed(texts[code]), bool)
        out[owners[~sure]] = codes[~sure]
        out[owners[sure]] = codes[sure]
        return out

    def _flows(self, tokens: Tokens, rows: int) -> Ints:
        """The flow each event begins or ends; the last of several, NULL for none."""
        out = np.full(rows, NULL, np.int64)
        for name in ("old_flow", "flow", "old_last_flow", "last_flow"):
            field = tokens.field(f"packet.event.{name}")
            out[field.owners] = field.values
        return out

    def block(self, tokens: Tokens, events: TrackEvents, names: Ints, indices: Ints, base: int) -> Block:
        """The events ``indices`` as Kineto's columns. Until tracks are resolved, ``tid`` holds the track, ``pid`` the
        flow and ``end`` the category implied by the arguments."""
        rows = len(events.type)
        recorded: Columns = self.annotations.columns(tokens, rows, events.span)
        ints = {
            **recorded.ints, "ts": events.time, "tid": events.track, "pid": self._flows(tokens, rows),
            "end": recorded.codes["hint"], "offset": base + tokens.field("packet").values[events.packet],
        }  # fmt: skip
        codes = {"name": names, "cat": self._categories(tokens, events), "grid": recorded.codes["grid"],
                 "block": recorded.codes["block"]}  # fmt: skip
        return block_of(rows, ints, codes, dict(recorded.floats)).take(indices)


def kinds(events: TrackEvents) -> tuple[Mask, Mask, Mask, Mask]:
    """Masks of the events that are begins, ends, instants and counters."""
    return events.type == BEGIN, events.type == END, events.type == INSTANT, events.type == COUNTER


def counts(tokens: Tokens, rows: int) -> npt.NDArray[np.float64]:
    """The value of each counter event, NaN if it has none."""
    out = np.full(rows, np.nan)
    integers, real = tokens.field("packet.event.count"), tokens.field("packet.event.real_count")
    out[integers.owners] = integers.values
    out[real.owners] = reals(real.values)
    return out
