"""Kernels that were only swapped under one operator, in runs without cycles: the operator's calls are the samples.

A library that chooses other kernels, or another vendor's library, makes some kernels new and others gone. If anything
changed it is the time of their operator, so its calls are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from ....loaders.schema import NAME
from ....loaders.trace import Trace
from ..stats.robust_location import Floats
from .renamed import AS_OFTEN, Place

MOST_TOGETHER = 3  # Most operators merged into one row because they launch the same kernels.


class SwappedCalls(Struct, frozen=True):
    """Time of the swapped kernels in each call of their operators on a device, ms: one operator after another, each in
    recorded order."""

    a: Floats
    b: Floats
    kernels: tuple[Place, ...]


def swapped_calls(
    runs: tuple[Trace, Trace], rows: tuple[pl.LazyFrame, pl.LazyFrame], shown: tuple[Mapping[Place, Place], ...],
    per_step: Mapping[Place, tuple[float, float]], scales: tuple[float, float],
) -> dict[Place, SwappedCalls]:
    """By (operators, device), where both runs call the operators equally often but launch some of their kernels more
    and some less. ``shown`` maps recorded kernels to the rows they count in, ``per_step`` rows to launches in A, B."""
    changed = {key for key, (a, b) in per_step.items() if abs(a - b) > AS_OFTEN * max(a, b)}
    if not changed:
        return {}
    launched = [_launched(run, frame, names, changed) for run, frame, names in zip(runs, rows, shown, strict=True)]
    result = {}
    for operators, kernels in _groups(launched):
        more = [per_step[key][1] - per_step[key][0] for key in kernels]
        a, b = (_per_call(frame, operators, kernels) for frame in launched)
        as_often = all(_as_often(len(a[one]) / scales[0], len(b[one]) / scales[1]) for one in operators)
        if as_often and min(more) < 0 < max(more):
            all_of_a, all_of_b = (np.concatenate([calls[one] for one in operators]) for calls in (a, b))
            result[" and ".join(operators), kernels[0][1]] = SwappedCalls(all_of_a, all_of_b, tuple(kernels))
    return result


def _as_often(a: float, b: float) -> bool:
    return min(a, b) > 0 and abs(a - b) <= AS_OFTEN * max(a, b)


def _groups(launched: Sequence[pl.DataFrame]) -> list[tuple[list[str], list[Place]]]:
    """Groups of operators that share swapped kernels on a device, with these kernels; groups with launches outside
    operators and groups of more than ``MOST_TOGETHER`` operators are left out."""
    every = pl.concat([frame.select("kernel", "device", "op") for frame in launched])
    counted = every.group_by("kernel", "device", "op").len().with_columns(
        share=pl.col("len") / pl.col("len").sum().over("kernel", "device")).sort("kernel", "device", "op")
    groups: list[tuple[set[str | None], set[Place]]] = []
    for (kernel, device), own in counted.group_by("kernel", "device", maintain_order=True):
        operators, kernels = set(own.filter(pl.col("share") > AS_OFTEN)["op"]), {(str(kernel), device)}
        for group in [one for one in groups if one[0] & operators and next(iter(one[1]))[1] == device]:
            groups.remove(group)
            operators, kernels = operators | group[0], kernels | group[1]
        groups.append((operators, kernels))
    return [(sorted(filter(None, ops)), sorted(kernels)) for ops, kernels in groups
            if None not in ops and len(ops) <= MOST_TOGETHER]


def _launched(run: Trace, rows: pl.LazyFrame, shown: Mapping[Place, Place], changed: set[Place]) -> pl.DataFrame:
    """``kernel device dur_ns op call`` of every launch of the changed kernels, named as their rows are."""
    wanted = [(*recorded, *key) for recorded, key in shown.items() if key in changed]
    table = pl.DataFrame(wanted, schema=["name", "device", "kernel", "on"], orient="row").cast(pl.String)
    frame = rows.filter(pl.col("kind") == "kernel", pl.col("dur_ns").is_not_null(), pl.col("name").is_in(
        table["name"].cast(NAME).unique().implode())).sort("index").collect(engine="streaming")
    frame = frame.with_columns(pl.col("name", "device").cast(pl.String)).join(
        table, on=["name", "device"], nulls_equal=True, maintain_order="left")
    if frame.is_empty() or not run.has("host"):
        return pl.DataFrame(schema={"kernel": pl.String, "device": pl.String, "dur_ns": pl.Int64, "op": pl.String,
                                    "call": pl.Int64})
    from ...core.callers import launchers  # imported late: most pairs return above

    called = launchers(run, frame["index"], ("op", "call")).cast({"op": pl.String})
    return frame.select("kernel", "dur_ns", device="on").hstack(called)


def _per_call(launched: pl.DataFrame, operators: Sequence[str], kernels: Sequence[Place]) -> dict[str, Floats]:
    """Time of these kernels in each call of each operator, ms."""
    device, names = kernels[0][1], [name for name, _ in kernels]
    matching = launched.filter(pl.col("kernel").is_in(names), pl.col("device").eq_missing(device))
    summed = matching.group_by("op", "call", maintain_order=True).agg(pl.col("dur_ns").sum() / 1e6)
    return {op: summed.filter(pl.col("op") == op)["dur_ns"].to_numpy() for op in operators}
