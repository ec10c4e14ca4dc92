"""The result of a cycle source, and whether guessed cycles explain enough of a recording to be used.

Recorded steps and annotations are facts. Repetition without marks (of a host function, executions of a compiled
program, a pattern of kernels) is a guess and labelled so. A guess that covers little of the recording, or mixes cycles
that cannot be the same work, is listed but not used.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import units
from ..core.intervals import union
from . import assignment

LIMITED = "limited"
"""Key in the facts of a run that is part of another: its table has all its cycles, even if that is none."""
WINDOWED = "windowed"
"""Key in the facts of a run limited to a time window, which may cut its first and last cycle."""


class SourcedCycles(Struct, frozen=True):
    """Cycles and their source: ``frame`` in the schema of ``cycles``, and the ``anchor`` they are taken from.

    ``device_time``: bounds are device times, so that an activity belongs to the cycle it runs in, not to the one it was
    launched in. ``certain`` cycles were marked as such; others must contain most of the device time. ``guessed`` cycles
    are not marked: something repeats that may be an iteration (see ``why_ignored``). ``notes`` are for the user.
    """

    frame: pl.DataFrame
    source: str
    anchor: str | None
    device_time: bool = False
    certain: bool = True
    guessed: bool = False
    notes: tuple[str, ...] = ()


LEAST_COVER = 0.5
"""Guessed cycles must cover at least this share of the time between the first and the last activity..."""
MOST_APART = 10  # ...and within one kind the longest takes less than this many times the shortest.
GUESSED = "guessed cycles"
"""Key in the facts of a run that is part of another: whether the cycles in its table are a guess."""
SOURCES = ("execution", "pattern")  # Sources that are always a guess, also when the cycles are read back from a file.


def why_ignored(run: Trace, frame: pl.DataFrame, held: float | None) -> str | None:
    """Why these guessed cycles are not used, as the end of a sentence; None where they are. ``frame`` has the columns
    of ``detection``; ``held`` is the share of device time in cycles, used without timestamps."""
    spans = frame.group_by(pl.col("kind").cast(pl.String)).agg(
        shortest=pl.col("dur_ns").min(), longest=pl.col("dur_ns").max())
    for kind, shortest, longest in spans.sort("kind").iter_rows():
        if longest >= MOST_APART * max(shortest, 1):
            which = f"{kind}s" if spans.height > 1 else "they"
            return f"{which} take from {units.duration(shortest)} to {units.duration(longest)}"
    cover = held if frame["start_ns"].null_count() else _cover(run, frame)
    if cover is not None and cover < LEAST_COVER:
        share = units.percent(100 * cover, places=0)
        return f"they cover {share} of the time from the first to the last activity"
    return None


def _cover(run: Trace, frame: pl.DataFrame) -> float | None:
    """Share of the time from the first to the last activity, summed over ranks, that lies in cycles."""
    bounds = _bounds(run.kernels.filter(pl.col("kind") != "sync"))
    if bounds.is_empty():
        bounds = _bounds(run.host)
    inside = total = 0
    for rank, first, last in bounds.iter_rows():
        matching = frame if rank is None else frame.filter(pl.col("rank").is_null() | (pl.col("rank") == rank))
        windows = union(*(matching[name].to_numpy() for name in assignment.WINDOW))
        inside += int(windows.within(np.array([first]), np.array([last]))[0])
        total += last - first
    return inside / total if total else None


def _bounds(table: pl.LazyFrame) -> pl.DataFrame:
    """``rank first last``: the first start and last end (ns) per rank."""
    return table.group_by("rank").agg(
        first=pl.col("start_ns").min(), last=(pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).max(),
    ).drop_nulls(["first", "last"]).collect(engine="streaming")
