"""Definitions shared by both walks and their callers: kinds of fields, wire types, the state, why a walk ends.

In a module of their own, so that callers do not import what the walk is compiled with.
"""

from __future__ import annotations

PAD = 16  # Bytes after the data, so that eight bytes can be read at any position.
NUMBERS_END = 1024  # Fields with this number or a higher one are skipped.
DEEPEST = 12  # Nesting depth of messages that a shape may have.

SKIP, NUMBER, FIXED, TEXT, BYTES, MESSAGE = range(6)
"""Kinds of fields: skipped; a varint; eight bytes (fixed64, double); text; bytes, by position; a message to enter.

Numeric fields may be repeated and packed; of a field that occurs twice the last value counts, as in every parser.
"""

WIRE_TYPES = VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
"""Wire types. 3 and 4 are groups, which are not supported: a message with one counts as damaged."""

DONE, FULL, INCOMPLETE, DAMAGED = range(4)
"""Why a walk ends: end of data; no room for the next item; data ends within an item; not the wire format."""

AT, TOKENS, BROKEN, ITEM = range(4)
"""Indices of the state: position after the last whole item; tokens so far; damaged items skipped; last item's size."""
STATE = 4


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at ``at``, and the position after it, which is -1 if it is truncated or longer than ten bytes."""
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    return value, -1
