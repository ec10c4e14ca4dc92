"""The walk as a compiled program, and which of the two walks a load takes."""

from __future__ import annotations

import random
from pathlib import Path

from ..native.functions import Native
from ..native.program import Program
from . import plain
from .tokens import Bytes, Room, Walk

WALKER = Program(
    name="walker", module=f"{__package__}.walk", names=("walk",),
    sources=tuple(str(Path(__file__).with_name(f"{name}.py")) for name in ("layout", "walk")),
)  # fmt: skip
_COMPILED_BYTES = 500_000  # Bytes from which loading the compiled code is worth its time.
_PREPARED_BYTES = 4_000_000  # Bytes from which the walk is compiled for later loads.
_SEED = random.SystemRandom().getrandbits(62)


def in_python(data: Bytes, end: int, room: Room) -> int:
    """Walk in Python."""
    return plain.walk(data.data, end, room.shape, room)


def compiled(native: Native) -> Walk:
    """Walk compiled."""
    def run(data: Bytes, end: int, room: Room) -> int:
        shape = room.shape
        return native.call(
            "walk", data, end, shape.slots, shape.kinds, shape.inside, _SEED, room.state, room.counts, room.saved,
            room.stack, room.slots, room.owners, room.values, room.sizes, room.hashes,
        )  # fmt: skip

    return run


def walk_for(size: int, allowed: bool) -> Walk:
    """The walk for so many bytes: the compiled one where it exists and is worth loading."""
    if allowed and size >= _COMPILED_BYTES:
        if (native := WALKER.functions()) is not None:
            return compiled(native)
        if size >= _PREPARED_BYTES:
            WALKER.prepare()
    return in_python
