"""The header of the app: one line on the open run or runs.

One run: its name, number of launches (copies and sets included, as in the launches view) and kernel time. Two runs:
both names with the launches. Totals of serialised replays are marked, because they are not wall time.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import REDUCED, Trace
from ..contract.options import Options, Side
from ..core import units
from ..core.text import display


def headline(runs: tuple[Trace, ...]) -> str:
    """One line about one run or two, as display text."""
    if len(runs) == 1:
        return " · ".join([display(runs[0].info.label, 60), *_measures(runs[0])])
    return " → ".join(_side(run) for run in runs)


def _side(run: Trace) -> str:
    measures = _measures(run)
    return display(run.info.label, 36) + (f" ({measures[0]})" if measures else "")


def _measures(run: Trace) -> list[str]:
    works = ~pl.col("kind").is_in(["memcpy", "memset"])
    measured = run.kernels.filter(is_work()).select(
        pl.len(), works.sum().alias("kernels"), pl.col("dur_ns").filter(works).cast(pl.Int64).sum())
    launches, kernels, total = measured.collect(engine="streaming").row(0)
    if REDUCED in run.info.facts:
        sums = run.kernel_stats.filter(~pl.col("kind").is_in(["memcpy", "memset"]))
        launches, total = sums.select(pl.col("count").sum(), pl.col("total_ns").sum()).collect().row(0)
        return [f"{units.counted(len(run.info.ranks), 'rank', 'ranks')}, reduced",
                units.counted(launches, "launch", "launches"), f"{units.duration(total)} of kernel time"]
    if kernels:
        time = f"{units.duration(total)} of kernel time"
        return [units.counted(launches, "launch", "launches"),
                time + (", serialised replay" if run.info.serialised else "")]
    return []


def cycle_numbers(run: Trace, options: Options, side: Side = "a") -> list[int]:
    """Numbers of the run's cycles in scope, in order of time; empty if there are none."""
    from ..cycles.detection import find_cycles
    from ..cycles.scope import scoped_any_cycle

    frame = find_cycles(scoped_any_cycle(run, options, side), options).frame
    return frame["cycle"].drop_nulls().unique(maintain_order=True).to_list()
