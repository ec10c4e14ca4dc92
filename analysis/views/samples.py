"""Samples: what each counter read, sample by sample, as recorded."""

from __future__ import annotations

import polars as pl

from ..contract.column import Column
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units

COLUMNS = (
    Column("ts_ns", "time", "ns", "when it was sampled, from the start of the trace; empty where nothing says",
           width=13, order=0, role="moment"),
    Column("metric", "metric", "text", "counter as recorded", width=26, order=0, elastic=True, pinned=True,
           role="label"),
    Column("device", "device", "text", "device it was sampled on", width=8, order=1, role="where"),
    Column("value", "value", "number", "what was read; empty where the monitor could not", width=14, order=0),
    Column("unit", "unit", "text", "unit of the value", width=5, order=1, role="where"),
    Column("pid", "process", "number", "process the sample is of; empty for the whole machine", width=8, order=4,
           role="where"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=4, role="where"),
)


def build(runs: Runs, options: Options) -> Answer:
    """The samples of one run in the order of their times."""
    run = runs[0]
    if not run.has("metrics"):
        raise CannotAnswer(f"{run.info.label} holds no samples of counters.")
    count = run.metrics.select(pl.len()).collect(engine="streaming").item()
    return Answer(
        run.metrics.select(column.name for column in COLUMNS), recorded=True,
        summary=(units.counted(count, "sample", "samples"),),
    )


VIEW = View("samples", COLUMNS, build, two_runs=False, noun="samples")
