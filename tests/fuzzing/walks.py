"""Both walks over the same bytes: what one finds the other must.

The compiled one gets its data flush with memory that must not be touched.
"""

from __future__ import annotations

import random
from functools import cache

import kept_code
import numpy as np
from fuzz_kineto import Guarded

from warplens.loaders.native.functions import Native
from warplens.loaders.protobuf import walk as walks_of
from warplens.loaders.protobuf.layout import AT, PAD, TEXT, TOKENS
from warplens.loaders.protobuf.tokens import Room, Shape, Walk


@cache
def native() -> Native:
    """The compiled walk."""
    return kept_code.native(walks_of.WALKER)


def answer(walk: Walk, data: np.ndarray[tuple[int], np.dtype[np.uint8]], at: int, end: int, room: Room) -> list[object]:
    """All a walk leaves behind, but for the hashes, which each makes its own way: of those, which are alike."""
    room.state[:] = 0
    room.counts[:] = 0
    room.state[AT] = at
    why, found = walk(data, end, room), int(room.state[TOKENS])
    texts = room.shape.kinds[room.slots[:found]] == TEXT
    alike = np.unique(np.where(texts, room.hashes[:found], 0), return_inverse=True)[1]
    _, first = np.unique(alike, return_index=True)
    columns = (room.slots, room.owners, room.values, room.sizes)
    names = first[alike].tolist()
    return [why, room.state.tolist(), room.counts.tolist(), names, *(column[:found].tolist() for column in columns)]


class Compared:
    """Compares the walks over shapes, in as little memory as their data takes."""

    def __init__(self, *shapes: Shape) -> None:
        self._shapes, self._guarded = shapes, Guarded(256)

    def sometimes(self, data: bytes, chance: random.Random) -> Walk:
        """The walk to load these bytes with; one time in eight they are compared first, and the slow one taken."""
        if chance.random() < 0.875:
            return walks_of.compiled(native())
        plain, quick = self.both(data, chance)
        assert plain == quick
        return walks_of.in_python

    def both(self, data: bytes, chance: random.Random) -> tuple[list[object], list[object]]:
        """What the two walks leave behind of these bytes, from some place on, with some room."""
        data = data[: self._guarded.size - PAD]
        held = np.frombuffer(self._guarded.holding(data, PAD), dtype=np.uint8)
        held[len(data) :] = 0
        shape, at = chance.choice(self._shapes), chance.choice((0, 0, 0, chance.randrange(len(data) + 1)))
        room = chance.choice((40, 400, 4 * len(data) + 64))
        walks = walks_of.in_python, walks_of.compiled(native())
        plain, quick = (answer(walk, held, at, len(data), Room(shape, room)) for walk in walks)
        return plain, quick
