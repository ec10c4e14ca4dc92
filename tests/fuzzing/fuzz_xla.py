"""XLA profiles with bytes changed: both walks say the same, and every try opens or is refused.
"""

from __future__ import annotations

import random
from pathlib import Path

from fuzz_files import Target, changed
from walks import Compared

from warplens.loaders.xla import LOADER, events, read, space


def target(files: list[Path]) -> Target:
    """The files with bytes changed."""
    compared, data = Compared(events.EVENTS, space.NAMES, space.HEADER), [file.read_bytes() for file in files]

    def place(folder: Path, chance: random.Random) -> Path:
        made = changed(chance.choice(data), chance)
        walk = compared.sometimes(made, chance)
        read.walk_for = lambda size, allowed: walk
        path = folder / "fuzz.xplane.pb"
        path.write_bytes(made)
        return path

    return Target(LOADER, place)
