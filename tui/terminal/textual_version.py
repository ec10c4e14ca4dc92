"""The version of Textual whose inside ``wire`` and ``quiet`` know.

Asking for a version the usual way imports a parser of mail headers, 15 ms before the first frame, so the name of the
folder in which an installer notes what it installed is asked first.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import textual

TESTED = "8.2.8"


@cache
def tested() -> bool:
    """Whether that version is the one installed."""
    return known(Path(textual.__file__).parent.parent)


def known(packages: Path) -> bool:
    """Whether it is the version in that folder of packages, or says so of itself where no installer left a note."""
    notes = [note.name for note in packages.glob("textual-*.dist-info")]
    return f"textual-{TESTED}.dist-info" in notes if notes else textual.__version__ == TESTED
