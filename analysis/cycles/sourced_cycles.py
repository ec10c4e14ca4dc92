"""What a source of cycles gives: the cycles and where they are from."""

from __future__ import annotations

import polars as pl
from msgspec import Struct

LIMITED = "limited"
"""In the facts of a run that is part of another: the cycles in its table are all there are, even if it has none."""


class SourcedCycles(Struct, frozen=True):
    """Cycles and where they are from: ``frame`` in the schema of ``cycles``, the ``anchor`` they are taken from.

    ``device_time`` is true where bounds are device times, so that an activity belongs to the cycle it runs in, not to
    the one it was launched in. ``certain`` cycles were marked as such; others must hold most of the device time.
    ``guessed`` cycles were marked by nobody: something repeats, and that may be an iteration (see ``guess``).
    ``notes`` say what a reader must know.
    """

    frame: pl.DataFrame
    source: str
    anchor: str | None
    device_time: bool = False
    certain: bool = True
    guessed: bool = False
    notes: tuple[str, ...] = ()
