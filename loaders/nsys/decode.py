"""The compiled way to decode records: one pass over each record, straight into columns.

It reads hostile bytes without the interpreter's help. Every index is compared with an end that lies ``PAD`` bytes
before that of the data before the byte there decides anything; what is longer than a page allows, or is not laid out as
a record of the table, ends it with ``UNUSUAL``. No more rows are written than there are cells.

What it buys: a million kernels are read in 0.17 s rather than the 0.38 of ``arrays``, and loaded and written as the
cache holds them in 0.83 s rather than 1.04 (two cores, November 2026).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..native.jit import compiled, inlined
from ..native.simd import big_word_at, item
from .layout import BYTES, LENGTHS, MISSING, NULL_CODE, ONE_CODE, PAD, REAL, REAL_CODE, SIZES, TEXT, WHOLE, ZERO_CODE

UNUSUAL = -1
_SIZES = np.array(SIZES)
_LONGEST = 8
"""Bytes of a varint; one of nine is no length, type or row number that such a table has."""


@inlined
def _varint(data: Any, at: int) -> Any:
    """The number there and the place behind it, which is 0 where it is too long; up to 8 bytes are looked at."""
    value = 0
    for step in range(_LONGEST):
        byte = int(item(data, at + step))
        value = value << 7 | (byte & 127)
        if byte < 128:
            return value, at + step + 1
    return 0, 0


@compiled
def decode(
    data: Any, cells: Any, ends: Any, most: int, places: Any, values: Any, starts: Any, kinds: Any, seen: Any,
    rowids: Any,
) -> int:  # fmt: skip
    """Decode the records that begin at ``cells`` and lie before ``ends``; 0, or ``UNUSUAL``.

    ``places`` is, for each column of the table up to the last wanted, its row in ``values``, ``starts`` and ``kinds``
    (shape: wanted columns, room for the cells), or -1; ``kinds`` must be all ``WHOLE``, ``seen`` gets the kinds of
    values each of them has. ``most`` is the longest record that fits a page.
    """
    limit, columns = data.size - PAD, places.size
    for row in range(cells.size):
        at, stop = item(cells, row), item(ends, row)
        if at < 0 or at >= limit or stop > limit:
            return UNUSUAL
        payload, at = _varint(data, at)
        if at == 0 or at >= stop:
            return UNUSUAL
        rowid, at = _varint(data, at)
        end = at + payload
        if at == 0 or payload > most or end > stop or at >= end:
            return UNUSUAL
        rowids[row] = rowid
        begin = at
        header, at = _varint(data, at)
        body = begin + header
        head = body
        if at == 0 or at > body or body > end:
            return UNUSUAL
        for column in range(columns):
            if at >= head:
                return UNUSUAL
            code = int(item(data, at))
            at += 1
            if code >= 128:
                code, at = _varint(data, at - 1)
                if at == 0 or at > head:
                    return UNUSUAL
            size = (code - LENGTHS) >> 1 if code >= LENGTHS else int(item(_SIZES, code))
            if size > end - body:
                return UNUSUAL
            place = item(places, column)
            if place >= 0:
                kind, value = WHOLE, 0
                if code == NULL_CODE:
                    kind = MISSING
                elif code < ZERO_CODE:
                    value = big_word_at(data, body) >> (64 - 8 * size)
                    if code == REAL_CODE:
                        kind = REAL
                elif code < LENGTHS:
                    value = 1 if code == ONE_CODE else 0
                else:
                    kind = TEXT if code & 1 else BYTES
                    value = size
                    starts[place, row] = body
                values[place, row] = value
                if kind != WHOLE:
                    kinds[place, row] = kind
                seen[place] |= kind
            body += size
    return 0
