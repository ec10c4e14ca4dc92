"""How far the clocks of a job's members are apart, told by the collectives that end for all of them at once.

A member's offset is the median, over its collectives, of its end less the end that the others agree on; what is left of
those differences says how well it is known. Members that share no collective, not even through others, have clocks that
nothing brings together: each such set is counted from its own first member.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from . import kinds

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
LEAST = 3  # Collectives that say how well a clock is known; fewer agree by themselves.
_ROUNDS = 2
_TO_DEVIATION = 1.4826  # From the median of absolute deviations to the standard deviation of a normal distribution.


class Clocks(Struct, frozen=True):
    """By member, in ns: how far its clock is ahead of the first one's, and the spread of what was measured. NaN where a
    member shares no collective (``offset``), or too few to tell (``residual``). ``sets`` numbers the sets of members
    that collectives bring together, from 0; -1 for members in none."""

    offset: Floats
    residual: Floats
    sets: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def apart(self) -> int:
        """How many sets of members there are that nothing brings together."""
        return int(self.sets.max(initial=-1)) + 1


def clocks_of(frame: pl.DataFrame, members: int) -> Clocks:
    """The clocks of so many members by their matched collectives (``instance member end_ns kind``)."""
    rows = frame.drop_nulls("instance")
    together = rows.filter(pl.col("kind").is_in(kinds.ENDS_TOGETHER))
    lacking = set(rows["member"]) - set(together["member"])
    rows = rows if lacking else together
    offset, sets = np.full(members, np.nan), np.full(members, -1, dtype=np.int64)
    residual = np.full(members, np.nan)
    if rows.is_empty():
        return Clocks(offset, residual, sets)
    zero = rows["end_ns"].min()
    rows = rows.select("instance", "member", end=(pl.col("end_ns") - pl.lit(zero)).cast(pl.Float64))
    for number in range(members):
        left = rows.filter(pl.col("member").is_in(np.flatnonzero(np.isnan(offset)).tolist()))
        if left.is_empty():
            break
        first = int(left["member"].to_numpy().min())
        offset[first], sets[first] = 0.0, number
        _spread(rows, offset, sets, number)
        mine = rows.filter(pl.col("member").is_in(np.flatnonzero(sets == number).tolist()))
        for _ in range(_ROUNDS):
            told = _apart(mine, offset).group_by("member").agg(pl.col("apart").median())
            offset[told["member"].to_numpy()] = told["apart"].to_numpy()
            offset[sets == number] -= offset[first]
    apart = _apart(rows, offset).with_columns(
        left=(pl.col("apart") - pl.lit(pl.Series(offset)).gather(pl.col("member"))).abs()
    )
    spread = apart.group_by("member").agg(pl.col("left").median() * _TO_DEVIATION, pl.len())
    enough = spread.filter(pl.col("len") >= LEAST)
    residual[enough["member"].to_numpy()] = enough["left"].to_numpy()
    return Clocks(offset, residual, sets)


def _apart(rows: pl.DataFrame, offset: Floats) -> pl.DataFrame:
    """The rows with ``apart``: the end by the member's own clock less the end its collective has for all."""
    own = pl.lit(pl.Series(offset)).gather(pl.col("member"))
    return rows.with_columns(at=pl.col("end") - own).with_columns(
        apart=pl.col("end") - pl.col("at").median().over("instance")
    )


def _spread(rows: pl.DataFrame, offset: Floats, sets: np.ndarray[tuple[int], np.dtype[np.int64]], number: int) -> None:
    """Give every member that collectives tie to the placed ones of a set its offset, in rounds outward."""
    while True:
        known = pl.col("member").is_in(np.flatnonzero(sets == number).tolist())
        own = pl.lit(pl.Series(offset)).gather(pl.col("member"))
        ends = rows.filter(known).with_columns(at=pl.col("end") - own).group_by("instance").agg(pl.col("at").median())
        new = rows.filter(~known).join(ends, on="instance").with_columns(apart=pl.col("end") - pl.col("at"))
        told = new.group_by("member").agg(pl.col("apart").median())
        if told.is_empty():
            return
        offset[told["member"].to_numpy()], sets[told["member"].to_numpy()] = told["apart"].to_numpy(), number
