"""What the two walks agree on: kinds of fields, the arrays they fill, why they stop.

Here, because the caller must know it without importing what the code is compiled with.
"""

from __future__ import annotations

PAD = 16  # Bytes behind the data, so that eight can be read where one is.
NUMBERS_END = 1024  # Fields with this number or a higher one are skipped.
DEEPEST = 12  # Messages inside each other that a shape may ask for.

SKIP, NUMBER, FIXED, TEXT, BYTES, MESSAGE = range(6)
"""Kinds of fields: not wanted; a varint; eight bytes (fixed64, double); text; a place in the data; a message to enter.

A field of numbers may be repeated, and packed; of one that is there twice the last counts, as everywhere.
"""

WIRE_TYPES = VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
"""Wire types. 3 and 4 are groups, which nothing wants; a message with one is damaged."""

DONE, FULL, INCOMPLETE, DAMAGED = range(4)
"""Why a walk ends: data used up; no room for the next item; in the middle of an item; no wire format."""

AT, TOKENS, BROKEN, ITEM = range(4)
"""The state: position behind the last whole item; tokens so far; damaged items skipped; size of the item met last."""
STATE = 4


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a place and the place behind it, which is -1 where it is cut off or longer than ten bytes."""
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    return value, -1
