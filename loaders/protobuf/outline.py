"""The fields of one large message without what is in them: where each begins and how long it is.

For messages of which a few fields are most of the file (a space of planes, a plane of lines). Reads little more than
the headers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from .layout import EIGHT_BYTES, FOUR_BYTES, LENGTH, VARINT, WIRE_TYPES, varint

_WINDOW = 64 << 10
_HEADER = 20  # Bytes of the longest tag and length.


class WireField(NamedTuple):
    """A field: its number, where the field itself, its content and what follows begin. A number's content is empty."""

    number: int
    start: int
    begin: int
    end: int
    value: int


class Cut(Exception):
    """The message ends in the middle of a field, or goes on as no message does; ``at`` is where in the file."""

    def __init__(self, at: int) -> None:
        self.at = at


def parts(file: int, begin: int, end: int) -> Iterator[WireField]:
    """The fields of the message between two places of an open file. Raises Cut where it is damaged."""
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
