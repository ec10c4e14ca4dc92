"""The parts of a recording before its first step and after its last one: how long, and what took most of it."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...core.batches import CALLS
from ...cycles.whole import Steps

LEAST = 0.05  # Share of the recording that must lie outside its steps to be mentioned.
TELLING = 0.1  # Share of that time that a call or slice must take to be named.
_LAUNCHES = re.compile(r"Launch", re.I)
MODULE_NS = 1_000_000  # A launch call this long did not only launch: it loaded the kernel's module.


class Longest(Struct, frozen=True):
    """One host slice, or all of one name: number and total time in the stretch, ns."""

    name: str
    count: int
    total_ns: int

    @property
    def loads_modules(self) -> bool:
        """Whether these are launch calls so long that they must have loaded modules."""
        return bool(_LAUNCHES.search(self.name)) and self.total_ns >= MODULE_NS * self.count


class Stretch(Struct, frozen=True):
    """A stretch of the recording, ns, and what took most of it (None if nothing recorded did)."""

    span_ns: int
    longest: Longest | None


class Outside(Struct, frozen=True):
    """Start-up and the time after the last step; None where too short to mention. Without steps (``of_steps`` false),
    the time before the first device activity and after the last one."""

    before: Stretch | None
    after: Stretch | None
    of_steps: bool = True


def outside_of(run: Trace, steps: Steps | None, marks: pl.Series) -> Outside | None:
    """The time outside the steps of the run; None if that is negligible. ``marks`` are the names of its cycles, which
    explain nothing."""
    bounds = _bounds(run)
    span = recorded_span(run)
    if span is None or (steps is None and bounds[1][0] is None):
        return None
    (begin, end), (first, last) = span, bounds[1] if steps is None else steps.bounds
    least = LEAST * (end - begin)
    before = Stretch(first - begin, _longest(run, begin, first, marks)) if first - begin > least else None
    after = Stretch(end - last, _longest(run, last, end, marks)) if end - last > least else None
    return Outside(before, after, steps is not None) if before or after else None


def _bounds(run: Trace) -> list[tuple[Any, ...]]:
    """The first start and the last end of host slices and of device activities, ns."""
    return run.remember("bounds", (), lambda: [
        table.select(pl.col("start_ns").min().alias("a"), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("b"))
        .collect(engine="streaming").row(0) for table in (run.host, run.kernels)
    ])


def recorded_span(run: Trace) -> tuple[int, int] | None:
    """First start and last end over all host slices and activities, ns; None without timestamps."""
    starts, ends = ([row[at] for row in _bounds(run) if row[at] is not None] for at in (0, 1))
    return (min(starts), max(ends)) if starts and ends else None


def _longest(run: Trace, begin: int, end: int, marks: pl.Series) -> Longest | None:
    """The call, else the operator or function, else the range, that took most of the time between ``begin`` and
    ``end``. A slice with half of the time of its name is named alone. Slices that reach into the steps, as frames
    around a training loop do, explain nothing."""
    span = end - begin
    last = pl.col("start_ns") + pl.col("dur_ns")
    inside = pl.min_horizontal(last, end) - pl.max_horizontal("start_ns", begin)
    called, within = pl.col("kind").is_in(CALLS), (pl.col("start_ns") >= begin) & (last <= end)
    rows = run.host.filter(pl.col("start_ns") < end, last > begin, called | within).select(
        pl.col("name").cast(pl.String), called=called, marked=pl.col("kind") == "annotation", spent=inside)
    sums = rows.group_by("name", "called", "marked").agg(
        count=pl.len(), total=pl.col("spent").sum(), most=pl.col("spent").max()).collect(engine="streaming")
    alone = (2 * pl.col("most") >= pl.col("total")) | (pl.col("total") > span)  # nested or of many threads
    named = sums.drop_nulls("name").filter(~pl.col("name").is_in(marks.implode())).with_columns(
        count=pl.when(alone).then(1).otherwise("count"), total=pl.when(alone).then("most").otherwise("total"))
    telling = named.filter(pl.col("total") >= TELLING * span)
    # a call tells most about where the time went, a user's range least
    longest = telling.sort("called", "marked", "total", "name", descending=[True, False, True, False]).head(1)
    return next((Longest(name, count, total) for name, count, total in
                 longest.select("name", "count", "total").iter_rows()), None)
