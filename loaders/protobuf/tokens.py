"""The fields a walk reads (``Shape``), and its result: one token per value, with the message that owns it.

The tokens of a field are arrays: the owner (the number of the message among its kind), the value (for texts and
messages the position in the data), the size and the hash. A field becomes a column over all messages of a kind by one
assignment, in which the last of several values wins, as the format requires.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .layout import AT, BROKEN, DEEPEST, FULL, ITEM, LENGTH, MESSAGE, NUMBERS_END, SKIP, STATE, TOKENS, varint

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
NULL = -(1 << 63)
Fields = dict[int, tuple[str, Any]]  # Field number → name and kind, or name and the fields of its message.


class Shape:
    """The fields to read, as slots: one per field and kind of message, in order of declaration. The data is the content
    of the outermost message (kind 0), whose fields are the items of a walk. A kind of message belongs to one field, so
    the n-th message of a kind is the n-th token of that field's slot. ``slots`` (shape: kinds of messages, field
    numbers) is the slot of each field or -1, ``by_number`` the same as one mapping per kind of message; per slot,
    ``kinds`` is the kind of field and ``inside`` the kind of message it contains, -1 for none."""

    def __init__(self, fields: Fields) -> None:
        self.names: dict[str, int] = {}
        self.children: dict[str, str] = {}
        rows: list[dict[int, int]] = []
        kinds, inside = list[int](), list[int]()

        def message(fields: Fields, path: str, depth: int) -> int:
            assert depth < DEEPEST
            rows.append({})
            own = len(rows) - 1
            for number, (name, what) in fields.items():
                slot = len(kinds)
                full = f"{path}.{name}" if path else name
                self.names[full] = rows[own][number] = slot
                kinds.append(MESSAGE if isinstance(what, dict) else what)
                inside.append(-1)
                if isinstance(what, dict):
                    inside[slot] = message(what, full, depth + 1)
            return own

        message(fields, "", 0)
        self.by_number = rows
        self.slots: npt.NDArray[np.int16] = np.full((len(rows), NUMBERS_END), -1, np.int16)
        for own, row in enumerate(rows):
            for number, slot in row.items():
                self.slots[own, number] = slot
        self.kinds = np.array([*kinds, SKIP], np.uint8)
        self.inside = np.array([*inside, -1], np.int16)
        self.count, self.messages = len(kinds), len(rows)


class Room:
    """The arrays a walk fills, for up to ``capacity`` tokens, and its state (``layout``)."""

    def __init__(self, shape: Shape, capacity: int) -> None:
        self.shape, self.capacity = shape, capacity
        self.state, self.counts = np.zeros(STATE, np.int64), np.zeros(shape.messages, np.int64)
        self.saved, self.stack = np.zeros(shape.messages, np.int64), np.zeros((DEEPEST + 1, 3), np.int64)
        self.slots, self.owners = np.empty(capacity, np.int16), np.empty(capacity, np.int32)
        self.values, self.sizes = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        self.hashes = np.empty(capacity, np.int64)


class Walk(Protocol):
    """A walk over the data from ``room.state[AT]`` to ``end``; ``PAD`` more bytes must follow ``end``."""

    def __call__(self, data: Bytes, end: int, room: Room) -> int:
        """Fill ``room``; returns why the walk ended."""
        ...


class FieldTokens(NamedTuple):
    """All values of one field."""

    owners: Codes
    values: Ints
    sizes: Codes
    hashes: Ints


class Tokens:
    """The tokens of one stretch of data, by field."""

    def __init__(self, data: Bytes, room: Room) -> None:
        self.data, self._room, self._view = data, room, data.data
        self._fields: dict[str, FieldTokens] = {}
        count = int(room.state[TOKENS])
        slots = room.slots[:count]
        self._order = np.argsort(slots, kind="stable")
        self._starts = np.searchsorted(slots[self._order], np.arange(room.shape.count + 1, dtype=np.int16))

    def field(self, name: str) -> FieldTokens:
        """The values of a field ('event.name') in the order of the data."""
        field = self._fields.get(name)
        if field is None:
            slot, room = self._room.shape.names[name], self._room
            at = self._order[self._starts[slot] : self._starts[slot + 1]]
            field = FieldTokens(room.owners[at], room.values[at], room.sizes[at], room.hashes[at])
            self._fields[name] = field
        return field

    def count(self, name: str) -> int:
        """The number of values of a field, or of messages if it is one."""
        slot = self._room.shape.names[name]
        return int(self._starts[slot + 1] - self._starts[slot])

    def column(self, name: str, of: int, default: int = NULL) -> Ints:
        """A numeric field as a column over ``of`` messages; ``default`` for messages without it."""
        out = np.full(of, default, np.int64)
        field = self.field(name)
        out[field.owners] = field.values
        return out

    def owners(self, name: str) -> Codes:
        """Per message of a field, the message that contains it."""
        return self.field(name).owners

    def text(self, value: int, size: int) -> str:
        """The text at a position in the data; invalid UTF-8 is replaced."""
        return str(self._view[value : value + size], "utf-8", "replace")

    def texts(self, name: str, code: Callable[[str], int], of: Mask | None = None) -> tuple[Codes, Ints]:
        """The owners of a text field and the codes of its values; ``code`` is called once per distinct text. ``of``
        restricts the result to some owners."""
        field = self.field(name)
        if of is not None:
            at = np.flatnonzero(of[field.owners])
            field = FieldTokens(field.owners[at], field.values[at], field.sizes[at], field.hashes[at])
        if not len(field.owners):
            return field.owners, field.values
        _, first, inverse = np.unique(field.hashes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        codes = np.empty(len(first), np.int64)
        for index in order.tolist():
            at = first[index]
            codes[index] = code(self.text(int(field.values[at]), int(field.sizes[at])))
        return field.owners, codes[inverse]

    def text_column(self, name: str, of: int, code: Callable[[str], int], mask: Mask | None = None) -> Ints:
        """A text field as codes over ``of`` messages, or only those in ``mask``; -1 for messages without it."""
        out = np.full(of, -1, np.int64)
        owners, codes = self.texts(name, code, mask)
        out[owners] = codes
        return out


def reals(values: Ints) -> npt.NDArray[np.float64]:
    """Values of fixed fields reinterpreted as doubles."""
    doubles: npt.NDArray[np.float64] = np.ascontiguousarray(values).view(np.float64)
    return doubles


def map_distinct(values: npt.NDArray[Any], convert: Callable[[int], Any], dtype: type = np.int64) -> npt.NDArray[Any]:
    """``convert`` applied to each value, called once per distinct value."""
    distinct, where = np.unique(values, return_inverse=True)
    return np.array([convert(value) for value in distinct.tolist()], dtype)[where]


class Walker:
    """Walks data of one shape, stretch by stretch, growing its room as items require. ``largest`` bounds the size of an
    item, and so the memory. ``broken`` counts the items skipped because they were damaged or too large."""

    def __init__(self, shape: Shape, walk: Walk, capacity: int, largest: int) -> None:
        self._shape, self._walk, self._largest = shape, walk, largest
        self._room = Room(shape, capacity)
        self.broken = 0

    def next(self, data: Bytes, at: int, end: int) -> tuple[Tokens, int, int]:
        """The tokens of the items from ``at`` on, why the walk ended, and where; it makes progress before ``FULL``."""
        while True:
            room = self._room
            room.state[:] = 0
            room.counts[:] = 0
            room.state[AT] = at
            why = self._walk(data, end, room)
            after = int(room.state[AT])
            self.broken += int(room.state[BROKEN])
            size = int(room.state[ITEM])
            if why != FULL or after > at or room.state[TOKENS]:
                return Tokens(data, room), why, after
            if size > self._largest:
                self.broken += 1
                begin, size = header(data, at, end)
                at = min(begin + size, end)
                continue
            self._room = Room(self._shape, max(2 * room.capacity, size + 64))


def header(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Where the content of an item begins, and its size (0 without a length); (``end``, 0) if the header is cut off."""
    head = data[at : min(at + 20, end)].tobytes()
    tag, begin = varint(head, 0)
    size, begin = varint(head, begin) if begin >= 0 and tag & 7 == LENGTH else (0, begin)
    return (at + begin, size) if begin >= 0 else (end, 0)
