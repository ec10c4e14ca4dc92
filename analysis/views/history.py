"""History: step changes over many runs of one job: in which series, at which run, how large, how significant."""

from __future__ import annotations

from typing import Any

from ..contract.column import Column
from ..contract.options import Options
from ..contract.sections import Section
from ..contract.view import Answer, Runs, View
from ..history.answer import facts_of, frame_of, judged_history, run_frame, summary_of

COLUMNS = (
    Column("kind", "kind", "text", "cycle, common (the factor shared by most kernels of a run), kernel, collective, "
           "copy, op (its own device time), idle (one cause)", width=10, order=2, role="label"),
    Column("name", "series", "text", "kernel, operator or idle cause; for a renamed kernel its first name", width=24,
           order=0, elastic=True, pinned=True, role="name"),
    Column("trend", "over the runs", "series", "time per cycle in each run, scaled from min to max; changes below 4% "
           "do not fill the height", width=60, order=0, elastic=True),
    Column("steps", "steps", "text", "size of each step and the run where it appeared", width=14, order=0,
           role="label"),
    Column("mean_ns", "mean", "ns", "time per cycle, mean of the runs", width=10, order=2, role="time"),
    Column("cost_ns", "cost", "ns", "time per cycle added by its steps", width=10, order=3, signed=True),
    Column("change", "change", "fraction", "last level relative to the first; empty without steps", width=8, order=4,
           signed=True, of="of the first level"),
    Column("noise", "noise", "fraction", "run-to-run standard deviation without the common factor; empty with fewer "
           "than eight comparable runs", width=7, order=2, of="of the mean"),
    Column("runs", "runs", "number", "number of runs it appears in", width=5, order=5),
    Column("share", "share", "number", "how far it follows the common factor: 1 is fully", width=6, order=6),
    Column("at", "last step", "number", "index of the run of its last step, from 0", width=6, order=None),
)


def build(runs: Runs, options: Options) -> Answer:
    """The series of a history. Raises CannotAnswer for recordings."""
    one = judged_history(runs[0])
    frame = frame_of(one).select(column.name for column in COLUMNS)
    return Answer(frame.lazy(), facts_of(one), summary_of(one), one.history.notes)


RUN_COLUMNS = (
    Column("number", "#", "number", "number of the run, from 1", width=5, order=0, role="order"),
    Column("run", "run", "text", "name of the run", width=24, order=0, elastic=True, pinned=True, role="label"),
    Column("time", "recorded", "text", "time of recording, in UTC; empty where not recorded", width=20, order=3,
           role="label"),
    Column("cycles", "cycles", "count", "whole cycles after warm-up", width=6, order=4),
    Column("cycle_ns", "cycle", "ns", "median cycle", width=10, order=0, role="time"),
    Column("busy_ns", "busy", "ns", "device busy time per cycle", width=10, order=2),
    Column("idle_ns", "idle", "ns", "device idle time per cycle", width=10, order=2),
    Column("factor", "common", "fraction", "deviation of this run's common factor from the median run", width=8,
           order=1, signed=True, of="of the median run"),
    Column("off", "off", "count", "series more than 5 standard deviations off their level in this run", width=5,
           order=1),
    Column("not_tested", "not tested", "text", "why its times are not compared; empty if they are", width=22, order=1,
           role="label"),
    Column("flops", "FLOPs", "number", "FLOPs per cycle and rank, where shapes were recorded", width=9, order=5),
    Column("index", "index", "number", "index of the run, from 0", width=5, order=None),
)


def build_runs(runs: Runs, options: Options) -> Answer:
    """The runs of a history in their order. Raises CannotAnswer for recordings."""
    one = judged_history(runs[0])
    frame = run_frame(one).select(column.name for column in RUN_COLUMNS)
    return Answer(frame.lazy(), facts_of(one), summary_of(one), one.history.notes)


def run_details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """Details of one run: what was unusual about it."""
    from ..history.details import run_sections

    one = judged_history(runs[0])
    with one.speaking():
        return run_sections(int(row["index"]), one)


def details(row: dict[str, Any], runs: Runs, options: Options) -> list[Section]:
    """The steps of a series, each with its evidence, and its runs with what was unusual about each."""
    from ..history.details import sections

    one = judged_history(runs[0])
    with one.speaking():
        return sections(row, one)


RUNS = View("history", RUN_COLUMNS, build_runs, two_runs=False, noun="runs", details=run_details)
VIEW = View("history", COLUMNS, build, two_runs=False, noun="series", details=details, other=RUNS)
