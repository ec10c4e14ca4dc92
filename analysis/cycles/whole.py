"""The steps of a run, the whole cycles that sums are divided by, the run limited to them, the cycle of a launch.

Two recordings of the same work differ in their number of cycles and in what lies outside of them: start-up, warm-up,
the cut end. A sum per cycle is the sum over whole cycles, divided by their number. The steps go from the start of the
first whole cycle that is not warm-up to the end of the last one: sentences about a run describe the steps.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.schema import columns_of
from ...loaders.trace import PartOf, Trace
from ..contract.options import SIDES, Options, Side
from ..contract.view import Runs
from ..core.batches import integer_arrays, match, values_at
from ..core.call_tree import calls_where
from ..core.intervals import Intervals, union
from . import assignment, reduced
from .assignment import WINDOW, in_cycles
from .detection import Cycles, counted_cycles, find_cycles
from .step_times import StepTimes

_SUMS = ("kernel_stats", "operators", "host_stats", "breakdown", "comparison")
"""Tables of sums over the recording, which cannot be split by cycle."""


class WholeCycles(Struct, frozen=True):
    """Cycles of one kind of a run: ``frame`` has their rows of ``detection``, ``mask`` marks them among all rows.
    ``scoped``: they are the cycle in scope, and the run was, or is going to be, limited to it anyway."""

    run: Trace
    options: Options
    kind: str
    frame: pl.DataFrame
    mask: pl.Series
    scoped: bool = False

    def by_rank(self) -> dict[int | None, int]:
        """The number of cycles per rank; under None where they have no rank."""
        return dict(self.frame.group_by("rank").len().rows())

    @property
    def times(self) -> StepTimes:
        """What the cycles of the run took on each device."""
        return find_cycles(self.run, self.options).times

    def step_ns(self, rank: int | None) -> int:
        """Total step time of that rank's cycles (None: of all cycles), ns."""
        matching = pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank)
        return int(self.frame.filter(matching).select(pl.col("step_ns").sum()).item())

    @property
    def ranks(self) -> int:
        """The number of ranks; 1 where the cycles have no rank."""
        return max(1, self.frame["rank"].n_unique())

    def by_device(self) -> dict[str, int]:
        """The number of cycles of the ranks that use each device."""
        by_rank = self.by_rank()
        tables = (self.run.kernels, self.run.profile, self.run.kernel_stats, self.run.device_sums)
        users = pl.concat([
            table.select(pl.col("device").cast(pl.String), "rank").unique() for table in tables
        ]).unique().drop_nulls().collect(engine="streaming")
        result: dict[str, int] = {}
        for device, rank in users.rows():
            result[device] = result.get(device, 0) + by_rank.get(rank, 0)
        return {device: count for device, count in result.items() if count}

    def all_of_run(self) -> WholeCycles:
        """The same with all cycles of the run: sums over the whole recording cover these."""
        return replace(self, frame=find_cycles(self.run, self.options).frame)

    def with_kinds(self, others: Iterable[WholeCycles]) -> WholeCycles:
        """These and other kinds of cycles of the run together."""
        some = pl.Series(np.any([one.mask for one in (self, *others)], axis=0))
        return replace(self, kind="", frame=find_cycles(self.run, self.options).frame.filter(some), mask=some)

    @property
    def only_sums(self) -> bool:
        """Whether the run holds sums over the whole recording, which cannot be split by cycle."""
        return any(self.run.has(name) for name in _SUMS)

    @property
    def part(self) -> Trace:
        """The run limited to these cycles; the same object each time."""
        if self.scoped:
            return self.run
        key = (self.options.cycle_anchor, self.kind, self.frame.height)
        return self.run.remember("whole cycles", key, lambda: _part(self))

    @property
    def launched(self) -> WholeCycles:
        """Those without activities that were launched before the recording (only cycles found on the device hold such);
        all if none would be left."""
        cycles = find_cycles(self.run, self.options)
        if self.scoped or not cycles.device_time:
            return self
        lost = assignment.launched(self.run).filter("earlier").select("start_ns", "rank").collect(engine="streaming")
        holding = assignment.row_at(lost["start_ns"], lost["rank"], cycles.frame, ("start_ns", "dur_ns"))
        some = self.mask & ~pl.Series(np.isin(np.arange(cycles.frame.height), holding))
        return replace(self, mask=some, frame=cycles.frame.filter(some)) if some.any() else self


