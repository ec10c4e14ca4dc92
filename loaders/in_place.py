"""Recognises folders whose tables are read in place, by a marker file and without importing their loader.

The app calls this before anything heavy is imported.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

IN_PLACE = {"dataset.json": ("dataset", b'{"format":"warplens-dataset"')}
"""Marker file name (``directory_file``) → the loader's module, and the bytes the file begins with."""


def in_place(path: Path) -> Path | None:
    """The marker file, if ``path`` is one or is a folder that contains one; else None."""
    for name, (_, beginning) in IN_PLACE.items():
        file = path if path.name == name else path / name
        with suppress(OSError):
            if file.is_file():
                with file.open("rb") as source:
                    if source.read(len(beginning)) == beginning:
                        return file
    return None
