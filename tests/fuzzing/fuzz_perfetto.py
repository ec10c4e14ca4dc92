"""Perfetto traces with bytes changed: both walks say the same, and every try opens or is refused.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

from fuzz_files import Target, changed
from walks import Compared

from warplens.loaders.perfetto import LOADER, read
from warplens.loaders.perfetto.packets import PACKETS


def target(files: list[Path]) -> Target:
    """The files with bytes changed; of compressed ones sometimes what is inside."""
    compared, data = Compared(PACKETS), [file.read_bytes() for file in files]
    data += [gzip.decompress(each) for each in data if each.startswith(b"\x1f\x8b")]

    def place(folder: Path, chance: random.Random) -> Path:
        made = changed(chance.choice(data), chance)
        walk = compared.sometimes(made, chance)
        read.walk_for = lambda size, allowed: walk
        path = folder / "fuzz.pftrace"
        path.write_bytes(made)
        return path

    return Target(LOADER, place)
