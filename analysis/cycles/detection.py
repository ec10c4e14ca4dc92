"""The cycles of a run: how long each took, how busy its devices were, and which are outliers.

``find_cycles`` is the only function that decides which cycles a run has, so that all views agree on them. A cycle lasts
as long as its mark; its device figures are taken over its window (see ``assignment``). A cycle that was not recorded
whole has ``complete = false``: its duration is known, its device figures are null. Nothing is left out silently:
warm-up cycles are marked, and counted even when ``Options.warm_up`` leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from threading import RLock
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders import schema
from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options
from ..core import units
from ..core.derived import derived_value
from ..core.distribution import fence, statistics
from . import assignment, completeness, launch_runs, reduced
from . import sources as cycle_sources
from .completeness import with_phases
from .sourced_cycles import LIMITED, GuessVerdict, SourcedCycles, guess_verdict, merged
from .step_times import BOUNDS, FIGURES, NOTHING, PlacedWork, StepTimes, main_devices, step_times, work_of

WARM_UP_FACTOR = 1.5  # A first cycle this many times the median is warm-up, and so are those after it while they are...
WARM_UP_SHARE = 0.25  # ...this slow, up to this share of all cycles.
TOGETHER = 1_000_000  # Rows of a profile that are deduplicated at once.

EXTRA: dict[str, Any] = {
    "row": pl.Int64, "main_device": schema.NAME, **dict.fromkeys(FIGURES, pl.Int64), "warm_up": pl.Boolean,
    "outlier": pl.Boolean, "records": pl.Int64,
    **dict.fromkeys((*BOUNDS, *assignment.WINDOW), pl.Int64),
}
"""The columns of ``cycles_of`` beyond those of the table: the cycle's ``row`` among all of the run, its times and
window on its rank's main device (``step_times``), flags, the number of device activities, and the window of the
breakdown, which covers host and devices."""


class Cycles(Struct, frozen=True):
    """The cycles of one run: ``frame`` (schema of ``cycles`` and ``EXTRA``), their source, and notes.

    ``inside``: the number of each mark that lies inside another one and is no cycle, and that of the other one.
    ``before`` and ``elsewhere`` count the device activities that belong to no cycle: those before the first one, and
    the others. ``held``: the share of device time that belongs to cycles, None where not measured. ``earlier``: the
    number of activities launched before the recording began. ``marked``: the ``complete`` flags that the source itself
    gave. ``guessed``: the recording does not mark the cycles; ``ignored``: why such a guess is not used, None where it
    is. ``times``: what each cycle took on each device, by its row among all cycles of the run.
    """

    frame: pl.DataFrame
    source: str | None
    anchor: str | None
    device_time: bool = False
    notes: tuple[str, ...] = ()
    before: int = 0
    elsewhere: int = 0
    held: float | None = None
    earlier: int = 0
    guessed: bool = False
    ignored: str | None = None
    marked: pl.Series | None = None
    times: StepTimes = NOTHING
    inside: dict[int, int] = {}

    @property
    def noun(self) -> str:
        """What one cycle is called in sentences: a ``step`` was recorded, an ``execution`` is of a compiled program, a
        ``repetition`` is guessed."""
        return "step" if not self.guessed else "execution" if self.source == "execution" else "repetition"

    @property
    def why_guessed(self) -> str | None:
        """A sentence that the cycles are a guess, and whether they are used; None for recorded ones."""
        if not self.guessed or self.frame.is_empty():
            return None
        count = units.counted(self.frame.height, self.noun, f"{self.noun}s")
        if self.ignored is not None:
            are = "is" if self.frame.height == 1 else "are"
            return f"No step was recorded; {count} {are} ignored: {self.ignored}."
        of = "one program" if self.noun == "execution" else "the same work"
        return f"No step was recorded: these are {count} of {of}."


_finding = RLock()


def find_cycles(run: Trace, options: Options) -> Cycles:
    """The cycles from the first source that has any and explains the run; an empty frame and a note without any."""
    part = run.part_of
    if part is not None and part.some_cycles:
        cycles, same = find_cycles(part.parent, options), ["rank", "cycle", "start_ns"]
        own = run.cycles.select(same).collect()
        return replace(cycles, frame=cycles.frame.join(own, on=same, how="semi", nulls_equal=True))
    with _finding:  # a second thread waits for the result of the first
        anchor = options.cycle_anchor
        return run.remember("cycles", (anchor,), lambda: (
            _find(run, anchor) if anchor is not None else derived_value(run, "cycles", Cycles, lambda: _find(run, None))
        ))


def cycles_of(run: Trace, options: Options) -> pl.LazyFrame:
    """The run's cycles in the schema of the table ``cycles`` with the columns of ``EXTRA`` added."""
    return find_cycles(run, options).frame.lazy()


