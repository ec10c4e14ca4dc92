"""Writes the sample of a list of operations: a made-up pipeline, one row per operation of a worker in a step.

    python samples/make_operations.py [file]

Two data-parallel ranks of three stages run four micro-batches as 1F1B; stage 1 of data-parallel rank 1 computes 1.6
times as long. The layout is that of ByteDance's StragglerAnalysis (``loaders/operations.py``); it needs polars.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import polars as pl

DATA, STAGES, MICRO, STEPS, WIRE = 2, 3, 4, 3, 0.002
SCHEMA = {"dp_rank": pl.Int8, "stage": pl.Int8, "step": pl.Int64, "optype": pl.Categorical, "seq_id": pl.Int32,
          "mb_id": pl.Int8, "start_ts": pl.Float32, "duration": pl.Float32}


def order(stage: int) -> list[tuple[str, int]]:
    """The forward and backward computations of a stage, in order."""
    warm = min(STAGES - stage - 1, MICRO)
    plan = [("forward", number) for number in range(warm)]
    for number in range(MICRO - warm):
        plan += [("forward", warm + number), ("backward", number)]
    return plan + [("backward", number) for number in range(MICRO - warm, MICRO)]


def step(dp: int, number: int, rng: random.Random) -> list[dict[str, Any]]:
    """The operations of one data-parallel rank in one step, without what all ranks do together."""
    rows: list[dict[str, Any]] = []

    def put(stage: int, kind: str, batch: int, start: float, end: float) -> None:
        rows.append({"dp_rank": dp, "stage": stage, "step": number, "optype": kind, "seq_id": batch, "mb_id": batch,
                     "start_ts": start, "duration": end - start})

    plans, free = [order(stage) for stage in range(STAGES)], [0.0] * STAGES
    sent: dict[tuple[str, int, int], float] = {}
    while any(plans):
        for stage, plan in enumerate(plans):
            if not plan:
                continue
            way, batch = plan[0]
            source = stage - 1 if way == "forward" else stage + 1
            if 0 <= source < STAGES:
                if (way, source, batch) not in sent:
                    continue
                arrived = max(sent[way, source, batch], free[stage]) + WIRE
                put(stage, f"{way}-recv", batch, free[stage], arrived)
                put(source, f"{way}-send", batch, sent[way, source, batch], arrived)
                free[stage] = arrived
            plan.pop(0)
            slow = 1.6 if (dp, stage) == (1, 1) else 1.0
            end = free[stage] + (0.1 if way == "forward" else 0.2) * slow * rng.uniform(0.98, 1.02)
            put(stage, f"{way}-compute", batch, free[stage], end)
            free[stage], sent[way, stage, batch] = end, end
    return rows


def main(file: Path) -> None:
    """Write the file."""
    rng, rows = random.Random(5), list[dict[str, Any]]()
    for number in range(7, 7 + STEPS):
        own = [step(dp, number, rng) for dp in range(DATA)]
        for stage in range(STAGES):
            ends = [max(row["start_ts"] + row["duration"] for row in one if row["stage"] == stage) for one in own]
            for dp, begin in enumerate(ends):
                own[dp].append({"dp_rank": dp, "stage": stage, "step": number, "optype": "grads-reduce-scatter",
                                "seq_id": 0, "mb_id": 0, "start_ts": begin, "duration": max(ends) + 0.03 - begin})
        rows += [row for one in own for row in sorted(one, key=lambda row: (row["stage"], row["start_ts"]))]
    pl.DataFrame(rows, schema=SCHEMA).write_parquet(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "operations.parquet")
