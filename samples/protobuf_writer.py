"""Writes the protocol buffers wire format; enough to make samples without a library.

A message is a list of (field number, value): ints become varints, floats doubles, bytes and strings length-delimited
fields, lists nested messages; ``Fixed`` is an int written as fixed64.
"""

from __future__ import annotations

import struct
from typing import NamedTuple


class Fixed(NamedTuple):
    """An integer written as fixed64."""

    value: int


Message = list[tuple[int, object]]


def varint(value: int) -> bytes:
    """A varint: seven bits per byte; a negative number as its 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def field(number: int, value: object) -> bytes:
    """One field with its tag."""
    if isinstance(value, bool | int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, Fixed):
        return varint(number << 3 | 1) + struct.pack("<Q", value.value & (1 << 64) - 1)
    data = message(value) if isinstance(value, list) else value.encode() if isinstance(value, str) else value
    assert isinstance(data, bytes)
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(fields: Message) -> bytes:
    """The encoded fields, concatenated."""
    return b"".join(field(number, value) for number, value in fields)
