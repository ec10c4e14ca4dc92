"""Can these two runs be compared at all? If not, that is said before anything else.

Two cycles do the same work if they run the same operators with the same shapes equally often (only operators that
launched device work, weighted by its time), or the same FLOPs. Kernels do not matter then, since another device or
library has others. Without recorded operators the device, the functions that take the time and their launches decide.
Durations never count: they may be the regression looked for. If runs do different work, neither is called faster or
slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options, Side
from ...core import units
from ...core.call_tree import Ints
from ...core.callers import callers_of
from ...core.text import display
from ...cycles.assignment import in_cycles
from ...cycles.detection import find_cycles
from ...cycles.whole import whole_cycles
from ..prepare.prepared import replay_reasons, replays
from ..prepare.samples import Matched, RunSamples
from ..stats.robust_location import Floats
from .cycle_time import CycleTime, cycle_time

LEAST_SHARED = 0.5  # Below this share of device time in functions both runs have, the workloads are different.
MOSTLY_SHARED = 0.9
LAUNCHES = 0.9  # If launches per cycle agree to less than this, the cycles may do different work.
OPERATORS = 0.9  # If operator calls per cycle agree to less than this, the cycles do different work...
FLOPS = 0.05  # ...unless their FLOPs differ by at most this share.


class Comparability(Struct, frozen=True):
    """Whether two runs can be compared, how alike they are (``score``, 0-1), and the reasons against it, gravest first.
    ``shared_time`` is the share of time in functions both have, ``launch_likeness`` the agreement of launches per
    cycle. ``operator_likeness``, the agreement of operator calls (with equal shapes, if recorded), decides where known.
    ``flops_ratio`` is FLOPs per cycle, B over A, computed only if operators differ. None where unknown."""

    comparable: bool = True
    score: float | None = None
    reasons: tuple[str, ...] = ()
    shared_time: float | None = None
    launch_likeness: float | None = None
    operator_likeness: float | None = None
    flops_ratio: float | None = None

    @property
    def why(self) -> str:
        """The reasons as the end of a sentence."""
        return "; ".join(self.reasons)

    @property
    def by_launch(self) -> bool:
        """Whether launches are compared instead of cycles: different work, but most of it in functions both have."""
        return not self.comparable and (self.shared_time is None or self.shared_time >= LEAST_SHARED)


def comparability(runs: tuple[Trace, Trace], matched: list[Matched], options: Options) -> Comparability:
    """Judge two runs by their operators, else by their devices, functions and launches."""
    reasons = [*different_devices(runs), *_different_cycles(runs, options)]
    reasons += replay_reasons((replays(runs[0]), replays(runs[1])))
    grave = bool(different_devices(runs))
    # share of device time in functions both have, the smaller of both runs
    shares = []
    for one in matched:
        a, b = _time(one, one.a), _time(one, one.b)
        both = (a > 0) & (b > 0)
        if a.sum() > 0 and b.sum() > 0:
            shares.append(min(a[both].sum() / a.sum(), b[both].sum() / b.sum()))
    shared, alike = (float(max(shares)) if shares else None), _alike(matched)
    if (judged := by_operators(runs, options, reasons, shared, alike)) is not None:
        return judged
    if shared is not None and shared < MOSTLY_SHARED:
        reasons.append(f"only {shared:.0%} of the device time is in functions both runs have")
    lone, every = _without_partner(matched)
    if lone and (shared is None or shared < MOSTLY_SHARED):
        reasons.append(f"{lone} of {every} device functions have no partner in the other run")
    if alike is not None and alike < LAUNCHES:
        reasons.append(f"launches per cycle agree to {alike:.0%}: the cycles may do different work")
    score = min([value for value in (shared, alike) if value is not None], default=1.0) * (0.5 if grave else 1.0)
    comparable = not grave and (shared is None or shared >= LEAST_SHARED) and (alike is None or alike >= LEAST_SHARED)
    return Comparability(comparable, round(score, 4), tuple(reasons), shared, alike)


def by_operators(
    runs: tuple[Trace, Trace], options: Options, reasons: Sequence[str], shared: float | None,
    alike: float | None = None,
) -> Comparability | None:
    """Comparability by the operators; None if they are not recorded."""
    operators = operator_likeness(runs, options)
    if operators is None:
        return None
    ratio = _flops_ratio(runs, options) if operators < OPERATORS else None
    judged = Comparability(True, round(operators, 4), (), shared, alike, operators, ratio)
    same_flops = ratio is not None and abs(ratio - 1) <= FLOPS
    if operators < OPERATORS and not same_flops:
        why = (f"operators per cycle agree to {operators:.0%}: the cycles do different work" if ratio is None
               else f"B does {units.factor(ratio)} the FLOPs per cycle")
        return replace(judged, comparable=False, reasons=(why, *reasons))
    notes = []
    if same_flops:
        notes.append(f"the same FLOPs per cycle, but operators and shapes agree only to {operators:.0%}")
    elif shared is not None and shared < MOSTLY_SHARED:
        notes.append(f"the same operators run different kernels: {shared:.0%} of their time is in shared ones")
    return replace(judged, reasons=(*reasons, *notes))


def _flops_ratio(runs: tuple[Trace, Trace], options: Options) -> float | None:
    """FLOPs per cycle, B over A; None if either is unknown or they cover different shares of the device time."""
    from ...work.peaks import BadPeaks  # 15 modules, not needed if the operators agree
    from ...work.roofline import per_cycle, roofline_of

    try:
        work = [(roofline_of(run), per_cycle(run, options, side).flops) for run, side in zip(runs, SIDES, strict=True)]
    except BadPeaks:
        return None
    (a, flops_a), (b, flops_b) = work
    if a is None or b is None or not flops_a or flops_b is None or a.covered is None or b.covered is None:
        return None
    return flops_b / flops_a if abs(a.covered - b.covered) <= LIKE_COVERED else None


def different_devices(runs: tuple[Trace, Trace]) -> list[str]:
    """One sentence if the runs ran on different device models; none if either does not record its model."""
    names = [sorted({device.name for device in run.info.devices if device.name}) for run in runs]
    if not names[0] or not names[1] or names[0] == names[1]:
        return []
    a, b = (", ".join(display(name, 40) for name in side) for side in names)
    return [f"different devices: A ran on {a}, B on {b}"]


def _different_cycles(runs: tuple[Trace, Trace], options: Options) -> list[str]:
    a, b = (find_cycles(run, options) for run in runs)
    reasons: list[str] = []
    if a.frame.is_empty() or b.frame.is_empty():
        return reasons
    if a.source != b.source:
        reasons.append(f"cycles of A are taken from {_source(a.source)}, of B from {_source(b.source)}")
    if a.anchor and b.anchor and a.anchor != b.anchor:
        reasons.append(f"the cycle of A is {display(a.anchor, 64)}, of B {display(b.anchor, 64)}")
    kinds = [set(side.frame["kind"].cast(pl.String).drop_nulls().unique()) for side in (a, b)]
    for here, there, name in ((kinds[0], kinds[1], "A"), (kinds[1], kinds[0], "B")):
        for kind in sorted(here - there):
            reasons.append(f"only {name} has {kind} cycles")
    return reasons


def _source(source: str | None) -> str:
    return {"recorded": "recorded steps", "annotation": "annotations", "anchor": "a host function",
            "execution": "executions of a compiled program",
            "pattern": "a repeating pattern of kernels"}.get(source or "", "another source")


def _time(one: Matched, side: RunSamples) -> Floats:
    rows = one.on_device if one.on_device.any() else np.ones(one.functions.height, dtype=bool)
    return np.where(rows, np.nan_to_num(side.ms).sum(axis=1), 0.0)


def _without_partner(matched: list[Matched]) -> tuple[int, int]:
    """The number of device functions that only one run has, and of all device functions."""
    lone = every = 0
    for one in matched:
        a, b = (time[one.on_device] > 0 for time in (_time(one, one.a), _time(one, one.b)))
        lone += int((a ^ b).sum())
        every += int((a | b).sum())
    return lone, every


def _alike(matched: list[Matched]) -> float | None:
    """Agreement of launches per whole cycle, 0-1, of the most alike pair: the smaller count over the larger, weighted
    by each function's time per launch in A (in B if A lacks it); None without device functions."""
    best = None
    for one in matched:
        counts = [np.nan_to_num(np.nanmean(np.where(side.seen, side.launches, np.nan), axis=1))
                  if side.seen.any(axis=1).all() else np.nan_to_num(side.launches).mean(axis=1)
                  for side in (one.a, one.b)]
        device = one.on_device
        if not device.any():
            continue
        each = _time(one, one.a) / np.maximum(np.nan_to_num(one.a.launches).sum(axis=1), 1)
        other = _time(one, one.b) / np.maximum(np.nan_to_num(one.b.launches).sum(axis=1), 1)
        weight = np.where(each > 0, each, other)[device]
        a, b = counts[0][device], counts[1][device]
        total = float((np.maximum(a, b) * weight).sum())
        if total > 0:
            value = float((np.minimum(a, b) * weight).sum()) / total
            best = value if best is None else max(best, value)
    return best


