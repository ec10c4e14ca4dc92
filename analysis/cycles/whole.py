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
from . import assignment, reduced
from .assignment import WINDOW, in_cycles
from .detection import Cycles, counted_cycles, find_cycles
from .scope import moment_in

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

    def window_ns(self, rank: int | None) -> int:
        """Total time in the windows of that rank's cycles (None: of all cycles), ns."""
        start, end = assignment.WINDOW
        matching = pl.lit(True) if rank is None else pl.col("rank").is_null() | (pl.col("rank") == rank)
        return int(self.frame.filter(matching).select((pl.col(end) - pl.col(start)).sum()).item())

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
        letter: "guessed cycles that are not used" if find_cycles(run, options).ignored else "no whole cycles"
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
    part = PartOf(run, launched_outside=detected.device_time)
    return replace(run, part_of=part).with_tables(
        kernels=kernels.select(columns_of(run.kernels).names()),
        host=calls_where(run.host, assignment.begins_in(detected.frame, cycles.mask) if timed else pl.lit(False)),
        cycles=frame.select(columns_of(run.cycles).names()).lazy(),
        profile=run.profile.join(marks, on=["cycle", "cycle_start_ns"], how="semi", nulls_equal=True),
        **{name: run.table(name).clone().clear() for name in _SUMS},
    )


Bounds = tuple[int, int]


class Steps(Struct, frozen=True):
    """Per rank (None: any rank), the begin and end of its steps, ns."""

    windows: tuple[tuple[int | None, int, int], ...]

    @property
    def bounds(self) -> Bounds:
        """The earliest begin and the latest end of the steps of all ranks, ns."""
        return min(first for _, first, _ in self.windows), max(last for _, _, last in self.windows)

    def of(self, rank: int | None) -> Bounds | None:
        """Begin and end of a rank's steps, ns; None where it has none. For ``rank`` None, those of all ranks."""
        matching = [window[1:] for window in self.windows if window[0] == rank or window[0] is None]
        return matching[0] if matching else self.bounds if rank is None else None

    def holds(self, column: str) -> pl.Expr:
        """Whether the moment in a column lies in the steps of the row's ``rank``."""
        return moment_in(column, self.windows)


def steps_of(cycles: Cycles) -> Steps | None:
    """The steps among the cycles; None without timed cycles, and for a guess that explains too little."""
    if cycles.ignored is not None or cycles.frame["start_ns"].null_count():
        return None
    return _steps(cycles.frame.filter(pl.col("complete") & ~pl.col("warm_up")))


def steps_in_scope(run: Trace, options: Options, side: Side = "a") -> Steps | None:
    """The steps of the run, or the one cycle that the options limit that side to."""
    cycle = options.scope(side).cycle
    if cycle is None:
        return steps_of(counted_cycles(run, options))
    cycles = find_cycles(run, options)
    return steps_of_cycle(replace(cycles, frame=cycles.frame.filter(pl.col("cycle") == cycle)))


def steps_of_cycle(cycles: Cycles) -> Steps | None:
    """The window of the one cycle in ``cycles``, recorded whole or not; None without times."""
    return None if cycles.frame["start_ns"].null_count() else _steps(cycles.frame)


def _steps(frame: pl.DataFrame) -> Steps | None:
    bounds = frame.group_by("rank").agg(pl.col(WINDOW[0]).min(), pl.col(WINDOW[1]).max()).sort("rank", nulls_last=True)
    return None if bounds.is_empty() else Steps(tuple(bounds.select("rank", *WINDOW).iter_rows()))


def in_steps(run: Trace, steps: Steps | None) -> Trace:
    """The run limited to activities and host slices that begin in the steps; unchanged if no activity lies outside."""
    if steps is None:
        return run
    inside = steps.holds("start_ns")
    outside = run.kernels.filter(pl.col("kind") != "sync").select((~inside).any()).collect(engine="streaming").item()
    if not outside:
        return run
    return run.with_tables(kernels=run.kernels.filter(inside), host=calls_where(run.host, inside))


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
