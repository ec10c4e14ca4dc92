"""One row per rank (cycles, how busy its device was, waits), and ranks by cycles: how long each was waited for.

``caused_wait_ns`` is what all others waited at the collectives at which this rank came last, ``lead_ns`` how far behind
the second last it came there, ``behind_ns`` how long after the first rank it begins its cycles. A run without ranks has
a row for each device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import REDUCED, Trace
from ..communication.arrivals import Arrivals
from ..communication.devices import communication
from ..contract.options import Options
from ..core.intervals import union
from ..cycles.assignment import row_at
from ..cycles.detection import spoken_of
from .beginnings import Beginnings
from .memory import memory_of, of_place


def by_rank(run: Trace, arrivals: Arrivals, options: Options, begun: Beginnings) -> pl.DataFrame:
    """The rows, the one for which the others waited most first; null is what was not recorded."""
    busy = _busy(run)
    talk = {(one.rank, one.device): one for one in communication(run)}
    lengths = spoken_of(run, options).frame.drop_nulls("dur_ns").group_by("rank").agg(pl.col("dur_ns").mean())
    cycles = dict(lengths.rows())  # under None that of a run whose cycles name no rank
    hosts = run.info.facts.get("hosts") or {}
    waited = _waited(arrivals)
    place = {(one.rank, one.device): number for number, one in enumerate(arrivals.members)}
    memory, behind = memory_of(run), begun.of_ranks
    rows: list[dict[str, Any]] = []
    for who in sorted({*busy, *place}, key=lambda who: (who[0] is None, who[0] or 0, len(who[1] or ""), who[1] or "")):
        rank, device = who
        spoken = talk.get(who)
        at, taken = place.get(who), of_place(memory, rank, device)
        rows.append({
            "rank": rank, "device": device,
            "host": hosts.get(str(rank), run.info.facts.get("host_name") if len(run.info.ranks) < 2 else None),
            "cycle_ns": cycles.get(rank, cycles.get(None)), "busy_ns": busy.get(who),
            "behind_ns": behind.get(rank),
            "comm_ns": spoken.comm_ns if spoken else None, "exposed_ns": spoken.exposed_ns if spoken else None,
            "clock_offset_ns": _known(arrivals.clocks.offset, at),
            "clock_residual_ns": _known(arrivals.clocks.residual, at),
            "memory_peak": taken.peak, "memory_reserved": taken.reserved, "memory_share": taken.share,
            **waited.get(at, NOTHING if at is None else {**NOTHING, "last_count": 0}),
        })
    frame = pl.DataFrame(rows, schema=SCHEMA)
    return frame.sort("caused_wait_ns", "rank", "device", descending=[True, False, False], nulls_last=True)


NOTHING = dict.fromkeys(("wait_ns", "caused_wait_ns", "lead_ns", "last_count", "matched"))
SCHEMA: dict[str, Any] = {
    "rank": pl.Int64, "device": pl.String, "host": pl.String, "cycle_ns": pl.Float64, "busy_ns": pl.Int64,
    "comm_ns": pl.Int64, "exposed_ns": pl.Int64, "wait_ns": pl.Int64, "caused_wait_ns": pl.Int64,
    "lead_ns": pl.Float64, "behind_ns": pl.Float64, "last_count": pl.Int64, "clock_offset_ns": pl.Float64,
    "clock_residual_ns": pl.Float64, "matched": pl.Int64,
    "memory_peak": pl.Float64, "memory_reserved": pl.Float64, "memory_share": pl.Float64,
}


def _known(values: np.ndarray[tuple[int], np.dtype[np.float64]], at: int | None) -> float | None:
    return None if at is None or np.isnan(values[at]) else float(values[at])


def _busy(run: Trace) -> dict[tuple[int | None, str | None], int]:
    """Time in which each device of each rank ran anything, ns."""
    if REDUCED in run.info.facts:
        known = run.device_sums.select("rank", pl.col("device").cast(pl.String), "busy_ns").collect(engine="streaming")
        return {(rank, device): busy for rank, device, busy in known.rows()}
    rows = (
        run.kernels.filter(pl.col("kind") != "sync").select("rank", "device", "start_ns", "dur_ns")
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    made = {}
    for (rank, device), group in rows.group_by("rank", "device"):
        starts = group["start_ns"].to_numpy()
        made[rank, device] = union(starts, starts + np.maximum(group["dur_ns"].to_numpy(), 0)).length
    return made


def _waited(arrivals: Arrivals) -> dict[int | None, dict[str, int]]:
    rows = arrivals.frame.drop_nulls("instance").group_by("member").agg(
        pl.col("wait_ns").sum(), pl.col("caused_ns").sum().alias("caused_wait_ns"),
        pl.col("lead_ns").filter("last").median(), pl.col("last").sum().cast(pl.Int64).alias("last_count"),
        pl.len().cast(pl.Int64).alias("matched"),
    )
    return {row.pop("member"): row for row in rows.to_dicts()}


MOST_RANKS, MOST_PARTS = 32, 120
_PARTS = 60  # Equal parts of the run where it has no cycles.


def heat_of(run: Trace, arrivals: Arrivals, options: Options) -> dict[str, Any] | None:
    """``ranks`` (names, the most waited for first), ``parts`` (what a column is) and ``caused_ns``, a list a rank. None
    where nothing was waited for. Of many cycles neighbours are summed; ranks nobody waited for are left out."""
    came_last = arrivals.frame.filter(pl.col("last").fill_null(False))
    last = came_last.select("member", "arrival_ns", "start_ns", "caused_ns")
    if last.is_empty():
        return None
    cycles = spoken_of(run, options).frame.drop_nulls(["start_ns", "dur_ns"])
    ranks = pl.Series([arrivals.members[member].rank for member in last["member"]], dtype=pl.Int64)
    parts = "cycle"
    if cycles.is_empty():
        times = last["arrival_ns"].to_numpy()
        span = max(float(times.max() - times.min()), 1.0)
        column = np.minimum(((times - times.min()) / span * _PARTS).astype(np.int64), _PARTS - 1)
        parts = "part of the run"
    else:
        row = row_at(last["start_ns"], ranks, cycles, ("start_ns", "dur_ns"))
        order = cycles["cycle"].rank("dense").cast(pl.Int64).to_numpy() - 1
        column = np.where(row >= 0, order[row], -1)
    width = int(column.max(initial=0)) + 1
    each = -(-width // MOST_PARTS)
    grid = np.zeros((len(arrivals.members), -(-width // each)), dtype=np.int64)
    inside = column >= 0
    np.add.at(grid, (last["member"].to_numpy()[inside], column[inside] // each), last["caused_ns"].to_numpy()[inside])
    sums = grid.sum(axis=1)
    chosen = [int(one) for one in np.argsort(-sums, kind="stable")[:MOST_RANKS] if sums[one]]
    return {
        "parts": parts if each == 1 else f"{each} {parts}s", "ranks": [arrivals.members[one].text for one in chosen],
        "caused_ns": grid[chosen].tolist(),
    }
