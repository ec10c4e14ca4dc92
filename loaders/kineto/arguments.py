"""All arguments of one event, read again from the file when somebody asks for them.

The tables keep an event's byte offset instead of its shapes and stacks, which are most of a trace. In a compressed
file the offset counts decompressed bytes, and everything before it is decompressed again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..ingest.stream import Source
from .columns import name_text
from .decode import decode, plain_numbers
from .document import extent
from .recovery import LONGEST_EVENT

_FIRST = 64 << 10


def arguments(path: str | Path, offset: int, name: str | None = None) -> dict[str, Any]:
    """The ``args`` of the event at ``offset`` (column ``offset`` of kernels and host); {} where there are none. Raises
    OSError as ``open`` does and ValueError where no event (of that name) begins there, as when the file has changed."""
    with Source(path) as source:
        source.skip(offset)
        data = source.read(_FIRST)
        while data.startswith(b"{"):
            end = extent(data, 0)
            if end >= 0:
                event, _ = decode(data[:end])
                if name is not None and name_text(event.get("name")) != name:
                    break
                recorded = event.get("args")
                return plain_numbers(recorded) if isinstance(recorded, dict) else {}
            more = source.read(len(data)) if len(data) < LONGEST_EVENT else b""
            if not more:
                break
            data += more
    raise ValueError(f"no event begins at byte {offset:,}")
