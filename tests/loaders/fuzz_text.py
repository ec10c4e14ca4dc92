"""Text recordings with bytes changed: every try opens or is refused.

    python tests/loaders/fuzz_text.py TRIES FILE...

The files may be of any format made of one text file each: reports of nsys stats and of Nsight Compute, tables.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

from fuzz_files import Done, changed, fuzz, main

from warplens.loaders import registry
from warplens.loaders.ingest import stream
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import Trace


class Chosen(FormatLoader):
    """The loader of the file that was last changed."""

    loader: FormatLoader

    def load(self, job: Job) -> tuple[Trace, ...]:
        """What that one makes of it."""
        return self.loader.load(job)


def run(files: list[Path], seed: int, until: Callable[[int], bool]) -> Done:
    """Change bytes of the files until ``until`` says so."""
    known = [(file.name, file.read_bytes(), registry.claims(stream.head(file))[0]) for file in files]
    chosen = Chosen()

    def place(folder: Path, chance: random.Random) -> Path:
        name, data, chosen.loader = chance.choice(known)
        path = folder / name
        path.write_bytes(changed(data, chance))
        return path

    return fuzz(chosen, place, seed, until)


if __name__ == "__main__":
    main(lambda seed, until: run([Path(name) for name in sys.argv[2:]], seed, until), int(sys.argv[1]))
