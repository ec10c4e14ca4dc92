"""What a recording holds before its first step and after its last one: how long, and what took most of it."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...core.batches import CALLS
from ...cycles.whole import Steps

LEAST = 0.05  # Share of the recording that must lie outside its steps to be mentioned.
TELLING = 0.1  # Share of that time that a call or a slice must take to be named...
_LAUNCHES = re.compile(r"Launch", re.I)
MODULE_NS = 1_000_000  # ...and a launch call this long did not launch: it loaded the module that the kernel is in.


class Longest(Struct, frozen=True):
    """A host slice, or all of one name: how many, how long together in the stretch, ns."""

    name: str
    count: int
    total_ns: int

    @property
    def loads_modules(self) -> bool:
        """Whether these are launches so long that they can only have loaded code."""
        return bool(_LAUNCHES.search(self.name)) and self.total_ns >= MODULE_NS * self.count


class Stretch(Struct, frozen=True):
    """A stretch of the recording, ns, and what took most of it; None where nothing recorded did."""

    span_ns: int
    longest: Longest | None


class Outside(Struct, frozen=True):
    """Start-up and what follows the last step; None for what is too short to mention. Without steps, what lies before
    the first device activity and after the last one (``of_steps`` false)."""

    before: Stretch | None
    after: Stretch | None
    of_steps: bool = True


def outside_of(run: Trace, steps: Steps | None, marks: pl.Series) -> Outside | None:
    """What lies outside the steps of the run; None where next to nothing does. ``marks`` are the names of its cycles,
    which explain nothing."""
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
    """When the first of all host slices and activities begins and the last ends, ns; None without times."""
    starts, ends = ([row[at] for row in _bounds(run) if row[at] is not None] for at in (0, 1))
    return (min(starts), max(ends)) if starts and ends else None


def _longest(run: Trace, begin: int, end: int, marks: pl.Series) -> Longest | None:
    """The call, else the operator or function, else the range, that took most of the time between two moments. One
    slice that takes half of what all of its name take is named alone. What also runs in the steps, as the frames around
    a training loop do, explains nothing."""
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
    # a call says most of what the time went to, a range that somebody named least
    found = telling.sort("called", "marked", "total", "name", descending=[True, False, True, False]).head(1)
    return next((Longest(name, count, total) for name, count, total in
                 found.select("name", "count", "total").iter_rows()), None)
