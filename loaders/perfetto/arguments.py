"""All annotations of one event, read again from the file when somebody asks for them.

Its texts may be numbers that earlier packets gave, so the trace is read again from its beginning up to there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..ingest.stream import Source, head
from ..kineto.columns import Strings
from ..protobuf.stretches import Stretches
from ..protobuf.walk import walk_for
from .events import Begins, events_of
from .packets import PACKETS
from .sequences import Sequences
from .unpack import Unpacked, has_compressed


def arguments(path: Path, offset: int, name: str) -> dict[str, Any]:
    """The annotations of the event of that name in the packet whose content begins at ``offset``. Raises OSError as
    ``open`` does, ValueError where no such event begins there."""
    strings = Strings()
    sequences = Sequences(strings)
    begins = Begins(strings, sequences)
    compressed = has_compressed(head(path))
    with Source(path) as source:
        walk = walk_for(offset, True)
        for stretch in Stretches(PACKETS, walk).over((Unpacked(source) if compressed else source).readinto):
            tokens = stretch.tokens
            if not tokens.count("packet"):
                continue
            events = events_of(tokens, sequences)
            if stretch.end <= offset:
                continue
            indices = stretch.base + tokens.field("packet").values[events.packet]
            for row in np.flatnonzero(indices == offset).tolist():
                if strings.texts[begins.names(tokens, events)[row]] == name:
                    return begins.annotations.whole(tokens, events.span, {row}).get(row, {})
            break
    raise ValueError(f"no event begins at byte {offset:,}")
