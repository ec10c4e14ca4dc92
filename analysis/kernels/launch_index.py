"""All launches of a run by kernel, and their callers.

One sort groups the durations of every kernel; a list row is then a slice. For five million launches the sort takes
about a second once, and each row about 10 µs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME, is_work
from ...loaders.trace import Trace
from ..core.callers import callers_of, operators_of_launches
from ..core.derived import derived
from ..core.quantiles import Ints, codes, combined, dense, latencies
from .sources import KEYS, Grain, places

_NONE = np.zeros(0, dtype=np.int64)


class LaunchIndex(Struct, frozen=True):
    """Groups of launches with the same (name, kind, device, rank): ``kernels`` maps a name to its group numbers and
    keys. The durations (ns) of group g are ``sorted_ns[starts[g]:ends[g]]``. ``ways`` has one row per group with a list
    of its callers, most time first: ``CALLERS``, ``count``, ``total_ns``; None if no callers are known."""

    kernels: dict[str, list[tuple[int, dict[str, Any]]]]
    sorted_ns: Ints
    starts: Ints
    ends: Ints
    ways: pl.DataFrame | None

    def groups(self, name: str, **keys: Any) -> list[int]:
        """The groups of that name with these ``kind device rank``; a key that is None matches any."""
        wanted = {key: value for key, value in keys.items() if value is not None}
        return [number for number, own in self.kernels.get(name, ())
                if all(own[key] == value for key, value in wanted.items())]

    def durations(self, groups: list[int]) -> Ints:
        """The durations of these groups, sorted, ns."""
        parts = [self.sorted_ns[self.starts[one] : self.ends[one]] for one in groups]
        if len(parts) < 2:
            return parts[0] if parts else _NONE
        return np.sort(np.concatenate(parts))

    def callers(self, groups: list[int]) -> pl.DataFrame:
        """The callers of these groups (``CALLERS``, ``count``, ``total_ns``), most time first; empty if unknown."""
        if self.ways is None or not groups:
            return pl.DataFrame(schema=[*CALLERS, "count", "total_ns"])
        matching = self.ways[groups[0] : groups[0] + 1] if len(groups) == 1 else self.ways[groups]
        rows = matching.explode("ways").unnest("ways").drop("group")
        if len(groups) == 1:
            return rows
        summed = rows.group_by(CALLERS).agg(pl.col("count").sum(), pl.col("total_ns").sum())
        return summed.sort("total_ns", "count", descending=True)


def launch_index(run: Trace, scope: Trace, with_ways: bool = True) -> LaunchIndex:
    """The launches of ``scope``, the run or a part of it. Launches without a duration are left out."""
    timed = scope.kernels.filter(is_work(), pl.col("dur_ns").is_not_null())
    rows = timed.select("index", *KEYS, "dur_ns").collect(engine="streaming")
    if rows.is_empty():
        return LaunchIndex({}, _NONE, _NONE, _NONE, None)
    group_of, first = dense(combined([codes(rows[key]) for key in KEYS]))
    spans = latencies(group_of, np.maximum(rows["dur_ns"].to_numpy(), 0), len(first))
    kernels: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for number, (name, kind, device, rank) in enumerate(
        rows[first].select(*(pl.col(key).cast(pl.String) for key in KEYS[:3]), "rank").rows()
    ):
        kernels.setdefault(name, []).append((number, {"kind": kind, "device": device, "rank": rank}))
    ways = _ways(run, rows, pl.Series("group", group_of), len(first)) if with_ways else None
    return LaunchIndex(kernels, _small(spans.sorted_ns), spans.starts, spans.ends, ways)


def _small(values: Ints) -> Ints:
    """As uint32, half the memory, if the values fit."""
    return values.astype(np.uint32) if len(values) and values.max() < 1 << 32 else values


def _ways(run: Trace, rows: pl.DataFrame, group: pl.Series, groups: int) -> pl.DataFrame | None:
    """One row per group, in order, with its callers as a list."""
    called = with_callers(run, rows.lazy().select("index", "dur_ns"), "dur_ns")
    if called is None or all(called[name].null_count() == called.height for name in CALLERS):
        return None
    summed = ways(called.with_columns(group.cast(pl.Int64)), "group").with_columns(pl.col(CALLERS).cast(pl.String))
    listed = summed.group_by("group", maintain_order=True).agg(ways=pl.struct(*CALLERS, "count", "total_ns"))
    return pl.DataFrame({"group": range(groups)}).join(listed, on="group", how="left", maintain_order="left")


CALLERS = ("op", "op_forward", "module", "frame")  # The columns that identify a caller, innermost first.


def with_callers(run: Trace, launches: pl.LazyFrame, *columns: str) -> pl.DataFrame | None:
    """These columns of some launches, plus their ``CALLERS``; None if no callers are known."""
    callers = callers_of(run)
    if callers is None:
        return None
    every = run.kernels.select("index").collect(engine="streaming").hstack(callers.frame.select(CALLERS))
    some = launches.select("index", *columns).collect(engine="streaming")
    if some.height == every.height and some["index"].equals(every["index"]):
        return some.hstack(every.drop("index"))
    return some.join(every, on="index", how="left", maintain_order="left")


def commonest(run: Trace, launches: pl.LazyFrame, grain: Grain) -> pl.DataFrame:
    """``KEYS`` and ``op``, the operator behind most launches of each kernel; the first by name in a tie."""
    if launches is run.kernels:
        return derived(run, f"kernel-operators-by-{grain}", lambda: _commonest(_with_operators(run), grain))
    return _commonest(with_callers(run, launches, *KEYS), grain)


def _with_operators(run: Trace) -> pl.DataFrame | None:
    """``KEYS`` and ``op`` of every launch."""
    operators = operators_of_launches(run)
    return None if operators is None else run.kernels.select(KEYS).collect(engine="streaming").with_columns(operators)


def _commonest(rows: pl.DataFrame | None, grain: Grain) -> pl.DataFrame:
    if rows is None:
        return pl.DataFrame(schema=dict.fromkeys((*KEYS, "op"), NAME) | {"rank": pl.Int64()})
    counted = rows.lazy().with_columns(places(grain)).drop_nulls("op").group_by(*KEYS, "op").len()
    first = counted.sort("len", pl.col("op").cast(pl.String), descending=[True, False])
    return first.unique(KEYS, keep="first", maintain_order=True).drop("len").collect()


def ways(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Count and time of launches per operator, module and frame: ``keys``, ``CALLERS``, count, total_ns, largest total
    first."""
    summed = rows.group_by(*keys, *CALLERS).agg(count=pl.len(), total_ns=pl.col("dur_ns").sum())
    names = [pl.col(name).cast(pl.String) for name in CALLERS]
    return summed.sort("total_ns", "count", *names, descending=[True, True, *[False] * len(CALLERS)])
