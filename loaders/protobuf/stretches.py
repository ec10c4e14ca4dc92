"""Reads a file's messages in bounded memory: items as columns, a stretch at a time, or only the positions of fields.

The data of a message may be gigabytes. It is read into one buffer after another; an item that does not fit waits for
the next. Items larger than ``LARGEST`` are skipped and counted: no profiler writes such an event.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .layout import (
    DAMAGED,
    EIGHT_BYTES,
    FOUR_BYTES,
    FULL,
    INCOMPLETE,
    LENGTH,
    PAD,
    VARINT,
    WIRE_TYPES,
    varint,
)
from .tokens import Shape, Tokens, Walk, Walker, header

BUFFER = 1 << 20  # Bytes of data walked at once: small enough to stay, with their tokens, in the CPU cache.
LARGEST = 8 << 20  # Bytes of the largest item that is read.
Read = Callable[[memoryview], int]
"""Fills a buffer with the next bytes and returns their number, less than its size only at the end."""
_WINDOW = 64 << 10
_HEADER = 20  # Maximum bytes of a tag and length.


class Stretch(NamedTuple):
    """The tokens of some items, the position of their data in the source, and where the last item ends."""

    tokens: Tokens
    base: int
    end: int


class Stretches:
    """The items of one message, from the current position of ``read``. After reading, ``broken`` counts items that were
    damaged or too large, and ``damage`` is the position at which the data stopped being valid, None if it never did;
    ``cut`` says that it is because the data ended there."""

    def __init__(self, shape: Shape, walk: Walk, base: int = 0) -> None:
        self._walker = Walker(shape, walk, BUFFER // 2, LARGEST)
        self._base = base
        self.damage: int | None = None
        self.cut = False

    @property
    def broken(self) -> int:
        """The number of items skipped so far."""
        return self._walker.broken

    def over(self, read: Read) -> Iterator[Stretch]:
        """Walk all data that ``read`` returns."""
        buffer, filled, more = np.zeros(BUFFER + PAD, np.uint8), 0, True
        while True:
            if more:
                room = len(buffer) - PAD
                while filled < room and (got := read(memoryview(buffer.data)[filled:room])):
                    filled += got
                more = filled == room
                buffer[filled : filled + PAD] = 0
            at = 0
            while True:
                tokens, why, after = self._walker.next(buffer, at, filled)
                yield Stretch(tokens, self._base, self._base + after)
                at = after
                if why != FULL:
                    break
            if why == DAMAGED or (why == INCOMPLETE and not more):
                self.damage, self.cut = self._base + at, why == INCOMPLETE
                return
            if why != INCOMPLETE and not more:
                return
            if at == 0 and filled == len(buffer) - PAD:  # an item larger than the buffer
                begin, size = header(buffer, 0, filled)
                if size > LARGEST:
                    self._walker.broken += 1
                    if not self._pass_over(read, begin + size - filled):
                        self.damage, self.cut = self._base, True
                        return
                    self._base += begin + size
                    filled = 0
                    continue
                larger = np.zeros(max(2 * len(buffer), begin + size + PAD), np.uint8)
                larger[:filled] = buffer[:filled]
                buffer = larger
                continue
            rest = filled - at
            if len(buffer) > BUFFER + PAD and rest < BUFFER:
                buffer, old = np.zeros(BUFFER + PAD, np.uint8), buffer
                buffer[:rest] = old[at:filled]
            else:
                buffer[:rest] = buffer[at:filled].copy()
            self._base += at
            filled = rest

    def _pass_over(self, read: Read, size: int) -> bool:
        """Skip ``size`` bytes; False if the data ends before."""
        spare = memoryview(bytearray(min(size, BUFFER)))
        while size:
            got = read(spare[: min(size, len(spare))])
            if not got:
                return False
            size -= got
        return True


def part_of(file: int, begin: int, end: int) -> Read:
    """A ``Read`` of the part of an open file from ``begin`` to ``end``."""
    at = begin

    def read(view: memoryview) -> int:
        nonlocal at
        got = os.preadv(file, [view[: max(end - at, 0)]], at) if at < end else 0
        at += got
        return got

    return read


class WireField(NamedTuple):
    """A field: its number, the positions of its tag, its content and its end, and a varint's value (no content)."""

    number: int
    start: int
    begin: int
    end: int
    value: int


class Cut(Exception):
    """The message ends within a field, or is not valid from there on; ``at`` is the position in the file."""

    def __init__(self, at: int) -> None:
        self.at = at


def parts(file: int, begin: int, end: int) -> Iterator[WireField]:
    """The fields of the message between two positions of an open file, reading little more than their headers: for
    messages in which a few fields make up most of the file. Raises Cut if it is damaged."""
    window, base = b"", begin
    at = begin
    while at < end:
        if at + _HEADER > base + len(window):
            window, base = os.pread(file, _WINDOW, at), at
        tag, behind = varint(window, at - base)
        wire, number = tag & 7, tag >> 3
        value, size = 0, {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(wire, 0)
        if wire in (VARINT, LENGTH) and behind >= 0:
            value, behind = varint(window, behind)
        if wire == LENGTH:
            size, value = value, 0
        content = base + behind
        if behind < 0 or wire not in WIRE_TYPES or number == 0 or size > end - content:
            raise Cut(at)
        yield WireField(number, at, content, content + size, value)
        at = content + size
