"""The walk over the wire format: one pass over the bytes, straight into the arrays of a ``Room``.

The same source runs compiled over arrays and, about a dozen times slower, in Python over memoryviews; the two differ in
how they read varints, hash texts and read eight bytes. The input is untrusted: every index is checked against an end
within the data before its byte is read, lengths are checked against the remaining bytes before anything is added to
them, and an item is begun only if there is room for one token per byte of it, the most it can produce.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..native.functions import Native
from ..native.program import Program
from . import layout
from .tokens import Bytes, Room, Walk

WALKER = Program(
    name="walker", module=f"{__package__}.compiled_walk",
    functions=(("walk", "uint8[::1], int64, int16[:, ::1], uint8[::1], int16[::1], int64, int64[::1], int64[::1], "
                        "int64[::1], int64[:, ::1], int16[::1], int32[::1], int64[::1], int32[::1], int64[::1]"),),
    sources=tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("layout", "walk", "compiled_walk")),
)  # fmt: skip
_COMPILED_BYTES = 500_000  # Minimum bytes for which loading the compiled walk pays off.
_PREPARED_BYTES = 4_000_000  # Minimum bytes for which the walk is compiled for later loads.
_SEED = random.SystemRandom().getrandbits(62)
_LONGEST = 1 << 29
_LARGEST = 1 << 62
_SIGN = 1 << 63


def walk_for(size: int, allowed: bool) -> Walk:
    """The walk to use for ``size`` bytes: the compiled one if it exists and pays off."""
    if allowed and size >= _COMPILED_BYTES:
        if (native := WALKER.load()) is not None:
            return compiled(native)
        if size >= _PREPARED_BYTES:
            WALKER.prepare()
    return in_python


def compiled(native: Native) -> Walk:
    """The compiled walk."""
    def run(data: Bytes, end: int, room: Room) -> int:
        return native.call("walk", data, end, *_tables(room)[:3], _SEED, *_tables(room)[3:])

    return run


def in_python(data: Bytes, end: int, room: Room) -> int:
    """The walk in Python."""
    tables = [table.data for table in _tables(room)]  # indexed faster than arrays
    return int(_plainly(data.data, end, *tables[:3], _SEED, *tables[3:]))


def _tables(room: Room) -> tuple[Any, ...]:
    """The arrays a walk reads and fills, in the order of its arguments."""
    shape = room.shape
    return (shape.slots, shape.kinds, shape.inside, room.state, room.counts, room.saved, room.stack, room.slots,
            room.owners, room.values, room.sizes, room.hashes)


def walking(varint: Any, text_hash: Any, fixed: Any) -> Callable[..., int]:
    """The walk built from three functions: ``varint`` returns 64 bits and the position after them, 0 if truncated or
    too long; ``text_hash`` a 64-bit hash of a text; ``fixed`` the eight bytes at a position as an integer."""

    def walk(
        data: Any, end: Any, slots: Any, kinds: Any, inside: Any, seed: Any, state: Any, counts: Any, saved: Any,
        stack: Any, token_slots: Any, owners: Any, values: Any, sizes: Any, hashes: Any,
    ) -> int:  # fmt: skip
        """Walk the items from ``state[AT]`` to ``end``; returns why it ended (``layout``). ``stack`` (shape:
        ``DEEPEST`` + 1, 3) and ``saved`` (shaped like ``counts``) are scratch space. A damaged item with a known length
        leaves no tokens and is counted in ``state[BROKEN]``."""
        at, count, last = state[layout.AT], 0, len(slots) - 1
        while at < end:
            tag, begin = varint(data, at, end)
            if begin == 0:
                state[layout.AT], state[layout.TOKENS] = at, count
                return layout.INCOMPLETE if end - at < 20 else layout.DAMAGED
            wire, number, size = tag & 7, tag >> 3, 0
            if wire == layout.LENGTH:
                size, begin = varint(data, begin, end)
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
            slot = -1
            if 0 < number < layout.NUMBERS_END:
                slot = slots[0, number]
            what = kinds[slot] if slot >= 0 else 0
            if count + (size if what == layout.MESSAGE else 1) + 2 > len(values):
                state[layout.AT], state[layout.TOKENS] = at, count
                return layout.FULL
            before = count
            for offset in range(len(counts)):
                saved[offset] = counts[offset]
            depth, kind, token, stop, broken, offset = 0, 0, 0, end, False, begin
            first = True
            while True:
                if not first:
                    while depth > 0 and offset == stop:
                        depth -= 1
                        kind, token, stop = stack[depth, 0], stack[depth, 1], stack[depth, 2]
                    if depth == 0:
                        break
                    tag, offset = varint(data, offset, stop)
                    wire, number, size = tag & 7, tag >> 3, 0
                    if offset == 0 or number <= 0 or number >= _LONGEST:
                        broken = True
                        break
                    if wire == layout.LENGTH:
                        size, offset = varint(data, offset, stop)
                        if offset == 0 or size < 0 or size > stop - offset:
                            broken = True
                            break
                    slot = -1
                    if number < layout.NUMBERS_END:
                        slot = slots[kind, number]
                    what = kinds[slot] if slot >= 0 else 0
                first = False
                if wire == layout.VARINT:
                    value, offset = varint(data, offset, stop)
                    if offset == 0:
                        broken = True
                        break
                    if what == layout.NUMBER:
                        token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                        count += 1
                elif wire == layout.LENGTH:
                    if what == layout.MESSAGE:
                        child = inside[slot]
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
                        hashes[count] = text_hash(data, offset, size, seed) if what == layout.TEXT else 0
                        count += 1
                    elif what == layout.NUMBER:
                        inner, rest = offset, offset + size
                        while inner < rest:
                            value, inner = varint(data, inner, rest)
                            if inner == 0:
                                broken = True
                                break
                            if count >= len(values):  # only at the outermost level, with room for one
                                broken = True
                                break
                            token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                            count += 1
                        if broken:
                            break
                    elif what == layout.FIXED:
                        inner = offset
                        while offset + size - inner >= 8 and count < len(values):
                            value = fixed(data, inner)
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
                        value = fixed(data, offset)
                        token_slots[count], owners[count], values[count], sizes[count] = slot, token, value, 0
                        count += 1
                    offset += width
            if broken:
                tag, begin = varint(data, at, end)
                if tag & 7 != layout.LENGTH:
                    state[layout.AT], state[layout.TOKENS] = at, before
                    return layout.INCOMPLETE
                size, begin = varint(data, begin, end)
                count = before
                for back in range(len(counts)):
                    counts[back] = saved[back]
                state[layout.BROKEN] += 1
                offset = begin + size
            at = offset
        state[layout.AT], state[layout.TOKENS] = at, count
        return layout.DONE

    return walk


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            value &= 2 * _SIGN - 1
            return value - 2 * (value & _SIGN), at
        shift += 7
    return 0, 0


_plainly = walking(
    _varint, lambda data, at, size, seed: hash(bytes(data[at : at + size])),
    lambda data, at: int.from_bytes(data[at : at + 8], "little", signed=True),
)  # fmt: skip
