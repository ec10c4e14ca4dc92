"""Memory snapshots with bytes and operations changed: every try opens or is refused, and nothing is ever called.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

from fuzz_files import Target, changed

from warplens.loaders.memory_snapshot import LOADER

_VALUES = (None, True, -1, 0, 2**63, 2**64 - 1, 1e300, "", "\ud800", "a" * 3000, [], {}, (0, 0), [[]], {"a": 1}, b"x")


def reshaped(value: Any, chance: random.Random, depth: int = 0) -> Any:
    """The containers with some values put in the place of others."""
    if chance.random() < 0.004:
        return chance.choice(_VALUES)
    if isinstance(value, dict) and depth < 8:
        return {key: reshaped(one, chance, depth + 1) for key, one in value.items() if chance.random() > 0.003}
    if isinstance(value, list) and depth < 8:
        made = [reshaped(one, chance, depth + 1) for one in value]
        return made * chance.choice((1, 1, 1, 1, 2)) if chance.random() < 0.05 else made
    return value


def target(files: list[Path]) -> Target:
    """The files with values, operations and bytes changed."""
    data = [file.read_bytes() for file in files]
    contents = [pickle.loads(one) for one in data]

    def place(folder: Path, chance: random.Random) -> Path:
        at = chance.randrange(len(data))
        made = data[at]
        if chance.random() < 0.5:
            made = pickle.dumps(reshaped(contents[at], chance), protocol=chance.choice((2, 3, 4, 5)))
        if chance.random() < 0.6:
            made = changed(made, chance)
        path = folder / "fuzz.pickle"
        path.write_bytes(made)
        return path

    return Target(LOADER, place)
