"""Ascend's output folders with bytes of any of their files changed: every try opens or is refused.

    python tests/loaders/fuzz_ascend.py TRIES FOLDER...
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from fuzz_files import Done, changed, fuzz, main

from warplens.loaders.ascend import LOADER


def run(folders: list[Path], seed: int, until: Callable[[int], bool]) -> Done:
    """Change bytes of one or two files of a folder (``*_ascend_pt``) until ``until`` says so."""
    def place(folder: Path, chance: random.Random) -> Path:
        copy = folder / "run"
        shutil.copytree(chance.choice(folders), copy)
        files = sorted(file for file in copy.rglob("*") if file.is_file())
        details = next(file for file in files if file.name == LOADER.directory_file)
        for file in {details, chance.choice(files)} if chance.random() < 0.5 else {chance.choice(files)}:
            file.chmod(0o600)
            file.write_bytes(changed(file.read_bytes(), chance))
        if chance.random() < 0.9:  # the trace is read by Kineto's reader, which has a target of its own
            (details.parent / "trace_view.json").unlink()
        return details

    return fuzz(LOADER, place, seed, until)


if __name__ == "__main__":
    main(lambda seed, until: run([Path(name) for name in sys.argv[2:]], seed, until), int(sys.argv[1]))
