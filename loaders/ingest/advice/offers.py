"""What to open instead: the runs under a folder that is none itself, the folder of a file that is a part of one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ... import registry
from ..discovery import discover

_MOST = 4


def runs_under(folder: Path, known: Sequence[Path] = ()) -> str:
    """A sentence that names the first runs under the folder, of those ``known`` or of what lies there; '' for none."""
    runs = list(known) or [one.path for one in islice(discover(folder), _MOST + 1)]
    if not runs:
        return ""
    names = list(dict.fromkeys(os.path.relpath(path, folder) for path in runs))
    tail = ", …" if len(names) > _MOST else ""
    return f"Name one: {', '.join(os.path.join(folder, name) for name in names[:_MOST])}{tail}."


def part_of(path: Path) -> tuple[str, str] | None:
    """What a file is that lies beside the one its folder is known by, and to open the folder; None for any other."""
    for loader in registry.loaders():
        for folder in (path.parent, path.parent / (loader.directory_within or "")):
            if loader.directory_file and path.name != loader.directory_file and (
                folder / loader.directory_file).is_file() and (folder == path.parent or loader.directory_within):
                return (f"is a part of the {loader.name} recording in its folder, and no trace by itself",
                        f"Open the folder: {path.parent}")
    return None