SOURCES = (
    cycle_sources.recorded, cycle_sources.optimised, cycle_sources.named, launch_runs.executed,
    cycle_sources.annotated, cycle_sources.anchored, launch_runs.repeated,
)
"""The sources of cycles, most trusted first."""


def _find(run: Trace, anchor: str | None) -> Cycles:
    if anchor is not None:
        result = cycle_sources.overridden(run, anchor)
        if result is None:
            return _none(f"no host function or kernel matches the cycle anchor {anchor!r}")
        return _complete(run, result)
    if run.info.facts.get(LIMITED) and not run.has("cycles"):
        return _none("no cycles in the selected scope")
    first: Cycles | None = None
    for result in chain.from_iterable(source(run) for source in SOURCES):
        cycles = _complete(run, result)
        if not result.guessed:
            return cycles
        cycles, verdict = _judged(run, result, cycles)
        if verdict.applies:
            return cycles
        first = first or cycles
    return first or _none("no cycles: no step marks, and no annotation, function or run of launches that repeats")


def _judged(run: Trace, sourced: SourcedCycles, cycles: Cycles) -> tuple[Cycles, GuessVerdict]:
    """The guess with why it is ignored, of n repetitions each where every n-th launches more."""
    verdict = guess_verdict(run, sourced, cycles.frame)
    if verdict.ignored is not None and (longer := merged(run, sourced, cycles.frame)) is not None:
        joined = _complete(run, longer)
        again = guess_verdict(run, longer, joined.frame)
        if again.ignored is None:
            return joined, again
    return replace(cycles, ignored=verdict.ignored), verdict


def _none(note: str) -> Cycles:
    frame = schema.empty("cycles").with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in EXTRA.items())
    return Cycles(frame.collect(), None, None, notes=(note,))


def _complete(run: Trace, sourced: SourcedCycles) -> Cycles:
    """The source's cycles with everything that is derived from the rest of the recording."""
    anchor, times, seen = sourced.anchor, NOTHING, False
    if reduced.is_reduced(run):
        frame, anchor = reduced.with_figures(run, sourced.frame), reduced.anchor(run) or anchor
        times = reduced.times(frame)
        records = _Records([], *reduced.outside(run))
    else:
        frame = sourced.frame
        timed = run.has("kernels") and not frame["start_ns"].null_count()
        work = work_of(run, frame, sourced.device_time) if timed else None
        frame = assignment.with_windows(frame, None if sourced.device_time or work is None else (work.row, work.end))
        frame = with_phases(run, frame, sourced.device_time)
        if work is not None:
            times, records = step_times(run, frame, work, sourced.device_time), _records_of(work, frame.height)
            seen = len(work.start) > 0
            frame = _with_times(frame, times)
        else:
            records = _records(run, frame, sourced.device_time)
            frame = _without_times(frame, records.busy_ns)
        frame = frame.with_columns(pl.Series("records", records.count, dtype=pl.Int64))
    marked = frame["complete"]
    on_device = pl.col("device_ns").is_not_null() | pl.lit(not seen)
    complete = pl.col("complete").fill_null(True) & completeness.whole(frame) & on_device & (pl.col("dur_ns") > 0)
    frame = frame.with_columns(complete=complete).with_columns(
        pl.when("complete").then(pl.col(*FIGURES[1:])), _warm_up(frame),
    )
    marks = [False] * frame.height  # the only rule for outliers: every view uses these marks
    frame = frame.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
    for _, group in frame.group_by(completeness.like(frame)):
        limit = fence(group.filter(~pl.col("warm_up")).select(length(frame).cast(pl.Float64)).to_series().to_numpy())
        for row, span, warm_up in group.select("row", length(frame), "warm_up").iter_rows():
            marks[row] = span > limit and not warm_up
    order = [*schema.polars_schema("cycles"), *EXTRA]
    return Cycles(
        frame.with_columns(pl.Series("outlier", marks, dtype=pl.Boolean)).select(order), sourced.source, anchor,
        sourced.device_time, sourced.notes, records.before, records.elsewhere, records.held, records.earlier,
        sourced.guessed, None, marked, times, sourced.inside,
    )


