"""The walk in Python: what the compiled one does, some dozen times slower."""

from __future__ import annotations

from . import layout
from .shape import Shape
from .tokens import Room


class _Broken(Exception):
    """Not wire format, or cut off."""


def walk(data: memoryview, end: int, shape: Shape, room: Room) -> int:
    """Walk the items from ``room.state[AT]`` to ``end``; why it ended. See ``walk.walk``."""
    return _Walk(data, end, shape, room).run()


class _Walk:
    def __init__(self, data: memoryview, end: int, shape: Shape, room: Room) -> None:
        self.data, self.end, self.room = data, end, room
        self.slots = shape.by_number
        self.kinds, self.inside = shape.kinds.tolist(), shape.inside.tolist()
        self.counts = room.counts.tolist()
        self.rows: list[tuple[int, int, int, int, int]] = []

    def run(self) -> int:
        state = self.room.state
        at, capacity = int(state[layout.AT]), self.room.capacity
        why = layout.DONE
        while at < self.end:
            try:
                tag, begin = self._varint(at, self.end)
                wire = tag & 7
                size, begin = self._varint(begin, self.end) if wire == layout.LENGTH else (0, begin)
            except _Broken:
                why = layout.INCOMPLETE if self.end - at < 20 else layout.DAMAGED
                break
            if wire not in layout.WIRE_TYPES or tag >> 3 == 0 or not 0 <= size < 1 << 62:
                why = layout.DAMAGED
                break
            state[layout.ITEM] = size
            if wire == layout.LENGTH and size > self.end - begin:
                why = layout.INCOMPLETE
                break
            slot = self.slots[0].get(tag >> 3, -1)
            if len(self.rows) + (size if slot >= 0 and self.kinds[slot] == layout.MESSAGE else 1) + 2 > capacity:
                why = layout.FULL
                break
            saved, counts = len(self.rows), self.counts.copy()
            try:
                after = self._field(slot, wire, size, begin, self.end, 0, 0, 0)
            except _Broken:
                if wire != layout.LENGTH:
                    why = layout.INCOMPLETE
                    break
                del self.rows[saved:]
                self.counts = counts
                state[layout.BROKEN] += 1
                after = begin + size
            at = after
        state[layout.AT], state[layout.TOKENS] = at, len(self.rows)
        self.room.put(self.rows)
        self.room.counts[:] = self.counts
        return why

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 70:
            byte = self.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                value &= (1 << 64) - 1
                return value - (1 << 64) if value >> 63 else value, at
            shift += 7
        raise _Broken

    def _message(self, kind: int, token: int, at: int, end: int, depth: int) -> None:
        if depth >= layout.DEEPEST:
            raise _Broken
        slots = self.slots[kind]
        while at < end:
            tag, at = self._varint(at, end)
            wire, number = tag & 7, tag >> 3
            if not 0 < number < 1 << 29:
                raise _Broken
            size = 0
            if wire == layout.LENGTH:
                size, at = self._varint(at, end)
            if not 0 <= size <= end - at:
                raise _Broken
            slot = slots.get(number, -1) if number < layout.NUMBERS_END else -1
            at = self._field(slot, wire, size, at, end, kind, token, depth)

    def _field(self, slot: int, wire: int, size: int, at: int, end: int, kind: int, token: int, depth: int) -> int:
        what = self.kinds[slot]
        if wire == layout.VARINT:
            value, at = self._varint(at, end)
            if what == layout.NUMBER:
                self.rows.append((slot, token, value, 0, 0))
            return at
        if wire == layout.LENGTH:
            self._bytes(slot, what, size, at, token, depth)
            return at + size
        width = 8 if wire == layout.EIGHT_BYTES else 4
        if wire not in layout.WIRE_TYPES or end - at < width:
            raise _Broken
        if what == layout.FIXED and width == 8:
            self.rows.append((slot, token, int.from_bytes(self.data[at : at + 8], "little", signed=True), 0, 0))
        return at + width

    def _bytes(self, slot: int, what: int, size: int, at: int, token: int, depth: int) -> None:
        if what == layout.MESSAGE:
            child = self.inside[slot]
            number = self.counts[child]
            self.counts[child] += 1
            self.rows.append((slot, token, at, size, 0))
            self._message(child, number, at, at + size, depth + 1)
        elif what == layout.TEXT:
            self.rows.append((slot, token, at, size, hash(bytes(self.data[at : at + size]))))
        elif what == layout.BYTES:
            self.rows.append((slot, token, at, size, 0))
        elif what == layout.NUMBER:
            stop = at + size
            while at < stop:
                value, at = self._varint(at, stop)
                if len(self.rows) >= self.room.capacity:
                    raise _Broken
                self.rows.append((slot, token, value, 0, 0))
        elif what == layout.FIXED:
            for offset in range(at, at + size - 7, 8):
                if len(self.rows) >= self.room.capacity:
                    break
                value = int.from_bytes(self.data[offset : offset + 8], "little", signed=True)
                self.rows.append((slot, token, value, 0, 0))