def whole_cycles(run: Trace, options: Options, side: Side) -> tuple[WholeCycles, ...]:
    """The run's cycles that were recorded whole, without warm-up, by kind; if a cycle is in scope, that one. Empty
    where there is none, or only a guess that explains too little."""
    cycles = find_cycles(run, options)
    wanted = options.scope(side).cycle
    if cycles.ignored is not None and wanted is None:
        return ()
    some = pl.col("cycle") == wanted if wanted is not None else pl.col("complete") & ~pl.col("warm_up")
    kind_of = pl.col("kind").cast(pl.String).fill_null("step")
    frame = cycles.frame.with_columns(some=some.fill_null(False), _kind=kind_of)
    kinds = frame.filter("some")["_kind"].unique().sort()
    result = []
    for kind in kinds:
        matching = frame.select(matching=pl.col("some") & (pl.col("_kind") == kind))["matching"]
        result.append(WholeCycles(run, options, kind, cycles.frame.filter(matching), matching, wanted is not None))
    return tuple(result)


def shared_kinds(runs: Runs, options: Options) -> list[str]:
    """The kinds of whole cycles that both runs have. Every view compares two runs per cycle if there is one, else per
    recording."""
    a, b = ([one.kind for one in whole_cycles(run, options, side)] for run, side in zip(runs, SIDES, strict=True))
    return [kind for kind in a if kind in b]


def why_per_recording(runs: Runs, options: Options) -> str:
    """Why two runs without ``shared_kinds`` are compared per recording, as the end of a sentence."""
    lacking = {
        letter: f"{cycles.noun}s that are ignored" if (cycles := find_cycles(run, options)).ignored
        else "no whole cycles"
        for letter, run, side in zip("AB", runs, SIDES, strict=True) if not whole_cycles(run, options, side)
    }
    if not lacking:
        return "the runs have no kind of cycle in common"
    if list(lacking.values()) == ["no whole cycles"] * 2:
        return "neither run has whole cycles"
    return " and ".join(f"{letter} has {what}" for letter, what in lacking.items())


def _part(cycles: WholeCycles) -> Trace:
    run, frame = cycles.run, cycles.frame
    if reduced.is_reduced(run):
        return reduced.of_cycle(run, frame)
    detected = find_cycles(run, cycles.options)
    kernels = assignment.in_cycles(run, detected.frame, detected.device_time, cycles.mask)
    timed = not detected.frame["start_ns"].null_count()
    marks = frame.lazy().select("cycle", cycle_start_ns="start_ns").unique()
    part = PartOf(run, launched_outside=detected.device_time, some_cycles=True)
    return replace(run, part_of=part).with_tables(
        kernels=kernels.select(columns_of(run.kernels).names()),
        host=calls_where(run.host, assignment.begins_in(detected.frame, cycles.mask) if timed else pl.lit(False)),
        cycles=frame.select(columns_of(run.cycles).names()).lazy(),
        profile=run.profile.join(marks, on=["cycle", "cycle_start_ns"], how="semi", nulls_equal=True),
        **{name: run.table(name).clone().clear() for name in _SUMS},
    )


Bounds = tuple[int, int]


class Steps(Struct, frozen=True):
    """The steps that sentences about a run describe: its whole cycles that are no warm-up, or one cycle in scope.

    On a device they are the union of its leads, windows and tails, never the time from the first to the last. ``mask``
    says which of ``cycles`` they are; ``devices`` and ``parts`` are their rows of ``StepTimes``.
    """

    cycles: Cycles
    mask: pl.Series
    devices: pl.DataFrame
    parts: pl.DataFrame

    @property
    def key(self) -> tuple[int, int, int]:
        """What tells these steps from others of the run, to remember results by."""
        rows = self.cycles.frame.filter(self.mask)
        return rows.height, int(rows["start_ns"].sum()), int(rows["dur_ns"].sum())

    @property
    def bounds(self) -> Bounds:
        """The earliest begin and the latest end of the steps of all ranks, ns."""
        return self._bounds(self.parts, self.cycles.frame.filter(self.mask))

    @staticmethod
    def _bounds(parts: pl.DataFrame, marks: pl.DataFrame) -> Bounds:
        spans = parts.select("from_ns", "to_ns") if parts.height else marks.select(*WINDOW)
        first, last = spans.select(pl.nth(0).min().alias("a"), pl.nth(1).max().alias("b")).row(0)
        return int(first), int(last)

    def of(self, rank: int | None, device: str | None) -> Intervals:
        """The time of the steps on a device; empty where they ran nothing on it."""
        own = self.parts.filter(
            pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)), pl.col("device").cast(pl.String).eq_missing(device))
        return union(own["from_ns"].to_numpy(), own["to_ns"].to_numpy())

    def counts(self) -> dict[tuple[int | None, str | None], int]:
        """Per rank and device, how many of the steps ran anything on it."""
        sums = self.parts.drop_nulls("row").group_by("rank", pl.col("device").cast(pl.String)).agg(
            pl.col("row").n_unique())
        return {(rank, device): count for rank, device, count in sums.rows()}

    def busy(self) -> dict[tuple[int | None, str | None], float]:
        """Per rank and device, the share of the steps in which it ran anything, 0-1."""
        sums = self.devices.group_by("rank", pl.col("device").cast(pl.String)).agg(
            pl.col("busy_ns", "other_ns", "step_ns").sum()).sort("rank", "device")
        return {(rank, device): (busy + other) / step
                for rank, device, busy, other, step in sums.rows() if step}