def length(frame: pl.DataFrame) -> pl.Expr:
    """The length that outliers and warm-up go by, ns: the mark of a cycle, but of an execution the step time, since
    the call only puts its work in the queue."""
    executions = frame["source"].cast(pl.String).eq("execution").all() and frame.height
    return pl.coalesce("step_ns", "dur_ns") if executions else pl.col("dur_ns")


def _with_times(frame: pl.DataFrame, times: StepTimes) -> pl.DataFrame:
    """The cycles with their times on the main device of their rank; cycles of no rank, on the device with most work."""
    if frame["rank"].null_count() and times.devices["rank"].n_unique() > 1:
        main = main_devices(times.devices.with_columns(rank=pl.lit(None, pl.Int64)))
        own = times.devices.join(main, on="device", how="semi", nulls_equal=True).unique("row", keep="first")
    else:
        own = times.main()
    return frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64)).join(
        own.drop("rank").rename({"device": "main_device"}), on="row", how="left", maintain_order="left", validate="1:1",
    ).with_columns(pl.col("host_ns").fill_null(pl.col("dur_ns"))).drop("row")


def _without_times(frame: pl.DataFrame, busy_ns: Sequence[int | None]) -> pl.DataFrame:
    """The cycles of a run without device activities that have times: step time is the recorded length."""
    spans = {name: pl.lit(None).cast(EXTRA[name]) for name in ("main_device", *FIGURES, *BOUNDS)}
    busy, timed = pl.col("busy_ns"), pl.col("start_ns").is_not_null()
    return frame.with_columns(**spans | {"host_ns": pl.col("dur_ns"), "step_ns": pl.col("dur_ns")}).with_columns(
        pl.Series("busy_ns", busy_ns, dtype=pl.Int64)
    ).with_columns(  # without timestamps the time between launches is unknown
        idle_ns=pl.when((busy <= pl.col("dur_ns")) & timed).then(pl.col("dur_ns") - busy))


class _Records(Struct, frozen=True):
    """Per cycle, its number of device activities; and the activities in no cycle. ``busy_ns``: per cycle, the mean over
    devices, of runs without times."""

    count: Sequence[int | None]
    before: int = 0
    elsewhere: int = 0
    held: float | None = None
    earlier: int = 0
    busy_ns: Sequence[int | None] = ()


