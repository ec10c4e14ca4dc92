"""The work of each device per cycle, and whether the cycle waits for a function that got slower.

Extra work of a device is hidden behind the host if the cycle takes no longer, exposed if the cycle grows by as much. In
between nothing is claimed.

The time of a function alone is what would vanish if it took none: its busy interval minus what other functions on the
device cover. A function is exposed if that time grew and its device is exposed; hidden if the cycle did not grow
although the function did, and either the device had idle time to absorb it or other functions cover it. Collectives are
left out: their time is mostly waiting for other ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import force_setattr, replace
from numpy.typing import NDArray

from ...loaders.schema import is_work
from ..contract.options import SIDES, Options
from ..core.intervals import Ints, busy_and_alone, union
from ..core.quantiles import codes, dense
from ..cycles import assignment
from ..cycles.detection import find_cycles
from ..cycles.whole import steps_in_scope
from .cycle_time import CycleTime
from .function_change import FunctionChange
from .judge import Floats, Judgement, Word, judge
from .prepare.prepared import Prepared
from .prepare.samples import HOST, Matched, RunSamples, Work

CHANGED = 0.03  # Work per cycle or per launch that changed by at most this share counts as unchanged.
Path = Literal["exposed", "hidden"]
Flags = NDArray[np.bool_]


class DeviceWork(Struct, frozen=True):
    """One device of one pair of processes: compute time per cycle (without collectives), launches, and idle share (in
    the steps, as in every view; from totals per cycle if activities have no timestamps). ``path`` says whether the
    cycle waits for the extra work, ``others_waited_for`` that idle time may be waiting for other ranks."""

    device: str | None
    pid_a: int | None
    pid_b: int | None
    busy_a_ms: float
    busy_b_ms: float
    ci_low_ms: float | None = None
    ci_high_ms: float | None = None
    launches_a: float | None = None
    launches_b: float | None = None
    communication_a_ms: float = 0.0
    communication_b_ms: float = 0.0
    idle_a: float | None = None
    idle_b: float | None = None
    path: Path | None = None
    others_waited_for: bool = False
    ratio: float | None = None
    per_launch_ratio: float | None = None
    delta_ms: float = 0.0
    rank: int | None = None
    verdict: Word = "not judged"

    def __post_init__(self) -> None:
        busy = self.busy_b_ms / self.busy_a_ms if self.busy_a_ms else None
        each = busy * self.launches_a / self.launches_b if busy and self.launches_a and self.launches_b else None
        for name, value in (
            ("ratio", busy), ("per_launch_ratio", each), ("delta_ms", self.busy_b_ms - self.busy_a_ms)
        ):
            force_setattr(self, name, value)

    @property
    def only_in(self) -> Literal["A", "B"] | None:
        """The only run that used the device; None if both or neither did."""
        a, b = self.busy_a_ms or self.communication_a_ms, self.busy_b_ms or self.communication_b_ms
        return None if bool(a) == bool(b) else "A" if a else "B"

    @property
    def slower(self) -> bool:
        """Whether its launches take longer; if they were not counted, whether it works longer."""
        return self._grown is not None and self._grown > 1 + CHANGED

    @property
    def faster(self) -> bool:
        """Whether its launches take less time; if they were not counted, whether it works less."""
        return self._grown is not None and self._grown < 1 - CHANGED

    @property
    def _grown(self) -> float | None:
        return self.per_launch_ratio if self.per_launch_ratio is not None else self.ratio


def device_work(ready: Prepared, cycles: CycleTime, options: Options) -> list[DeviceWork]:
    """The work of every device of every pair of processes."""
    made = []
    steps = [None if work.run is None else steps_in_scope(work.run, options, side)
             for work, side in zip(ready.works, SIDES, strict=True)]
    busy = [{} if one is None else one.busy() for one in steps]
    busy[1] = {(rank, ready.moved.get(str(device), device)): share for (rank, device), share in busy[1].items()}
    for one in ready.matched:
        names = one.functions["device"]
        for device in names.filter(one.on_device).unique(maintain_order=True):
            rows: Flags = np.array([name == device for name in names], dtype=bool) & one.on_device
            work = _of_device(one, device, rows, ready.same.proved)
            if work is None:
                continue
            a, b = (next((share for (rank, name), share in side.items() if name == device
                          and one.pair.rank in (None, rank)), None) for side in busy)
            if a is not None and b is not None:
                work = replace(work, idle_a=1 - a, idle_b=1 - b)
            else:  # idle share from totals, in which a collective counts with its transfer only
                work = replace(work, others_waited_for=bool(ready.timings))
            made.append(replace(work, path=_path(work, cycles)))
    in_both = {(one.rank, one.device) for one in made if one.only_in is None}
    return [one for one in made if one.only_in is None or (one.rank, one.device) not in in_both]


def work_of_sums(rows: Sequence[FunctionChange], cycles: CycleTime | None = None) -> tuple[DeviceWork, ...]:
    """Device time per device, summed over its functions, and its idle share of the mean cycle if that is known."""
    sums: dict[tuple[str | None, int | None, int | None], tuple[float, float]] = {}
    for row in rows:
        if row.device != HOST:
            key = row.device, row.pid_a, row.pid_b
            a, b = sums.get(key, (0.0, 0.0))
            sums[key] = a + (row.a_ms or 0.0), b + (row.b_ms or 0.0)

    def idle(busy_ms: float, cycle_ms: float | None) -> float | None:
        return 1 - busy_ms / cycle_ms if cycle_ms and 0 <= busy_ms <= cycle_ms else None

    mean_a, mean_b = (cycles.mean_a_ms, cycles.mean_b_ms) if cycles else (None, None)
    return tuple(DeviceWork(*key, a, b, idle_a=idle(a, mean_a), idle_b=idle(b, mean_b)) for key, (a, b) in sums.items())


def _of_device(one: Matched, device: str | None, rows: Flags, judged: bool) -> DeviceWork | None:
    collective: Flags = np.array([kind == "collective" for kind in one.functions["kind"]], dtype=bool)
    computing, communicating = rows & ~collective, rows & collective
    a, b = (_busy(side, computing) for side in (one.a, one.b))
    if not len(a) or not len(b):
        return None
    one_judged = judge(a, b)
    launches = [side.launches[computing].sum(axis=0)[_fully_measured(side, computing)][used] for side, used in (
        (one.a, one_judged.used_a), (one.b, one_judged.used_b))]
    together = [float(_busy(side, rows).mean()) for side in (one.a, one.b)]
    cycle = [float(side.cycle_ms.mean()) for side in (one.a, one.b)]
    idle = [1 - busy / length if 0 < busy <= length else None for busy, length in zip(together, cycle, strict=True)]
    communication = [
        float(_busy(side, communicating).mean()) if communicating.any() else 0.0 for side in (one.a, one.b)
    ]
    return DeviceWork(
        device, one.pair.a, one.pair.b, one_judged.a, one_judged.b, one_judged.low, one_judged.high,
        float(launches[0].mean()), float(launches[1].mean()), communication[0],
        communication[1], idle[0], idle[1], rank=one.pair.rank, verdict=one_judged.word if judged else "not judged",
    )


def _fully_measured(side: RunSamples, rows: Flags) -> Flags:
    result: Flags = np.asarray(~np.isnan(side.ms[rows]).any(axis=0), dtype=np.bool_)
    return result


def _busy(side: RunSamples, rows: Flags) -> Floats:
    busy: Floats = side.ms[rows].sum(axis=0)[_fully_measured(side, rows)]
    return busy


def _path(work: DeviceWork, cycles: CycleTime) -> Path | None:
    """'exposed', 'hidden', or None where it cannot be known from cycle and device times."""
    low, high = work.ci_low_ms, work.ci_high_ms
    shift_low, shift_high = cycles.mean_low_ms, cycles.mean_high_ms
    if low is None or high is None or shift_low is None or shift_high is None or low <= 0:
        return None
    if max(0.0, shift_high) < 0.5 * low and work.idle_b is not None and work.idle_b > 0.05:
        return "hidden"
    if shift_low >= 0.5 * high:
        return "exposed" if shift_high <= 2 * high else None
    return None


def agreed(work: DeviceWork, paths: Iterable[str | None]) -> DeviceWork:
    """The device with the path of its slower functions if that is the same for all; with None if theirs contradict its
    own. A screen whose rows all say "hidden" must not say "unknown" above them, unless the device is never idle."""
    distinct = set(paths)
    if distinct == {"hidden"} and (work.idle_b is None or work.idle_b > IDLE):
        return replace(work, path="hidden")
    if distinct == {"exposed"}:
        return replace(work, path="exposed")
    return work if not distinct or distinct == {None} or work.path in distinct else replace(work, path=None)


MOSTLY_BUSY = 0.9  # Share of the cycle a device must work, in both runs, for its growth to explain the cycle's.
IDLE = 0.05  # Share of the cycle a device must be idle to absorb extra work.
Key = tuple[str, str | None, int | None, int | None]  # Function, device and the pids of A and B.


class DeviceTime(Struct, frozen=True):
    """One device in the whole cycles of one process, ms a cycle: ``alone`` per function, ``work`` without and ``busy``
    with collectives (overlap counted once), and ``cycle``, the cycle time.
    """

    alone: dict[str, Floats]
    work: Floats
    busy: Floats
    cycle: Floats


def paths(ready: Prepared, slowed: list[FunctionChange], options: Options) -> dict[Key, Path | None]:
    """'exposed', 'hidden' or None for each ``slowed`` row whose device has timestamps; other rows are left out."""
    result: dict[Key, Path | None] = {}
    theirs = {mine: name for name, mine in ready.moved.items()}
    by_device: dict[tuple[str | None, int | None, int | None], list[FunctionChange]] = {}
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
        least, most = _grown(one.a.cycle_ms, one.b.cycle_ms)
        low, high = _grown(a.work, b.work)
        spare = float(np.median(a.cycle - a.busy))
        idle = float(np.median(1 - b.busy / b.cycle))
        busy = min(float(np.median(side.work / side.cycle)) for side in (a, b))
        path: Path | None = None
        if low > 0 and max(0.0, most) < 0.5 * low and idle > IDLE:
            path = "hidden"
        elif low > 0 and least > 0 and (busy >= MOSTLY_BUSY or (least >= 0.5 * high and most <= 2 * high)):
            path = "exposed"
        growth = _DeviceGrowth(path, least, most, spare, idle)
        for row in rows:
            there = ready.names.get((row.function, device), row.function)
            result[row.function, device, pid_a, pid_b] = _of_function(row, a, b, there, growth)
    return result


class _DeviceGrowth(Struct, frozen=True):
    """The device as a whole: its path, spare ms per cycle and idle share; ``least`` and ``most`` bound the cycle's
    shift in ms."""

    path: Path | None
    least: float
    most: float
    spare_ms: float
    idle: float


def _of_function(row: FunctionChange, a: DeviceTime, b: DeviceTime, there: str, growth: _DeviceGrowth) -> Path | None:
    if growth.path == "hidden":
        return "hidden"
    own = row.ci_low_ms
    if own is None or own <= 0 or not np.isfinite([growth.least, growth.most]).all():
        return None
    none = np.zeros(len(a.cycle)), np.zeros(len(b.cycle))
    low, high = _grown(a.alone.get(row.function, none[0]), b.alone.get(there, none[1]))
    if growth.path == "exposed":
        return "exposed" if 0 < low <= growth.most else None
    still = max(0.0, growth.most) < 0.5 * own
    absorbed = growth.idle > IDLE and growth.spare_ms >= (row.delta_ms or 0.0)
    covered = high < 0.5 * own
    return "hidden" if still and (absorbed or covered) else None


def _grown(a: Floats, b: Floats) -> tuple[float, float]:
    """Lower and upper end of the growth of the mean; infinite with fewer than three cycles."""
    one: Judgement | None = judge(a, b) if min(len(a), len(b)) >= 3 else None
    if one is None or one.low is None or one.high is None:
        return float("-inf"), float("inf")
    return one.low, one.high


def _device(work: Work, side: RunSamples, device: str, of_rank: int | None, options: Options) -> DeviceTime | None:
    """The device in the side's whole cycles; None without timestamps, or if processes or ranks share its name."""
    run = work.run
    if run is None or run.has("profile") or not run.has("kernels"):
        return None
    cycles = find_cycles(run, options)
    if cycles.frame.is_empty() or cycles.frame["start_ns"].null_count():
        return None
    wanted = pl.col("device").eq_missing(pl.lit(device, pl.String)) & is_work()
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
    return DeviceTime(_alone(rows, numbers), working, busy, length / 1e6)


def _alone(rows: pl.DataFrame, numbers: Ints) -> dict[str, Floats]:
    """The ms alone of each function in each of these cycles (ascending); activities of other cycles cover it too."""
    number, first = dense(codes(rows["name"]))
    functions, of = rows["name"].gather(pl.Series(first)).cast(pl.String), number.astype(np.int64)
    cycles, at = np.unique(rows["cycle"].to_numpy(), return_inverse=True)
    starts = rows["start_ns"].to_numpy()
    owners = len(functions) * len(cycles)
    _, alone = busy_and_alone(starts, starts + rows["dur_ns"].to_numpy(), of * len(cycles) + at, owners)
    times = alone.reshape(len(functions), len(cycles))[:, np.isin(cycles, numbers)] / 1e6
    return {str(name): values for name, values in zip(functions, times, strict=True)}
