"""The cycles that sums of a run are divided by, and the run limited to them.

Two recordings of the same work differ in how many cycles they hold and in what lies outside of them: start-up, warm-up,
the cut end. A sum per cycle is therefore that of what belongs to the cycles recorded whole, divided by their number,
never the sum of a recording divided by a number. What belongs to a cycle is said in ``assignment``.
"""

from __future__ import annotations

from collections import deque

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options, Side
from ..core.call_tree import calls_where
from . import assignment, reduced
from .account import find_cycles

_SUMS = ("kernel_stats", "operators", "host_stats", "breakdown", "comparison")
"""Tables of sums over the recording, of which cycles have no part."""


class WholeCycles(Struct, frozen=True):
    """Cycles of one kind of a run: ``frame`` has their rows of the account, ``some`` marks them among all of it.

    ``scoped`` ones were asked for: the run was, or is going to be, limited to them anyway.
    """

    run: Trace
    options: Options
    kind: str
    frame: pl.DataFrame
    some: pl.Series
    scoped: bool = False

    def by_rank(self) -> dict[int | None, int]:
        """How many there are of each rank; null where they are of none."""
        return dict(self.frame.group_by("rank").len().rows())

    def window_ns(self, rank: int | None) -> int:
        """Time in the windows of those of that rank, ns."""
        start, end = assignment.WINDOW
        mine = pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank)
        return int(self.frame.filter(mine).select((pl.col(end) - pl.col(start)).sum()).item())

    @property
    def ranks(self) -> int:
        """Of how many ranks they are; 1 where they are of none."""
        return max(1, self.frame["rank"].n_unique())

    def by_device(self) -> dict[str, int]:
        """How many there are of the ranks that use each device."""
        by_rank = self.by_rank()
        tables = (self.run.kernels, self.run.profile, self.run.kernel_stats, self.run.device_sums)
        users = pl.concat([
            table.select(pl.col("device").cast(pl.String), "rank").unique() for table in tables
        ]).unique().drop_nulls().collect(engine="streaming")
        made: dict[str, int] = {}
        for device, rank in users.rows():
            made[device] = made.get(device, 0) + by_rank.get(rank, 0)
        return {device: count for device, count in made.items() if count}

    def all_of_run(self) -> WholeCycles:
        """All cycles of the run, whatever they are: what sums of the whole recording are of."""
        return replace(self, frame=find_cycles(self.run, self.options).frame)

    @property
    def only_sums(self) -> bool:
        """Whether the run holds sums of the whole recording, of which cycles have no part."""
        return any(self.run.has(name) for name in _SUMS)

    @property
    def part(self) -> Trace:
        """The run limited to what belongs to these cycles; the same object each time."""
        if self.scoped:
            return self.run
        for run, anchor, kind, part in _limited:
            if run is self.run and anchor == self.options.cycle_anchor and kind == self.kind:
                return part
        made = _part(self)
        _limited.append((self.run, self.options.cycle_anchor, self.kind, made))
        return made


_limited: deque[tuple[Trace, str | None, str, Trace]] = deque(maxlen=4)


def whole_cycles(run: Trace, options: Options, side: Side) -> tuple[WholeCycles, ...]:
    """The run's cycles that were recorded whole, without warm-up, by kind; those in scope where one is asked for.

    Empty where it has none, or only a guess that explains too little.
    """
    found = find_cycles(run, options)
    wanted = options.scope(side).cycle
    if found.ignored is not None and wanted is None:
        return ()
    some = pl.col("cycle") == wanted if wanted is not None else pl.col("complete") & ~pl.col("warm_up")
    frame = found.frame.with_columns(some=some.fill_null(False), _kind=pl.col("kind").cast(pl.String).fill_null("step"))
    kinds = frame.filter("some")["_kind"].unique().sort()
    made = []
    for kind in kinds:
        mine = frame.select(mine=pl.col("some") & (pl.col("_kind") == kind))["mine"]
        made.append(WholeCycles(run, options, kind, found.frame.filter(mine), mine, wanted is not None))
    return tuple(made)


def _part(cycles: WholeCycles) -> Trace:
    run, frame = cycles.run, cycles.frame
    if reduced.is_reduced(run):
        return reduced.of_cycle(run, frame)
    account = find_cycles(run, cycles.options)
    kernels = assignment.in_cycles(run, account.frame, account.device_time, cycles.some)
    timed = not account.frame["start_ns"].null_count()
    marks = frame.lazy().select("cycle", cycle_start_ns="start_ns").unique()
    return run.with_tables(
        kernels=kernels.select(run.kernels.collect_schema().names()),
        host=calls_where(run.host, assignment.begins_in(account.frame, cycles.some) if timed else pl.lit(False)),
        cycles=frame.select(run.cycles.collect_schema().names()).lazy(),
        profile=run.profile.join(marks, on=["cycle", "cycle_start_ns"], how="semi", nulls_equal=True),
        **{name: run.table(name).clear() for name in _SUMS},
    )
