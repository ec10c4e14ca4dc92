"""Ascend's output folders with bytes of any file changed, and its database with cells: every try opens or is refused.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from fuzz_databases import confused
from fuzz_files import Target, changed

from warplens.loaders.ascend import DATABASE, LOADER


def target(folders: list[Path]) -> Target:
    """Folders (``*_ascend_pt``) with bytes of one or two files changed."""
    originals = [{file.relative_to(folder): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
                 for folder in folders]

    def place(base: Path, chance: random.Random) -> Path:
        folder, files = base / "run", chance.choice(originals)
        shutil.rmtree(folder, ignore_errors=True)
        details = next(name for name in files if name.name == LOADER.directory_file)
        broken = {chance.choice(list(files)), *([details] if chance.random() < 0.5 else [])}
        for name, data in files.items():
            if name.name == "trace_view.json" and chance.random() < 0.9:
                continue  # it is read by Kineto's reader, which has a target of its own
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(changed(data, chance) if name in broken else data)
        return folder / details

    return Target(LOADER, place)


def database_target(sample: Path) -> Target:
    """The database: cells of wrong types, rows, tables and columns gone, bytes changed."""
    data = sample.read_bytes()

    def place(folder: Path, chance: random.Random) -> Path:
        path = folder / sample.name
        path.write_bytes(confused(data, chance) if chance.random() < 0.6 else changed(data, chance))
        return path

    return Target(DATABASE, place)
