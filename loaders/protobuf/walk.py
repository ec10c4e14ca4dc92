"""The compiled walk: one pass over the bytes, straight into the arrays of a ``Room``.

It reads hostile bytes without the interpreter's help: every index is compared with an end that lies within the data
before the byte there is read, lengths are compared with what is left before anything is added to them, and an item is
begun only where there is room for as many tokens as it has bytes, more than which it cannot have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..native.jit import compiled, inlined
from ..native.simd import item, word_at
from . import layout

_LONGEST = 1 << 29
_LARGEST = 1 << 62
_MIX, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT, _EIGHT, _ONE = np.uint64(29), np.uint64(8), np.uint64(1)


def _array(item: Any, dimensions: int = 1) -> Any:
    return types.Array(item, dimensions, "C")


_BYTES, _INTS, _CODES, _SLOTS = (_array(kind) for kind in (types.uint8, types.int64, types.int32, types.int16))
SIGNATURES = {
    "walk": (
        _BYTES, types.int64, _array(types.int16, 2), _BYTES, _SLOTS, types.int64, _INTS, _INTS, _INTS,
        _array(types.int64, 2), _SLOTS, _CODES, _INTS, _CODES, _INTS,
    ),
}  # fmt: skip


@inlined
def _varint(data: Any, at: Any, end: Any) -> Any:
    """The number there as 64 bits and the place behind it, which is 0 where it is cut off or too long."""
    value, shift = np.int64(0), np.int64(0)
    while at < end and shift < 70:
        byte = np.int64(item(data, at))
        at += 1
        if shift < 64:
            value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(0), np.int64(0)


@inlined
def _hash(data: Any, at: Any, size: Any, seed: Any) -> Any:
    """64 bits that tell texts apart; the seed is not known to whoever made them."""
    mixed = np.uint64(seed) ^ (np.uint64(size) * _OTHER)
    offset, remaining = at, size
    while remaining > 0:
        word = word_at(data, offset)
        if remaining < 8:
            word &= (_ONE << (_EIGHT * np.uint64(remaining))) - _ONE
        mixed = (mixed ^ word) * _MIX
        mixed ^= mixed >> _SHIFT
        mixed = mixed * _OTHER + np.uint64(seed)
        offset += 8
        remaining -= 8
    return np.int64(mixed ^ (mixed >> _SHIFT))


@compiled
def walk(
    data: Any, end: Any, slots: Any, kinds: Any, inside: Any, seed: Any, state: Any, counts: Any, saved: Any,
    stack: Any, token_slots: Any, owners: Any, values: Any, sizes: Any, hashes: Any,
) -> int:  # fmt: skip
    """Walk the items from ``state[AT]`` to ``end``; why it ended (``layout``). ``stack`` (shape: ``DEEPEST`` + 1, 3)
    and ``saved`` (as ``counts``) are its own to write to. A damaged item that says its length leaves nothing behind and
    is counted in ``state[BROKEN]``."""
    at, count, last = np.int64(state[layout.AT]), np.int64(0), slots.shape[0] - 1
    while at < end:
        tag, begin = _varint(data, at, end)
        if begin == 0:
            state[layout.AT], state[layout.TOKENS] = at, count
            return layout.INCOMPLETE if end - at < 20 else layout.DAMAGED
        wire, number, size = tag & 7, tag >> 3, np.int64(0)
        if wire == layout.LENGTH:
            size, begin = _varint(data, begin, end)
            if begin == 0:
                state[layout.AT], state[layout.TOKENS] = at, count
                return layout.INCOMPLETE if end - at < 20 else layout.DAMAGED
        valid = wire <= layout.LENGTH or wire == layout.FOUR_BYTES
        if not valid or number == 0 or size < 0 or size >= _LARGEST:
            state[layout.AT], state[layout.TOKENS] = at, count
            return layout.DAMAGED
        state[layout.ITEM] = size
        if wire == layout.LENGTH and size > end - begin:
            state[layout.AT], state[layout.TOKENS] = at, count
            return layout.INCOMPLETE
        slot = np.int64(-1)
        if 0 < number < layout.NUMBERS_END:
            slot = np.int64(item(slots, number))
        what = np.int64(item(kinds, slot)) if slot >= 0 else np.int64(0)
        if count + (size if what == layout.MESSAGE else 1) + 2 > values.size:
            state[layout.AT], state[layout.TOKENS] = at, count
            return layout.FULL
        before = count
        for offset in range(counts.size):
            saved[offset] = counts[offset]
        depth, kind, token, stop, broken, offset = 0, np.int64(0), np.int64(0), end, False, begin
        first = True
        while True:
            if not first:
                while depth > 0 and offset == stop:
                    depth -= 1
                    kind, token, stop = stack[depth, 0], stack[depth, 1], stack[depth, 2]
                if depth == 0:
                    break
                tag, offset = _varint(data, offset, stop)
                wire, number, size = tag & 7, tag >> 3, np.int64(0)
                if offset == 0 or number <= 0 or number >= _LONGEST:
                    broken = True
                    break
                if wire == layout.LENGTH:
                    size, offset = _varint(data, offset, stop)
                    if offset == 0 or size < 0 or size > stop - offset:
                        broken = True
                        break
                slot = np.int64(-1)
                if number < layout.NUMBERS_END:
                    slot = np.int64(item(slots, kind * layout.NUMBERS_END + number))
                what = np.int64(item(kinds, slot)) if slot >= 0 else np.int64(0)
            first = False
            if wire == layout.VARINT:
                value, offset = _varint(data, offset, stop)
                if offset == 0:
                    broken = True
                    break
                if what == layout.NUMBER:
                    token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                    count += 1
            elif wire == layout.LENGTH:
                if what == layout.MESSAGE:
                    child = np.int64(item(inside, slot))
                    token_slots[count], owners[count], values[count], sizes[count] = slot, token, offset, size
                    count += 1
                    if depth + 1 >= layout.DEEPEST or child > last:
                        broken = True
                        break
                    stack[depth, 0], stack[depth, 1], stack[depth, 2] = kind, token, stop
                    depth += 1
                    kind, token, stop = child, counts[child], offset + size
                    counts[child] += 1
                    continue
                if what == layout.TEXT or what == layout.BYTES:
                    token_slots[count], owners[count], values[count], sizes[count] = slot, token, offset, size
                    hashes[count] = _hash(data, offset, size, seed) if what == layout.TEXT else 0
                    count += 1
                elif what == layout.NUMBER:
                    inner, rest = offset, offset + size
                    while inner < rest:
                        value, inner = _varint(data, inner, rest)
                        if inner == 0:
                            broken = True
                            break
                        if count >= values.size:  # only at the outermost level, where room is kept for one
                            broken = True
                            break
                        token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                        count += 1
                    if broken:
                        break
                elif what == layout.FIXED:
                    inner = offset
                    while offset + size - inner >= 8 and count < values.size:
                        value = np.int64(word_at(data, inner))
                        token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                        count += 1
                        inner += 8
                offset += size
            else:
                width = 8 if wire == layout.EIGHT_BYTES else 4
                if (wire != layout.EIGHT_BYTES and wire != layout.FOUR_BYTES) or stop - offset < width:
                    broken = True
                    break
                if what == layout.FIXED and width == 8:
                    value = np.int64(word_at(data, offset))
                    token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                    count += 1
                offset += width
        if broken:
            tag, begin = _varint(data, at, end)
            if tag & 7 != layout.LENGTH:
                state[layout.AT], state[layout.TOKENS] = at, before
                return layout.INCOMPLETE
            size, begin = _varint(data, begin, end)
            count = before
            for back in range(counts.size):
                counts[back] = saved[back]
            state[layout.BROKEN] += 1
            offset = begin + size
        at = offset
    state[layout.AT], state[layout.TOKENS] = at, count
    return layout.DONE
