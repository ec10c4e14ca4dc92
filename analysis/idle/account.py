"""The account of a cycle: every nanosecond of it on one device has one owner, so that the owners sum to its length.

Owners are, in this order: the kernels that compute (equal shares where several run), else collectives (so that theirs
is their exposed time), else copies and sets, else the cause of the idle time. A hidden kernel that takes longer owns
more, and the idle time it covers owns as much less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.call_tree import Ints
from ..cycles.detection import find_cycles
from .attribution import AT_ONCE, by_cause, launches_of
from .cause_meanings import CAUSES
from .gaps import gaps_of
from .host import host_of

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Owner = tuple[str, str]
"""Kind and name: those of an activity, or ``idle`` and a cause."""
IDLE = "idle"
_CLASSES = {"kernel": 0, "collective": 1, "memcpy": 2, "memset": 2}
_COLUMNS = ("index", "start_ns", "dur_ns", "name", "kind", "device", "rank")


class Account(Struct, frozen=True):
    """The time of each owner in each of these ``cycles`` (numbers) of one device, ms; the sums are the lengths."""

    device: str | None
    cycles: tuple[int, ...]
    owners: dict[Owner, Floats]

    @property
    def lengths(self) -> Floats:
        """The length of each cycle, ms."""
        return sum(self.owners.values(), np.zeros(len(self.cycles)))


def pieces_of(run: Trace, options: Options, rank: int | None, device: str | None) -> pl.DataFrame:
    """``cycle from_ns to_ns``: the stretches of time that belong to each cycle on a device, in order of time."""
    cycles = find_cycles(run, options)
    parts = cycles.times.parts.filter(
        pl.col("device").cast(pl.String).eq_missing(pl.lit(device, pl.String)), pl.col("row").is_not_null(),
        pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank))
    numbers = cycles.frame.select(pl.col("row").cast(pl.Int64), pl.col("cycle").cast(pl.Int64))
    return parts.join(numbers, on="row", maintain_order="left").select("cycle", "from_ns", "to_ns").sort("from_ns")


def account_of(
    run: Trace, options: Options, rank: int | None, device: str | None, numbers: Sequence[int]
) -> Account | None:
    """The account of the cycles with these numbers; None without a timeline of that device."""
    if run.has("profile") or not run.has("kernels"):
        return None
    pieces = pieces_of(run, options, rank, device).filter(pl.col("cycle").is_in(list(numbers)))
    if pieces.is_empty() or pieces["cycle"].n_unique() < len(set(numbers)):
        return None
    owners = account_in(run, rank, device, pieces, numbers)
    if owners is None:
        return None
    return Account(device, tuple(numbers), {owner: ns / 1e6 for owner, ns in owners.items()})


def account_in(
    run: Trace, rank: int | None, device: str | None, pieces: pl.DataFrame, numbers: Sequence[int]
) -> dict[Owner, Floats] | None:
    """The time (ns) of each owner in each of ``numbers``, of which ``pieces`` (``cycle from_ns to_ns``, in order of
    time) are the stretches; None without activities of that device, or where stretches overlap."""
    wanted = pl.col("device").cast(pl.String).eq_missing(pl.lit(device, pl.String)) & pl.col("kind").is_in(
        list(_CLASSES))
    if rank is not None:
        wanted &= pl.col("rank") == rank
    every = run.kernels.filter(wanted).select(*_COLUMNS).drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    begin, end = pieces["from_ns"].to_numpy(), pieces["to_ns"].to_numpy()
    if every.is_empty() or not len(begin) or (begin[1:] < end[:-1]).any():
        return None  # cycles that overlap have no division of their time
    place = {number: at for at, number in enumerate(numbers)}
    cycle = pieces["cycle"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
    owners = _of_activities(every, begin, end, cycle, len(numbers))
    return owners | _of_idle_time(run, every, begin, end, cycle, len(numbers))


def _of_activities(every: pl.DataFrame, begin: Ints, end: Ints, cycle: Ints, count: int) -> dict[Owner, Floats]:
    """Per activity name and kind, the time (ns) it owns in each of ``count`` cycles."""
    starts = every["start_ns"].to_numpy()
    ends = starts + np.maximum(every["dur_ns"].to_numpy(), 0)
    kinds = every["kind"].cast(pl.String)
    classes = kinds.replace_strict(_CLASSES, return_dtype=pl.Int64).to_numpy()
    points = np.unique(np.concatenate((starts, ends, begin, end)))
    length = np.diff(points).astype(np.float64)
    free = np.ones(len(length), dtype=bool)
    keys = every.select(pl.col("kind", "name").cast(pl.String))
    number = keys.select(pl.struct("kind", "name").rank("dense") - 1).to_series().to_numpy().astype(np.int64)
    totals = np.zeros((int(number.max()) + 1, count))
    for level in range(3):
        some = np.flatnonzero(classes == level)
        if not len(some):
            continue
        change = np.zeros(len(points), dtype=np.int64)
        np.add.at(change, np.searchsorted(points, starts[some]), 1)
        np.add.at(change, np.searchsorted(points, ends[some]), -1)
        running = np.cumsum(change)[:-1]
        owned = free & (running > 0)
        each = np.concatenate(([0.0], np.cumsum(np.where(owned, length / np.maximum(running, 1), 0.0))))
        free &= ~owned
        first = np.searchsorted(end, starts[some], side="right")
        last = np.searchsorted(begin, ends[some], side="left") - 1
        for piece, there in ((first, last >= first), (last, last > first)):
            activity, at = some[there], piece[there]
            low, high = np.maximum(starts[activity], begin[at]), np.minimum(ends[activity], end[at])
            spent = each[np.searchsorted(points, high)] - each[np.searchsorted(points, low)]
            np.add.at(totals, (number[activity], cycle[at]), spent)
        between = last > first + 1  # whole stretches, counted per name: there may be as many as activities
        if between.any():
            names, row = np.unique(number[some[between]], return_inverse=True)
            through = np.zeros((len(names), len(begin) + 1))
            np.add.at(through, (row, first[between] + 1), 1.0)
            np.add.at(through, (row, last[between]), -1.0)
            whole = each[np.searchsorted(points, end)] - each[np.searchsorted(points, begin)]
            np.add.at(totals, (names[:, None], cycle[None, :]), np.cumsum(through, axis=1)[:, :-1] * whole)
    named = keys.with_columns(number=pl.Series(number)).unique("number").sort("number")
    return {(kind, name): row for (kind, name, _), row in zip(named.rows(), totals, strict=True) if row.any()}


def _of_idle_time(
    run: Trace, every: pl.DataFrame, begin: Ints, end: Ints, cycle: Ints, count: int
) -> dict[Owner, Floats]:
    """Per cause, the idle time (ns) in each of ``count`` cycles: gaps between activities, and what lies before the
    first and after the last one, which the stack of the launching thread explains as well."""
    host = host_of(run)
    gaps = gaps_of(every)[0].with_edges(int(begin[0]), int(end[-1]))
    activities = every.select("index", "name")
    sums = np.zeros((len(CAUSES), count))
    pieces, piece, _ = gaps.within(begin, end)
    for at in range(0, len(piece), AT_ONCE):
        batch = slice(at, at + AT_ONCE)
        few = pieces.pick(batch)
        parts = by_cause(host, few, None if host is None else launches_of(run, host, activities, few))
        for total, of_cause in zip(sums, parts, strict=True):
            np.add.at(total, cycle[piece[batch]], of_cause)
    return {(IDLE, name): row for name, row in zip(CAUSES, sums, strict=True) if row.any()}
