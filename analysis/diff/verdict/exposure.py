"""Whether the cycle waits for a function that got slower, from when everything on its device ran.

Exposed time is what would vanish if the function took none: its busy interval less what other functions on the device
cover. A function is exposed where that time grew and the device's growth is the cycle's; hidden where the cycle did not
grow although the function did, and either the device had idle time to absorb it or others cover it. Anything else is
not known. Collectives are left out: their time is mostly waiting for other ranks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from ...contract.options import Options
from ...core.intervals import Ints, busy_and_exposed, union
from ...core.quantiles import codes, dense
from ...cycles import assignment
from ...cycles.account import find_cycles
from ..prepare.prepared import Prepared
from ..prepare.samples import Matched, Side, Work
from ..stats.robust_location import Floats, hodges_lehmann, location_shift
from .device_work import Path

MOSTLY_BUSY = 0.9
"""Share of the cycle a device must work, in both runs, for its growth to be the cycle's."""
IDLE = 0.05
"""Share of the cycle a device must be idle for it to absorb anything."""
FACTOR = 2.2
"""Student's factor for the usual number of cycles, at 95%."""
Key = tuple[str, str | None, int | None, int | None]
"""Function, device and the pids of A and B."""


class SlowedFunction(NamedTuple):
    """A row of the diff that got slower or is new: what its path is asked by. Times in ms per cycle."""

    function: str
    device: str | None
    pid_a: int | None
    pid_b: int | None
    kind: str | None
    delta_ms: float | None
    ci_low_ms: float | None


class DeviceTime(Struct, frozen=True):
    """One device in the whole cycles of one process, ms per cycle: ``exposed`` per function, ``work`` without and
    ``busy`` with collectives (overlap counted once), and how long the cycle took.
    """

    exposed: dict[str, Floats]
    work: Floats
    busy: Floats
    cycle: Floats


def paths(ready: Prepared, slowed: list[SlowedFunction], options: Options) -> dict[Key, Path | None]:
    """'exposed', 'hidden' or None for each of the ``slowed`` rows whose devices have times; the others are left out."""
    found: dict[Key, Path | None] = {}
    theirs = {mine: name for name, mine in ready.moved.items()}
    by_device: dict[tuple[str | None, int | None, int | None], list[SlowedFunction]] = {}
    for row in slowed:
        if row.kind not in ("collective", "idle") and row.device not in (None, "Host"):
            by_device.setdefault((row.device, row.pid_a, row.pid_b), []).append(row)
    pairs = {(one.pair.a, one.pair.b): one for one in ready.matched}
    for (device, pid_a, pid_b), rows in by_device.items():
        one, name = pairs[pid_a, pid_b], str(device)
        a = _device(ready.works[0], one.a, name, one.pair.rank, options)
        b = _device(ready.works[1], one.b, theirs.get(name, name), one.pair.rank, options)
        if a is None or b is None:
            continue
        growth = _of_device(a, b, one)
        for row in rows:
            there = ready.names.get((row.function, device), row.function)
            found[row.function, device, pid_a, pid_b] = _of_function(row, a, b, there, growth)
    return found


class _DeviceGrowth(Struct, frozen=True):
    """What is known of the device as a whole; the cycle's shift in ms, at least and at most."""

    path: Path | None
    least: float
    most: float
    spare_ms: float
    idle: float


def _of_device(a: DeviceTime, b: DeviceTime, one: Matched) -> _DeviceGrowth:
    _, least, most = hodges_lehmann(one.a.cycle_ms, one.b.cycle_ms)
    low, high = _grown(a.work, b.work)
    spare = float(np.median(a.cycle - a.busy))
    idle = float(np.median(1 - b.busy / b.cycle))
    busy = min(float(np.median(side.work / side.cycle)) for side in (a, b))
    path: Path | None = None
    if low > 0 and max(0.0, most) < 0.5 * low and idle > IDLE:
        path = "hidden"
    elif low > 0 and least > 0 and (busy >= MOSTLY_BUSY or (least >= 0.5 * high and most <= 2 * high)):
        path = "exposed"
    return _DeviceGrowth(path, least, most, spare, idle)


