"""Pages of real exports with bytes changed, through both ways to decode records: what one says the other must.

    python tests/fuzzing/fuzz_nsys.py MINUTES FILE...

The compiled way gets its data flush with memory that must not be touched.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from fuzz_kineto import Guarded
from kept_code import compiled

from warplens.loaders.native.functions import Native, from_bytes, to_bytes
from warplens.loaders.nsys import arrays
from warplens.loaders.nsys.block import RecordBlock, Unusual
from warplens.loaders.nsys.database import NsysDatabase
from warplens.loaders.nsys.layout import PAD
from warplens.loaders.nsys.pages import Pages
from warplens.loaders.nsys.program import DECODER
from warplens.loaders.nsys.records import Records

Answer = list[object] | None
_PAGES = 6


@cache
def native() -> Native:
    """The compiled function through the form in which it is kept."""
    from warplens.loaders.native import emit  # imports numba, which takes as long as all else together

    code = emit.packed(compiled(DECODER))
    return Native(from_bytes(to_bytes(code)), DECODER.names)


WAYS = {"arrays": lambda: arrays.decoded, "compiled": lambda: Records(native()).decoded}
"""What makes each of the ways to decode records."""


def answer(decode: Callable[[], RecordBlock], texts: list[int]) -> Answer:
    """Everything a way to decode gives, or None where it leaves the records to SQLite."""
    try:
        block = decode()
        out: list[object] = [block.rowids.tolist()]
        for at, column in sorted(block.columns.items()):
            valid = column.valid.tolist()
            if at in texts:
                out.append(block.text(at))
                continue
            floats = column.floats().view(np.int64).tolist()
            try:
                values = column.integers().tolist()
            except Unusual:
                values = None
            for given in (floats, values):
                out.append(given and [value if there else None for value, there in zip(given, valid, strict=True)])
    except (Unusual, IndexError):  # ``Pages`` takes the second for the first
        return None
    return out


def compare(pages: Pages, data: bytes, leaves: list[int], guarded: Guarded, ints: list[int], texts: list[int]) -> bool:
    """Whether both ways decode these pages, and the same; AssertionError where they differ."""
    held = np.frombuffer(guarded.holding(data, PAD), dtype=np.uint8)
    held[len(data) :] = 0
    try:
        cells, ends = pages.cells(held, np.array(leaves, dtype=np.int64))
    except (Unusual, IndexError):
        return False
    asked = held, cells, ends, pages.usable - 35, ints, texts
    left = answer(lambda: arrays.decoded(*asked), texts)
    right = answer(lambda: Records(native()).decoded(*asked), texts)
    assert left == right, (leaves, ints, texts)
    return left is not None


def fuzz(files: list[Path], seed: int, until: Callable[[int], bool]) -> tuple[int, int]:
    """Change bytes until ``until`` says so of the number of tries; (tries, how many were decoded)."""
    chance, guarded, tries, decoded = random.Random(seed), Guarded(256), 0, 0
    opened = [NsysDatabase(file) for file in files]
    tables = [(database, name) for database in opened for name in database.tables if database._pages is not None]
    while not until(tries):
        database, name = chance.choice(tables)
        pages, columns = database._pages, list(range(len(database.tables[name])))
        assert pages is not None
        try:
            found = pages.leaves(database._roots[name])
        except Unusual:
            continue
        first = chance.randrange(len(found))
        leaves = found[first : first + min(_PAGES, guarded.size // pages.size - 1)]
        data = bytearray(pages._read(leaves)[: len(leaves) * pages.size])
        for _ in range(chance.choice((0, 1, 1, 2, 5, 40))):
            at = chance.randrange(len(data))
            data[at] = chance.choice((0, 1, 7, 8, 9, 12, 13, 127, 128, 255, data[at] ^ 1 << chance.randrange(8)))
        texts = chance.sample(columns, chance.randrange(len(columns) + 1)) if chance.random() < 0.5 else []
        ints = [column for column in columns if column not in texts and chance.random() < 0.8]
        decoded += compare(pages, bytes(data), leaves.tolist(), guarded, ints, texts)
        tries += 1
    for database in opened:
        database.close()
    return tries, decoded


if __name__ == "__main__":
    end = time.monotonic() + 60 * float(sys.argv[1])
    began = int(time.time())
    print(f"seed {began}", flush=True)
    done = fuzz([Path(name) for name in sys.argv[2:]], began, lambda _: time.monotonic() > end)
    print(f"{done[0]} tries, {done[1]} decoded, no difference")