def _records(run: Trace, frame: pl.DataFrame, device_time: bool) -> _Records:
    if run.has("kernels") and frame["start_ns"].null_count():
        counts = assignment.in_cycles(run, frame, device_time).filter(is_work()).group_by("cycle").len()
        counted = frame.join(counts.collect(engine="streaming"), on="cycle", how="left", maintain_order="left")
        return _Records(counted["len"].fill_null(0).to_list(), busy_ns=[int(span) for span in frame["dur_ns"]])
    if run.has("profile"):
        # two processes may each have a cycle 3, which began at different times
        same = ["cycle", "start_ns"]
        functions = run.profile.filter(pl.col("device") != "Host").rename({"cycle_start_ns": "start_ns"})
        sums = pl.concat([
            functions.filter(pl.col("cycle").is_in(some, nulls_equal=True))
            .unique([*same, "pid", "function", "device"]).group_by(same).agg(
                pl.col("instances").sum().alias("records"), pl.col("dur_ns").sum().alias("busy"),
                pl.col("device").n_unique().alias("devices"),
            ).collect(engine="streaming")
            for some in _some_cycles(run)
        ])
        joined = frame.join(sums, on=same, how="left", nulls_equal=True, maintain_order="left")
        return _Records(joined["records"].fill_null(0).to_list(),
                        busy_ns=(joined["busy"] // joined["devices"]).to_list())
    return _Records([None] * frame.height, busy_ns=[None] * frame.height)


def _some_cycles(run: Trace) -> list[pl.Series]:
    """The cycles of the profile in batches of about ``TOGETHER`` rows: few enough to deduplicate at once."""
    counts = run.profile.group_by("cycle").len().sort("cycle").collect(engine="streaming")
    batch = pl.Series(counts["len"].cum_sum() // TOGETHER)
    batches_of = counts.with_columns(batch.alias("batch")).partition_by("batch")
    return [rows["cycle"].implode() for rows in batches_of]


def _records_of(work: PlacedWork, cycles: int) -> _Records:
    inside, spent = work.row >= 0, (work.end - work.start).astype(np.float64)  # the sum may overflow an integer
    total, early = float(spent.sum()), work.before > 0
    unlaunched = work.unlaunched > 0
    return _Records(
        np.bincount(work.row[inside], minlength=cycles).tolist(), int((early & ~unlaunched).sum()),
        int((~inside & ~early).sum()), float(spent[inside].sum()) / total if total else None, int(unlaunched.sum()),
    )


def _warm_up(frame: pl.DataFrame) -> pl.Series:
    """Whether each cycle is among the first of its rank and kind, and all up to it are clearly slower than the rest."""
    if frame["start_ns"].null_count():
        # launches without times were replayed, or are the layers of one iteration
        return pl.repeat(False, frame.height, eager=True).alias("warm_up")
    same, span = ["rank", completeness.like(frame)], pl.col("span")
    lengths = frame.select(*same, span=length(frame))
    placed = lengths.with_columns(place=pl.int_range(pl.len()).over(same), of=pl.len().over(same)).with_columns(
        first=pl.col("place") < (pl.col("of") * WARM_UP_SHARE).floor()
    )
    steady = span.filter(~pl.col("first")).median().over(same)
    slow = pl.col("first") & (span > WARM_UP_FACTOR * steady)
    return placed.with_columns(slow=slow).select(
        warm_up=pl.col("slow").fill_null(False).cum_min().over(same)
    ).to_series()


def view_cycles(run: Trace, options: Options) -> Cycles:
    """The cycles that every view uses: all that were found, without warm-up where the options leave it out."""
    cycles = find_cycles(run, options)
    if options.warm_up or not cycles.frame["warm_up"].any():
        return cycles
    left = int(cycles.frame["warm_up"].sum())
    return replace(
        cycles, frame=cycles.frame.filter(~pl.col("warm_up")),
        notes=(*cycles.notes, f"{left} warm-up cycle{'s' if left > 1 else ''} of {run.info.label} left out"),
    )


def counted_cycles(run: Trace, options: Options) -> Cycles:
    """The cycles that findings, headlines and gauges describe: none if they are a guess that explains too little."""
    cycles = view_cycles(run, options)
    return cycles if cycles.ignored is None else without_guess(cycles)


def without_guess(cycles: Cycles) -> Cycles:
    """The same without cycles, and with a note on the guess."""
    return replace(cycles, frame=cycles.frame.clear(), notes=tuple(filter(None, (*cycles.notes, cycles.why_guessed))))


def why_none(run: Trace, cycles: Cycles) -> str:
    """Why a run has no cycles, and what would give it some, as a sentence."""
    why = cycles.notes[0] if cycles.notes else "no cycles"
    if why.startswith("no cycles"):
        return f"{run.info.label} has {why}; --cycle-anchor names a function or kernel to take them from."
    return f"{run.info.label}: {why}."


def facts_of(cycles: Cycles) -> dict[str, Any]:
    """Facts about one run's cycles: statistics of durations, source, incomplete, warm-up and outlier counts."""
    frame = cycles.frame
    facts = statistics(frame["dur_ns"].cast(pl.Float64).to_numpy())
    facts |= {
        "source": cycles.source, "anchor": cycles.anchor, "guessed": cycles.guessed,
        "incomplete": int((~frame["complete"]).sum()),
        "warm_up": int(frame["warm_up"].sum()), "outliers": int(frame["outlier"].sum()),
        "kinds": {
            str(kind): statistics(group["dur_ns"].cast(pl.Float64).to_numpy())
            for (kind,), group in frame.group_by(pl.col(completeness.like(frame)).cast(pl.String), maintain_order=True)
        },
    }
    return facts
