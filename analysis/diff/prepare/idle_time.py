"""Idle time as rows of the matrices: how long each device was idle, by cause, in each cycle's window.

A row counts as one launch per cycle, so its time per launch is its time per cycle. Where the recording does not cover a
window, or the cycle was not recorded whole, it is NaN. Runs are compared by cause only if both have known causes.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec.structs import replace

from ....loaders.trace import Trace
from ...contract.options import Options
from ...core.derived import derived, is_stored
from ...cycles.detection import find_cycles
from ...idle.cause_meanings import CAUSES, idle_name
from ..judge import Floats
from .samples import IDLE, Flags, Matched, RunSamples, Work

MOSTLY = 0.5  # A device with more than this share of idle time of unknown cause gets one row for all causes.
UNKNOWN = "unknown"
_Idle = dict[tuple[int | None, str | None], pl.DataFrame]
"""By (rank, device as A names it): ``cycle cause dur_ns covered``."""


def with_idle_time(
    matched: list[Matched], works: tuple[Work, Work], moved: dict[str, str], options: Options
) -> list[Matched]:
    """The pairs with rows of kind ``idle`` for every device whose idle time both runs have; ``moved`` maps B's devices
    to A's names.
    """
    if works[0].run is None or works[1].run is None:
        return matched
    sides = _by_device(works[0].run, {}, options), _by_device(works[1].run, moved, options)
    taken: dict[int, list[tuple[pl.DataFrame, pl.DataFrame, str | None]]] = {}
    for (rank, device), idle_a in sides[0].items():
        place = _busiest(matched, rank, device)
        idle_b = sides[1].get((rank, device))
        if idle_b is None:  # outside a job the same device may have another rank in B
            others = [one for (_, name), one in sides[1].items() if name == device]
            idle_b = others[0] if len(others) == 1 else None
        if place is not None and idle_b is not None:
            taken.setdefault(place, []).append((idle_a, idle_b, device))
    return [_with_rows(one, taken[at]) if at in taken else one for at, one in enumerate(matched)]


def mean_idle_time(run: Trace, options: Options) -> dict[tuple[str | None, str], float]:
    """Idle ms per cycle by (device, cause); without devices whose causes are mostly unknown."""
    result: dict[tuple[str | None, str], float] = {}
    for (_, device), frame in _by_device(run, {}, options).items():
        covered = frame.filter("covered") if frame["covered"].any() else frame
        if not covered.is_empty() and _causes_known(frame):
            for cause, spent in covered.group_by("cause").agg(pl.col("dur_ns").sum()).rows():
                key = device, cause
                result[key] = result.get(key, 0.0) + spent / 1e6 / covered["cycle"].n_unique()
    return result


def _by_device(run: Trace, moved: dict[str, str], options: Options) -> _Idle:
    def compute() -> pl.DataFrame:
        from ...idle.by_cycle import idle_by_cycle  # imported late: cycle profiles never need it

        cycles = find_cycles(run, options)
        return idle_by_cycle(run, cycles.frame, cycles.times)

    if run.has("profile"):
        return {}
    table = derived(run, "idle-cycles", compute) if is_stored(run) and options.cycle_anchor is None else compute()
    table = table.with_columns(pl.col("device", "cause").cast(pl.String)).with_columns(pl.col("device").replace(moved))
    groups = table.group_by("rank", "device", maintain_order=True)
    return {(rank, device): rows for (rank, device), rows in groups}


def _busiest(matched: list[Matched], rank: int | None, device: str | None) -> int | None:
    """Index of the pair whose process works most on that device; None if none does."""
    best, most = None, 0.0
    for at, one in enumerate(matched):
        if one.pair.rank is None or one.pair.rank == rank:
            rows = one.on_device & one.functions["device"].eq_missing(device).to_numpy()
            busy = float(np.nansum(one.a.ms[rows]) + np.nansum(one.b.ms[rows]))
            if busy > most:
                best, most = at, busy
    return best


def _with_rows(one: Matched, devices: list[tuple[pl.DataFrame, pl.DataFrame, str | None]]) -> Matched:
    """The pair with the idle rows of these devices appended to its functions."""
    rows: list[tuple[str, str | None, str]] = []
    a, b = list[Floats](), list[Floats]()
    for *frames, device in devices:
        have_causes = all(_causes_known(frame) for frame in frames)
        causes = [cause for cause in CAUSES if any((frame["cause"] == cause).any() for frame in frames)]
        for cause in causes if have_causes else [UNKNOWN]:
            rows.append((idle_name(cause), device, IDLE))
            a.append(_per_cycle(one.a, frames[0], cause if have_causes else None))
            b.append(_per_cycle(one.b, frames[1], cause if have_causes else None))
    names = pl.DataFrame(rows, schema=one.functions.schema, orient="row")
    return replace(
        one, functions=pl.concat([one.functions, names]), a=_below(one.a, np.stack(a)), b=_below(one.b, np.stack(b))
    )


def _causes_known(frame: pl.DataFrame) -> bool:
    unknown = frame.filter(pl.col("cause") == UNKNOWN)["dur_ns"].sum()
    return float(unknown) <= MOSTLY * float(frame["dur_ns"].sum())


def _per_cycle(side: RunSamples, frame: pl.DataFrame, cause: str | None) -> Floats:
    """Idle ms in each of the side's cycles by that cause (None: by all causes); NaN where not recorded."""
    matching = frame if cause is None else frame.filter(pl.col("cause") == cause)
    sums = dict(matching.group_by("cycle").agg(pl.col("dur_ns").sum()).rows())
    covered = frame.filter("covered")["cycle"].unique()
    recorded: Flags = side.whole & np.isin(side.cycles, covered.to_numpy())
    ms = np.array([sums.get(cycle, 0) / 1e6 for cycle in side.cycles.tolist()], dtype=np.float64)
    return np.where(recorded, ms, np.nan)


def _below(side: RunSamples, idle: Floats) -> RunSamples:
    once = np.where(np.isnan(idle), np.nan, 1.0)
    return replace(side, ms=np.concatenate([side.ms, idle]), launches=np.concatenate([side.launches, once]))
