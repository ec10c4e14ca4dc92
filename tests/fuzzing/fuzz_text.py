"""Text recordings with bytes and cells changed: every try opens or is refused.

The files may be of any format made of one text file each: reports of nsys stats and of Nsight Compute, kernel tables,
comparisons, aggregated views.
"""

from __future__ import annotations

import random
from pathlib import Path

from fuzz_counters import worded
from fuzz_files import Handed, Target, changed

from warplens.loaders import registry
from warplens.loaders.ingest import stream
from warplens.loaders.loader import FormatLoader, Job
from warplens.loaders.trace import Trace

_LONGEST = 6000
"""Bytes of a file that are kept: its first lines."""


class Chosen(Handed):
    """The loader of the file that was last changed."""

    name, title, suffixes, version = "chosen", "the one of the file", (), 1
    loader: FormatLoader

    def load(self, job: Job) -> tuple[Trace, ...]:
        """What that one makes of it."""
        return self.loader.load(job)


def shortened(data: bytes) -> bytes:
    """The first lines."""
    return data if len(data) <= _LONGEST else data[: data.rindex(b"\n", 0, _LONGEST) + 1]


def target(files: list[Path]) -> Target:
    """The files with words and bytes changed."""
    known = [(file.name, shortened(file.read_bytes()), registry.claims(stream.head(file))[0]) for file in files]
    chosen = Chosen()

    def place(folder: Path, chance: random.Random) -> Path:
        name, data, chosen.loader = chance.choice(known)
        path, words = folder / name, chance.random() < 0.4
        data = worded(data, chance) if words else data
        path.write_bytes(data if words and chance.random() < 0.5 else changed(data, chance))
        return path

    return Target(chosen, place)
