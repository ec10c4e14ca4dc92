"""The arguments of one event, reread from its file on request: shapes, stacks and everything not in the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import registry
from ..errors import Unreadable
from ..trace import Info


def arguments(info: Info, rank: int | None, offset: int, name: str) -> dict[str, Any]:
    """The arguments of the event ``name`` at byte ``offset`` (the column ``offset``) of the file of ``rank``.

    Raises Unreadable if the file is missing or has changed, or if its format has no offsets.
    """
    file = info.facts.get("files", {}).get(str(rank), info.source)
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
