"""What a walk is to read of messages (``Shape``), and what it read: a token for each value, with whose it is.

The tokens of one field are three arrays: whose (``owner``, the number of the message among its kind), the value (of
texts and messages the place in the data) and the size. Fields become columns over all messages of a kind by one
assignment each, where the last of several wins, which is what the format wants.
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
Fields = dict[int, tuple[str, Any]]  # Field number → name and kind, or name and the fields of the message it is.


class Shape:
    """Messages as slots: one for each wanted field of each kind of message, in the order they are declared. The
    outermost message (kind 0) is what the data is the inside of; its fields are the items of a walk. A kind of message
    belongs to one field, so the n-th message of a kind is the n-th token of that field's slot. ``slots`` (kinds of
    messages × field numbers) is the slot of each field or -1, ``by_number`` the same as one mapping for each kind;
    ``kinds`` and ``inside`` say of each slot what it is and which kind of message it leads to."""

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
    """The arrays a walk fills, room for ``capacity`` tokens, and its state (``layout``)."""

    def __init__(self, shape: Shape, capacity: int) -> None:
        self.shape, self.capacity = shape, capacity
        self.state, self.counts = np.zeros(STATE, np.int64), np.zeros(shape.messages, np.int64)
        self.saved, self.stack = np.zeros(shape.messages, np.int64), np.zeros((DEEPEST + 1, 3), np.int64)
        self.slots, self.owners = np.empty(capacity, np.int16), np.empty(capacity, np.int32)
        self.values, self.sizes = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        self.hashes = np.empty(capacity, np.int64)

    def put(self, rows: list[tuple[int, int, int, int, int]]) -> None:
        """Take in the tokens a walk in Python found."""
        if rows:
            slots, owners, values, sizes, hashes = zip(*rows, strict=True)
            end = len(rows)
            self.slots[:end], self.owners[:end], self.values[:end] = slots, owners, values
            self.sizes[:end], self.hashes[:end] = sizes, hashes


class Walk(Protocol):
    """A way to walk: from ``room.state[AT]`` to ``end``; the data has ``PAD`` bytes behind that."""

    def __call__(self, data: Bytes, end: int, room: Room) -> int:
        """Why it ended."""
        ...


class FieldTokens(NamedTuple):
    """All values of one field."""

    owners: Codes
    values: Ints
    sizes: Codes
    hashes: Ints


class Tokens:
    """The tokens of one stretch of data, by field. ``counts`` says how many messages each field of them has."""

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
        """How many values a field has; of a message, how many there are."""
        slot = self._room.shape.names[name]
        return int(self._starts[slot + 1] - self._starts[slot])

    def column(self, name: str, of: int, default: int = NULL) -> Ints:
        """A field of numbers over the ``of`` messages that may have it; ``default`` where one has not."""
        out = np.full(of, default, np.int64)
        field = self.field(name)
        out[field.owners] = field.values
        return out

    def owners(self, name: str) -> Codes:
        """Of each message of a field, which message it is in."""
        return self.field(name).owners

    def text(self, value: int, size: int) -> str:
        """The text at a place of the data; bytes that are not UTF-8 are replaced."""
        return str(self._view[value : value + size], "utf-8", "replace")

    def texts(self, name: str, code: Callable[[str], int], of: Mask | None = None) -> tuple[Codes, Ints]:
        """Owners of a field of texts and the codes of its values; ``code`` is asked once for each distinct text. With
        ``of``, those of some owners only."""
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
        """A field of texts as codes over the messages that may have it, or ``some``; -1 where one has not."""
        out = np.full(of, -1, np.int64)
        owners, codes = self.texts(name, code, mask)
        out[owners] = codes
        return out


def reals(values: Ints) -> npt.NDArray[np.float64]:
    """Eight bytes each as the floating-point numbers they are."""
    doubles: npt.NDArray[np.float64] = np.ascontiguousarray(values).view(np.float64)
    return doubles


def map_distinct(values: npt.NDArray[Any], convert: Callable[[int], Any], dtype: type = np.int64) -> npt.NDArray[Any]:
    """``convert`` of each value, called once for each distinct one."""
    distinct, where = np.unique(values, return_inverse=True)
    return np.array([convert(value) for value in distinct.tolist()], dtype)[where]


class Walker:
    """Walks data of one shape, stretch after stretch, in as much room as its items need. ``broken`` counts damaged
    items that were passed over. ``largest`` bounds the size of an item and so the memory; what is larger is passed over
    too."""

    def __init__(self, shape: Shape, walk: Walk, capacity: int, largest: int) -> None:
        self._shape, self._walk, self._largest = shape, walk, largest
        self._room = Room(shape, capacity)
        self.broken = 0

    def next(self, data: Bytes, at: int, end: int) -> tuple[Tokens, int, int]:
        """The tokens of the items from ``at`` on, why the walk ended and where: before ``FULL`` at least one item."""
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
    """Where the content of an item begins, and its size, 0 where it says none; (``end``, 0) where the header is cut."""
    head = data[at : min(at + 20, end)].tobytes()
    tag, begin = varint(head, 0)
    size, begin = varint(head, begin) if begin >= 0 and tag & 7 == LENGTH else (0, begin)
    return (at + begin, size) if begin >= 0 else (end, 0)
