"""Rows of one tick that nothing tells apart: GPUs without an index, in the order of their rows.

A monitor writes one row per device at each tick, milliseconds apart. Equal numbers of rows in every tick are that many
devices in their order; if the number changes, which row is whose is unknown, and nothing may be averaged.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from .times import Times

_APART = 4  # Distances within a tick are at most a fourth of the usual distance between ticks.
_FEWEST = 2  # Ticks from which a log is divided.


class Ordered(Struct, frozen=True):
    """The device of each row, the sentence that says how it is known, and whether rows of several are mixed."""

    devices: pl.Series | None
    note: str
    mixed: bool = False


def ordered(at: Times | None, products: pl.Series | None) -> Ordered | None:
    """The devices of a table's rows that name none; None if each tick has one row. ``products`` are their models."""
    if at is None or at.ns.null_count() or len(at.ns) < 2 * _FEWEST:
        return None
    ticks = _ticks(at.ns.to_numpy())
    counts = np.bincount(ticks)
    if len(counts) < _FEWEST or int(np.median(counts)) < 2:
        return None
    most = int(counts.max())
    place = np.arange(len(ticks)) - np.concatenate([[0], np.cumsum(counts)[:-1]])[ticks]
    if (counts == most).all():
        names = pl.Series([f"GPU {number}" for number in place.tolist()], dtype=pl.String)
        return Ordered(names, f"no index: {most} rows per tick, told apart by their order")
    if products is not None and pl.DataFrame({"t": ticks, "p": products}).is_unique().all():
        return Ordered(products.str.strip_chars(), "no index: rows of a tick are told apart by their model")
    return Ordered(None, f"no index, and {int(counts.min())} to {most} rows per tick: they cannot be told apart, so "
                   "they have no mean", mixed=True)


def _ticks(moments: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The number of the tick of each row: a tick ends where the distance to the next row is no longer small."""
    steps = np.diff(moments)
    positive = np.sort(steps[steps > 0])
    if not len(positive) or (steps < 0).any():
        return np.arange(len(moments))
    jumps = positive[1:] / positive[:-1]
    wide = positive[0] if (steps == 0).any() and (not len(jumps) or jumps.max() < _APART) else None
    if wide is None and len(jumps) and jumps.max() >= _APART:
        wide = positive[int(jumps.argmax()) + 1]
    if wide is None:
        return np.arange(len(moments))
    large = steps[steps >= wide]
    if len(large) and large.max() > 3 * np.median(large) and not (steps == 0).any():
        return np.arange(len(moments))  # a pause in a log of one device is no tick
    return np.concatenate([[0], np.cumsum(steps >= wide)])