LEAST_CLAIMED = 0.9
"""Share of the device time in whole cycles that must have an operator for operators to decide."""
LIKE_COVERED = 0.1  # FLOPs are compared only if the shares of device time they cover differ by at most this.


def operator_likeness(runs: tuple[Trace, Trace], options: Options) -> float | None:
    """Agreement of operator calls per cycle, 0-1; None if a run does not record what launched its work."""
    shapes = all(run.has("host.shapes") for run in runs)
    sides = [_calls(run, options, side, shapes) for run, side in zip(runs, SIDES, strict=True)]
    a, b = sides
    if a is None or b is None:
        return None
    both = a.join(b, on=["op", "shapes"], how="full", suffix="_b", coalesce=True, nulls_equal=True).with_columns(
        pl.col("calls", "calls_b").fill_null(0.0), weight=pl.coalesce("ns", "ns_b"),
    )
    least, most = both.select(
        (which("calls", "calls_b") * pl.col("weight")).sum().alias(name)
        for name, which in (("least", pl.min_horizontal), ("most", pl.max_horizontal))
    ).row(0)
    return least / most if most else None


def _calls(run: Trace, options: Options, side: Side, shapes: bool) -> pl.DataFrame | None:
    """``op shapes calls ns``: operators that launched device work, calls per whole cycle, and device ns per call.
    ``shapes`` is null unless the argument asks for it."""
    cycles = whole_cycles(run, options, side)
    callers = callers_of(run) if cycles else None
    if callers is None:
        return None
    detected, some = find_cycles(run, options), cycles[0].mask
    for other in cycles[1:]:
        some = some | other.mask
    launched_by = run.kernels.select("index").collect(engine="streaming").with_columns(
        callers.frame["op"], call=pl.Series(callers.operator), shapes=_shapes(run, callers.operator, shapes))
    work = in_cycles(run, detected.frame, detected.device_time, some).filter(
        pl.col("kind").is_in(["kernel", "memcpy", "memset"])).select("index", "dur_ns")
    rows = work.join(launched_by.lazy(), on="index", how="left").collect(engine="streaming")
    claimed = rows.drop_nulls("op")
    time, total = (int(frame["dur_ns"].sum()) for frame in (claimed, rows))
    if not total or time < LEAST_CLAIMED * total:
        return None
    count = sum(one.frame.height for one in cycles)
    return claimed.group_by(pl.col("op", "shapes").cast(pl.String)).agg(
        calls=pl.col("call").n_unique() / count, ns=pl.col("dur_ns").sum() / pl.col("call").n_unique(),
    )


def _shapes(run: Trace, operator: Ints, wanted: bool) -> pl.Series:
    """The recorded shapes of these rows of the host table; null for -1."""
    if not wanted:
        return pl.repeat(None, len(operator), dtype=pl.String, eager=True)
    every = run.host.select("shapes").collect(engine="streaming")["shapes"]
    row = pl.Series(operator)
    return every.gather(pl.select(pl.when(row >= 0).then(row)).to_series())


def judged(runs: tuple[Trace, Trace], matched: list[Matched], options: Options) -> tuple[CycleTime, Comparability]:
    """The cycle time of both runs and their comparability; cached for the next view."""
    def judge() -> tuple[list[Matched], tuple[CycleTime, Comparability]]:
        comparable, cycles = comparability(runs, matched, options), cycle_time(matched)
        return matched, (cycles if comparable.comparable else cycles.of_other_work, comparable)

    return runs[0].remember("judged", (runs[1], id(matched), options), judge, most=1)[1]  # keeps ``matched``, so its id
