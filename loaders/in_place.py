"""Which folders hold tables that are read where they lie: known by a file, without importing whoever reads them.

The app asks this before anything heavy is imported.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

IN_PLACE = {"dataset.json": ("dataset", b'{"format":"warplens-dataset"')}
"""By the name of that file (``directory_file``) the module of its loader, and how the file begins."""


def in_place(path: Path) -> Path | None:
    """The file by which that folder, or which itself, is tables to be read where they lie; None for anything else."""
    for name, (_, beginning) in IN_PLACE.items():
        file = path if path.name == name else path / name
        with suppress(OSError):
            if file.is_file():
                with file.open("rb") as source:
                    if source.read(len(beginning)) == beginning:
                        return file
    return None
