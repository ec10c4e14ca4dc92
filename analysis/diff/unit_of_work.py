"""One unit of work where cycles are too few to compare: the recorded step, else a call of the busiest common function.

A recording of a fixed length holds fewer steps when each takes longer, so its totals fall. Per step, or per call of a
function that every step calls equally often, the same recording shows up as slower. A collective is used only if there
is no other candidate: two ranks that do the same work wait in it for different times.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options
from ..core import units
from ..core.names.short_name import fit_name
from ..cycles import assignment
from ..cycles.detection import find_cycles
from ..cycles.sourced_cycles import WINDOWED
from ..cycles.whole import shared_kinds
from .present.sentences import cycle_sentence
from .stats.robust_location import Floats
from .verdict.cycle_time import CycleTime, compare_lengths
from .verdict.verdict import UnitOfWork

LEAST_CALLS = 4
MARKED = ("recorded", "annotation")  # Cycle sources that can be trusted even for a single cycle.
_MANY = 300  # Most gaps between calls used to estimate the shift: more add no precision, and the cost is quadratic.


class WorkTime(Struct, frozen=True):
    """How long one unit of work takes in both runs; ``unit`` is None for a recorded step. Totals of A and B are divided
    by ``per_a`` and ``per_b``: the number of steps in each, or 1 and the ratio of B's calls to A's."""

    time: CycleTime
    unit: UnitOfWork | None
    per_a: float
    per_b: float


def unit_of_work(runs: tuple[Trace, Trace], options: Options) -> WorkTime | None:
    """The recorded steps if both runs have some of one kind, else calls of the anchor function. None if the runs have
    no timestamps or share no function called often enough, and for time windows, which are compared as they are."""
    if any(is_window(run) for run in runs):
        return None
    steps = [_marked_steps(run, options) for run in runs]
    if all(side.height for side in steps) and shared_kinds(runs, options):
        lengths = [side["dur_ns"].to_numpy() / 1e6 for side in steps]
        return WorkTime(compare_lengths(*lengths), None, whole_ones(steps[0]).height, whole_ones(steps[1]).height)
    counted = [_counts(run) for run in runs]
    if any(side.is_empty() for side in counted):
        return None
    both = counted[0].join(counted[1], on=["name", "device"], suffix="_b", nulls_equal=True)
    both = both.filter((pl.col("calls") >= LEAST_CALLS) & (pl.col("calls_b") >= LEAST_CALLS))
    if both.is_empty():
        return None
    waits = pl.col("kind") == "collective"
    order = both.sort(waits, -pl.min_horizontal("total", "total_b"), maintain_order=True)
    anchor = str(order["name"][0])
    same = both.filter(pl.col("name") == anchor)
    devices = same["device"].to_list()
    gaps = [np.concatenate([_gaps(run, anchor, device) for device in devices]) for run in runs]
    if min(len(side) for side in gaps) < 2:
        return None
    calls_a, calls_b = int(same["calls"].sum()), int(same["calls_b"].sum())
    unit = UnitOfWork(f"per call of {fit_name(anchor, 48)}", anchor, calls_a, calls_b)
    few = [side if len(side) <= _MANY else side[np.linspace(0, len(side) - 1, _MANY).astype(int)] for side in gaps]
    a, b = gaps
    time = replace(
        compare_lengths(few[0], few[1]), cycles_a=len(a), cycles_b=len(b), mean_a_ms=float(a.mean()),
        mean_b_ms=float(b.mean()), median_a_ms=float(np.median(a)), median_b_ms=float(np.median(b)), outliers=(),
        unit=unit.what,
    )
    return WorkTime(time, unit, 1.0, calls_b / calls_a)


def in_marked_steps(run: Trace, options: Options) -> pl.LazyFrame:
    """The device activities in the recorded steps that ``WorkTime`` counts; all activities if no steps are marked."""
    steps, cycles = _marked_steps(run, options), find_cycles(run, options)
    return run.kernels if steps.is_empty() else assignment.in_cycles(run, whole_ones(steps), cycles.device_time)


def whole_ones(steps: pl.DataFrame) -> pl.DataFrame:
    """The cycles that device figures are taken from: those recorded whole, or all if none was."""
    return whole if (whole := steps.filter("complete")).height else steps


def is_window(run: Trace) -> bool:
    """Whether the run is limited to activities that begin in a time window, which cuts cycles."""
    return bool(run.info.facts.get(WINDOWED))


def _marked_steps(run: Trace, options: Options) -> pl.DataFrame:
    """The run's recorded or annotated cycles with a length."""
    cycles = find_cycles(run, options)
    if cycles.source not in MARKED or cycles.frame["start_ns"].null_count():
        return cycles.frame.clear()
    steps = cycles.frame.drop_nulls("dur_ns")
    return steps if options.warm_up else steps.filter(~pl.col("warm_up"))


def _counts(run: Trace) -> pl.DataFrame:
    timed = run.kernels.filter(pl.col("start_ns", "name").is_not_null(), pl.col("kind").is_in(["kernel", "collective"]))
    return timed.group_by(pl.col("name", "device").cast(pl.String), maintain_order=True).agg(
        pl.len().alias("calls"), pl.col("dur_ns").sum().alias("total"), pl.col("kind").cast(pl.String).first()
    ).collect()


def _gaps(run: Trace, name: str, device: str | None) -> Floats:
    """Times between consecutive starts of the function on that device, ms."""
    matching = pl.col("device").is_null() if device is None else pl.col("device") == device
    starts = run.kernels.filter((pl.col("name") == name) & matching).select(pl.col("start_ns").sort()).collect()
    return np.diff(starts["start_ns"].to_numpy()) / 1e6


def work_sentence(work: WorkTime) -> str:
    """The sentence on the unit of work: slower or faster per step or call, and how many calls each run holds."""
    if work.unit is None or work.time.verdict == "not comparable":
        return cycle_sentence(work.time)
    text = f"{work.time.verdict}: {units.amount(work.time.mean_a_ms, work.time.mean_b_ms)} {work.unit.what}"
    return text + f"; A holds {work.unit.units_a:,} of them, B {work.unit.units_b:,}"


def launched_earlier(runs: tuple[Trace, Trace]) -> list[str]:
    """What devices are busy with in the steps and no step launched."""
    earlier = pl.col("earlier") & (pl.col("kind") != "sync")
    took = [assignment.launched(run).filter(earlier).select(pl.col("dur_ns").sum()).collect().item() for run in runs]
    amounts = " and ".join(f"{units.duration(ns)} in {name}" for name, ns in zip("AB", took, strict=True) if ns)
    return [f"Device time launched before the recording is left out: {amounts}."] if amounts else []
