"""What to open instead of a folder that is no recording itself: the runs under it, by the names to type."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from ..discovery import discover

_MOST = 4


def runs_under(folder: Path, known: Sequence[Path] = ()) -> str:
    """A sentence that names the first runs under the folder, of those ``known`` or of what lies there; '' for none."""
    found = list(known) or [one.path for one in islice(discover(folder), _MOST + 1)]
    if not found:
        return ""
    named = list(dict.fromkeys(os.path.relpath(path, folder) for path in found))
    tail = ", …" if len(named) > _MOST else ""
    return f"Name one: {', '.join(os.path.join(folder, name) for name in named[:_MOST])}{tail}."
