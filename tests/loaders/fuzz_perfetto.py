"""Perfetto traces with bytes changed: both walks say the same, and every try opens or is refused.

    python tests/loaders/fuzz_perfetto.py TRIES FILE...
"""

from __future__ import annotations

import gzip
import random
import sys
from collections.abc import Callable
from pathlib import Path

from fuzz_files import Done, changed, fuzz, main
from walks import Compared

from warplens.loaders.perfetto import LOADER, read
from warplens.loaders.perfetto.packets import PACKETS


def run(files: list[Path], seed: int, until: Callable[[int], bool]) -> Done:
    """Change bytes of the files until ``until`` says so; of compressed ones sometimes what is inside."""
    compared, data = Compared(PACKETS), [file.read_bytes() for file in files]
    data += [gzip.decompress(each) for each in data if each.startswith(b"\x1f\x8b")]

    def place(folder: Path, chance: random.Random) -> Path:
        made = changed(chance.choice(data), chance)
        walk = compared.sometimes(made, chance)
        read.walk_for = lambda size, allowed: walk
        path = folder / "fuzz.pftrace"
        path.write_bytes(made)
        return path

    return fuzz(LOADER, place, seed, until)


if __name__ == "__main__":
    main(lambda seed, until: run([Path(name) for name in sys.argv[2:]], seed, until), int(sys.argv[1]))
