"""XLA profiles with bytes changed: both walks say the same, and every try opens or is refused.

    python tests/loaders/fuzz_xla.py TRIES FILE...
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

from fuzz_files import Done, changed, fuzz, main
from walks import Compared

from warplens.loaders.xla import LOADER, events, read, space


def run(files: list[Path], seed: int, until: Callable[[int], bool]) -> Done:
    """Change bytes of the files until ``until`` says so."""
    compared, data = Compared(events.EVENTS, space.NAMES, space.HEADER), [file.read_bytes() for file in files]

    def place(folder: Path, chance: random.Random) -> Path:
        made = changed(chance.choice(data), chance)
        walk = compared.sometimes(made, chance)
        read.walk_for = lambda size, allowed: walk
        path = folder / "fuzz.xplane.pb"
        path.write_bytes(made)
        return path

    return fuzz(LOADER, place, seed, until)


if __name__ == "__main__":
    main(lambda seed, until: run([Path(name) for name in sys.argv[2:]], seed, until), int(sys.argv[1]))