def _of_function(
    row: SlowedFunction, a: DeviceTime, b: DeviceTime, there: str, growth: _DeviceGrowth
) -> Path | None:
    if growth.path == "hidden":
        return "hidden"
    own = row.ci_low_ms
    if own is None or own <= 0 or not np.isfinite([growth.least, growth.most]).all():
        return None
    none = np.zeros(len(a.cycle)), np.zeros(len(b.cycle))
    low, high = _grown(a.exposed.get(row.function, none[0]), b.exposed.get(there, none[1]))
    if growth.path == "exposed":
        return "exposed" if 0 < low <= growth.most else None
    still = max(0.0, growth.most) < 0.5 * own
    absorbed = growth.idle > IDLE and growth.spare_ms >= (row.delta_ms or 0.0)
    covered = high < 0.5 * own
    return "hidden" if still and (absorbed or covered) else None


def _grown(a: Floats, b: Floats) -> tuple[float, float]:
    """By how much the centre grew, at least and at most; unknown for fewer than three cycles."""
    if min(len(a), len(b)) < 3:
        return float("-inf"), float("inf")
    moved = location_shift(a[None, :], b[None, :], float(np.median([a.var(), b.var()])))
    middle = float(moved.b[0] - moved.a[0])
    margin = FACTOR * float(np.hypot(moved.error_a[0], moved.error_b[0]))
    return middle - margin, middle + margin


def _device(work: Work, side: Side, device: str, of_rank: int | None, options: Options) -> DeviceTime | None:
    """The device in the side's whole cycles; None without times, or where several processes or ranks share its name."""
    run = work.run
    if run is None or run.has("profile") or not run.has("kernels"):
        return None
    cycles = find_cycles(run, options)
    if cycles.frame.is_empty() or cycles.frame["start_ns"].null_count():
        return None
    wanted = pl.col("device").eq_missing(pl.lit(device, pl.String)) & (pl.col("kind") != "sync")
    if of_rank is not None:
        wanted &= pl.col("rank") == of_rank
    mine = run.kernels.filter(wanted)
    launched = assignment.in_cycles(run, cycles.frame, cycles.device_time).filter(wanted)
    rows = launched.select("cycle", "rank", "pid", "name", "start_ns", "dur_ns").collect(engine="streaming")
    if rows.is_empty() or rows["start_ns"].null_count() or rows["pid"].n_unique() > 1 or rows["rank"].n_unique() > 1:
        return None
    rank, numbers = rows["rank"][0], side.cycles[side.whole]
    theirs = cycles.frame if rank is None else cycles.frame.filter((pl.col("rank") == rank).fill_null(True))
    frame = theirs.filter(pl.col("cycle").is_in(numbers.tolist())).sort("cycle")
    if not len(numbers) or frame["cycle"].to_list() != numbers.tolist():
        return None
    begin, length = frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()
    if (length <= 0).any():
        return None
    every = mine.select("kind", "start_ns", "dur_ns").drop_nulls().collect(engine="streaming")
    working, busy = (
        union(some["start_ns"].to_numpy(), (some["start_ns"] + some["dur_ns"]).to_numpy())
        .within(begin, begin + length) / 1e6 for some in (every.filter(pl.col("kind") != "collective"), every)
    )
    return DeviceTime(_exposed(rows, numbers), working, busy, length / 1e6)


def _exposed(rows: pl.DataFrame, numbers: Ints) -> dict[str, Floats]:
    """Exposed ms of each function in each of these cycles (ascending); what other cycles ran covers too."""
    number, first = dense(codes(rows["name"]))
    functions, of = rows["name"].gather(pl.Series(first)).cast(pl.String), number.astype(np.int64)
    cycles, at = np.unique(rows["cycle"].to_numpy(), return_inverse=True)
    starts = rows["start_ns"].to_numpy()
    owners = len(functions) * len(cycles)
    _, alone = busy_and_exposed(starts, starts + rows["dur_ns"].to_numpy(), of * len(cycles) + at, owners)
    kept = alone.reshape(len(functions), len(cycles))[:, np.isin(cycles, numbers)] / 1e6
    return {str(name): values for name, values in zip(functions, kept, strict=True)}