def steps_of(cycles: Cycles) -> Steps | None:
    """The steps among the cycles; None without timed cycles, and for a guess that explains too little."""
    if cycles.ignored is not None:
        return None
    return _steps(cycles, cycles.frame.select(pl.col("complete") & ~pl.col("warm_up")).to_series())


def steps_in_scope(run: Trace, options: Options, side: Side = "a") -> Steps | None:
    """The steps of the run, or the one cycle that the options limit that side to."""
    cycle = options.scope(side).cycle
    if cycle is None:
        return steps_of(counted_cycles(run, options))
    cycles = find_cycles(run, options)
    return _steps(cycles, cycles.frame["cycle"] == cycle)


def steps_of_cycle(cycles: Cycles) -> Steps | None:
    """The one cycle in ``cycles``, recorded whole or not; None without times."""
    return _steps(cycles, pl.repeat(True, cycles.frame.height, eager=True))


def _steps(cycles: Cycles, mask: pl.Series) -> Steps | None:
    if cycles.frame["start_ns"].null_count() or not mask.any():
        return None
    rows = cycles.frame.filter(mask)["row"].implode()
    own = pl.col("row").is_in(rows)
    return Steps(cycles, mask, cycles.times.devices.filter(own, pl.col("step_ns").is_not_null()),
                 cycles.times.parts.filter(own))


def in_steps(run: Trace, steps: Steps | None) -> Trace:
    """The run limited to the own work of the steps and the host slices that begin in their marks; unchanged without
    steps, or if no activity lies outside."""
    if steps is None:
        return run
    cycles = steps.cycles
    if steps.mask.all() and not (cycles.before or cycles.elsewhere or cycles.earlier):
        return run
    kernels = in_cycles(run, cycles.frame, cycles.device_time, steps.mask)
    return run.with_tables(
        kernels=kernels.select(columns_of(run.kernels).names()),
        host=calls_where(run.host, assignment.begins_in(cycles.frame, steps.mask)))


MANY = 500_000
"""From this many launches on no pattern is searched only to number their cycles: showing them takes less time."""


def cycle_of(run: Trace, index: pl.LazyFrame, options: Options) -> pl.Series | None:
    """The cycle of each launch in ``index`` (a column of that name), null outside all cycles; None without cycles."""
    cycles = _cycles_to_number(run, index.select(pl.len()).collect().item(), options)
    if cycles is None:
        return None
    launches = in_cycles(run, cycles.frame, cycles.device_time)
    inside = integer_arrays(launches.select("index", pl.col("cycle").cast(pl.Int64)))
    rank = np.zeros(1, dtype=np.int64)  # launch numbers are unique across ranks
    places = match((rank, integer_arrays(index.select("index"))["index"]), (rank, inside["index"]))
    return values_at(inside["cycle"], places).alias("cycle")


def cycle_around(run: Trace, spans: pl.DataFrame, options: Options) -> pl.Series | None:
    """The cycle whose window holds the middle of each span (``start_ns dur_ns rank``), null outside all cycles; None
    without cycles that have times."""
    cycles = _cycles_to_number(run, spans.height, options)
    if cycles is None or cycles.frame["start_ns"].null_count():
        return None
    at = assignment.row_at(spans["start_ns"] + spans["dur_ns"] // 2, spans["rank"], cycles.frame, WINDOW)
    return values_at(cycles.frame["cycle"].cast(pl.Int64).to_numpy(), at).alias("cycle")


def _cycles_to_number(run: Trace, rows: int, options: Options) -> Cycles | None:
    """The cycles to number that many rows by; None where there are none."""
    if rows >= MANY and not run.has("host") and not run.has("cycles"):
        return None
    cycles = find_cycles(run, options)
    return None if cycles.frame.is_empty() else cycles
