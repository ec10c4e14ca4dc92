"""The arguments of one event, reread from its file on request: shapes, stacks and everything not in the tables."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from .. import registry
from ..errors import Unreadable
from ..trace import Info


def arguments(info: Info, rank: int | None, offset: int, name: str) -> dict[str, Any]:
    """The arguments of the event ``name`` at byte ``offset`` (the column ``offset``) of the file of ``rank``.

    Raises Unreadable if the file is missing or has changed, or if its format has no offsets.
    """
    file = file_of(info, rank)
    for loader in registry.loaders():
        if loader.name != info.format:
            continue
        try:
            recorded = loader.arguments(Path(file), offset, name)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise Unreadable(file, f"cannot be read again ({why})", "Arguments are in the file only.") from None
        except ValueError:
            raise Unreadable(file, "has changed since it was opened", "Open it again.") from None
        if recorded is not None:
            return recorded
    raise Unreadable(file, "has a format without event arguments", "")


def file_of(info: Info, rank: int | str | None) -> str:
    """The file of a rank. A path that a recording names itself is followed only below that recording's folder, links
    resolved, and only to a regular file. Raises Unreadable."""
    listed = info.facts.get("files")
    named = listed.get(str(rank)) if isinstance(listed, dict) else None
    if not isinstance(named, str) or named == info.source:
        return info.source
    folder = Path(os.path.realpath(info.source))
    folder = folder if folder.is_dir() else folder.parent
    places = [Path(os.path.realpath(place)) for place in (named, folder / named)]
    file = next((place for place in places if folder in place.parents and os.path.lexists(place)), None)
    if file is None:
        raise Unreadable(named, "has the event's arguments and is outside this folder", "Open that file.")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise Unreadable(named, f"has the event's arguments and cannot be read here ({(error.strerror or '').lower()})",
                         "Open that file.") from None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
    if not regular:
        raise Unreadable(named, "is no regular file", "Event arguments are read from recordings only.")
    return str(file)
