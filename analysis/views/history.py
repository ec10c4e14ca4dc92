"""History: step changes over many runs of one job: in which series, at which run, how large, how significant."""

from __future__ import annotations

from typing import Any

from ..contract.column import Column
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, Runs, View
from ..history.answer import facts_of, frame_of, run_frame, summary_of, told

COLUMNS = (
    Column("kind", "kind", "text", "cycle, common (what moves most kernels of a run together), kernel, collective, "
           "copy, op (its own device time), idle (a cause of it)", width=10, order=2, role="label"),
    Column("name", "series", "text", "kernel, operator or cause of idle time; of a renamed kernel its first name",
           width=24, order=0, elastic=True, pinned=True, role="name"),
    Column("trend", "over the runs", "series", "time per cycle in each run, from its least to its largest; changes "
           "below 4% do not fill the height", width=60, order=0, elastic=True),
    Column("steps", "steps", "text", "size of each step, and the run it came with", width=14, order=0, role="label"),
    Column("mean_ns", "mean", "ns", "time per cycle, mean of the runs", width=10, order=2, role="time"),
    Column("cost_ns", "cost", "ns", "what its steps added to every cycle", width=10, order=3, signed=True),
    Column("change", "change", "fraction", "its last level against its first; empty where nothing stepped", width=8,
           order=4, signed=True),
    Column("noise", "noise", "fraction", "standard deviation of one run once the common factor is out; empty where it "
           "is in fewer than eight runs that can be compared", width=7, order=2),
    Column("runs", "runs", "number", "runs it is in", width=5, order=5),
    Column("share", "share", "number", "its share in the common factor: 1 follows it in full", width=6, order=6),
    Column("at", "last step", "number", "the run its last step came with", width=6, order=None),
)


def build(runs: Runs, options: Options) -> Answer:
    """The series of a history. Raises CannotAnswer for recordings."""
    one = told(runs[0])
    frame = frame_of(one).select(column.name for column in COLUMNS)
    return Answer(frame.lazy(), facts_of(one), summary_of(one), one.history.notes)


RUN_COLUMNS = (
    Column("index", "#", "number", "number of the run, from 0", width=5, order=0, role="order"),
    Column("run", "run", "text", "name of the run", width=24, order=0, elastic=True, pinned=True, role="label"),
    Column("time", "recorded", "text", "when it was recorded, in UTC; empty where the recording does not say", width=20,
           order=3, role="label"),
    Column("cycles", "cycles", "count", "whole cycles after warm-up", width=6, order=4),
    Column("cycle_ns", "cycle", "ns", "median cycle", width=10, order=0, role="time"),
    Column("busy_ns", "busy", "ns", "time per cycle in which a device ran something", width=10, order=2),
    Column("idle_ns", "idle", "ns", "time per cycle in which a device ran nothing", width=10, order=2),
    Column("factor", "common", "fraction", "how far the common factor of this run is from the usual one", width=8,
           order=1, signed=True),
    Column("off", "off", "count", "series more than five standard deviations from their level in this run", width=5,
           order=1),
    Column("not_tested", "not tested", "text", "why its times are not compared; empty where they are", width=22,
           order=1, role="label"),
    Column("flops", "FLOPs", "number", "FLOPs per cycle and rank, where shapes were recorded", width=9, order=5),
)


def build_runs(runs: Runs, options: Options) -> Answer:
    """The runs of a history in their order. Raises CannotAnswer for recordings."""
    one = told(runs[0])
    frame = run_frame(one).select(column.name for column in RUN_COLUMNS)
    return Answer(frame.lazy(), facts_of(one), summary_of(one), one.history.notes)


def run_details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """Details of one run: what was unusual about it."""
    from ..history.details import run_sections

    return run_sections(int(row["index"]), told(runs[0]))


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The steps of a series, each with its evidence, and its runs with what was unusual about each."""
    from ..history.details import sections

    return sections(row, told(runs[0]))


RUNS = View("history", RUN_COLUMNS, build_runs, two_runs=False, noun="runs", details=run_details)
VIEW = View("history", COLUMNS, build, two_runs=False, noun="series", details=details, other=RUNS)
