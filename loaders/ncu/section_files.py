"""Section files: one profile in pages, as ``NAME.details.csv``, ``NAME.metrics.csv``, ``NAME.section_X.csv``.

All of them speak of the same launches, so together they are one recording.
"""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = re.compile(r"(?P<name>.+)\.(?P<page>details|metrics|raw|source|section_\w+)\.csv(?P<zip>\.gz|\.zst)?\Z")


def beside(path: Path) -> tuple[Path, ...]:
    """The other pages of the profile that are there."""
    mine = _PAGE.match(path.name)
    if mine is None:
        return ()
    found = []
    for file in sorted(path.parent.iterdir()):
        page = _PAGE.match(file.name)
        if page is not None and page["name"] == mine["name"] and file.name != path.name and file.is_file():
            found.append(file)
    return tuple(found)


def leads(path: Path) -> bool:
    """Whether the file stands for the profile: the details where they are there, else the first page."""
    mine = _PAGE.match(path.name)
    return mine is None or not any(_rank(other) < _rank(path) for other in beside(path))


def _rank(path: Path) -> tuple[bool, str]:
    return ".details.csv" not in path.name, path.name
