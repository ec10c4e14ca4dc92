"""Can these two runs be compared at all? Said before anything else where they cannot.

Two cycles are the same work when they run the same operators as often; kernels do not matter then, for another device
has others. Where operators are not recorded it is the device, the functions that take the time and how often they are
launched. How long anything took never counts: that may be the fault looked for. Of runs that do different work none is
called faster or slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from ....loaders.trace import Trace
from ...contract.options import Options
from ...core.text import display
from ...cycles.account import find_cycles
from ..prepare.same_work import operator_likeness
from ..prepare.samples import Matched, Side
from ..prepare.stratify import replay_reasons, replays
from ..stats.robust_location import Floats

LEAST_SHARED = 0.5
"""Below this share of device time in functions both runs have, they are different workloads."""
MOSTLY_SHARED = 0.9
LAUNCHES = 0.9
"""Below this likeness of launches per cycle, the cycles may do different work."""
OPERATORS = 0.9
"""Below this likeness of the operators' calls per cycle, the cycles do different work."""


class Comparability(Struct, frozen=True):
    """Whether two runs can be compared, how alike they are (``score``, 0-1), and what speaks against it, gravest first.

    ``shared_time`` is the share of time in functions both have, ``launch_likeness`` how far launches per cycle agree;
    ``operator_likeness`` how far the operators' calls do, which decides where it is known; None where one is not.
    """

    comparable: bool = True
    score: float | None = None
    reasons: tuple[str, ...] = ()
    shared_time: float | None = None
    launch_likeness: float | None = None
    operator_likeness: float | None = None

    @property
    def why(self) -> str:
        """The reasons as the end of a sentence."""
        return "; ".join(self.reasons)


def comparability(runs: tuple[Trace, Trace], matched: list[Matched], options: Options) -> Comparability:
    """Judge two runs by their operators, else by their devices, functions and launches."""
    reasons = [*different_devices(runs), *_different_cycles(runs, options)]
    reasons += replay_reasons((replays(runs[0]), replays(runs[1])))
    grave = bool(different_devices(runs))
    shared, alike = _shared(matched), _alike(matched)
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
    """What the operators say of the cycles being the same work; None where they are not recorded."""
    operators = operator_likeness(runs, options)
    if operators is None:
        return None
    if operators < OPERATORS:
        said = f"operators per cycle agree to {operators:.0%}: the cycles do different work"
        return Comparability(False, round(operators, 4), (said, *reasons), shared, alike, operators)
    kernels = shared is not None and shared < MOSTLY_SHARED
    told = [f"the same operators run other kernels, {shared:.0%} of their time is in common ones"] if kernels else []
    return Comparability(True, round(operators, 4), (*reasons, *told), shared, alike, operators)


def different_devices(runs: tuple[Trace, Trace]) -> list[str]:
    """One sentence where the runs were made on different products; none where either does not say."""
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
        reasons.append(f"the cycle of A is {display(a.anchor, 40)}, of B {display(b.anchor, 40)}")
    kinds = [set(side.frame["kind"].cast(pl.String).drop_nulls().unique()) for side in (a, b)]
    for here, there, name in ((kinds[0], kinds[1], "A"), (kinds[1], kinds[0], "B")):
        for kind in sorted(here - there):
            reasons.append(f"only {name} has {kind} cycles")
    return reasons


def _source(source: str | None) -> str:
    return {"recorded": "recorded steps", "annotation": "annotations", "anchor": "a host function",
            "execution": "executions of a compiled program",
            "pattern": "a repeating pattern of kernels"}.get(source or "", "another source")


def _time(one: Matched, side: Side) -> Floats:
    rows = one.on_device if one.on_device.any() else np.ones(one.functions.height, dtype=bool)
    return np.where(rows, np.nan_to_num(side.ms).sum(axis=1), 0.0)


def _shared(matched: list[Matched]) -> float | None:
    """Share of device time in functions both have, the smaller of both runs; None where neither has any time."""
    shares = []
    for one in matched:
        a, b = _time(one, one.a), _time(one, one.b)
        both = (a > 0) & (b > 0)
        if a.sum() > 0 and b.sum() > 0:
            shares.append(min(a[both].sum() / a.sum(), b[both].sum() / b.sum()))
    return float(max(shares)) if shares else None


def _without_partner(matched: list[Matched]) -> tuple[int, int]:
    """Device functions only one run has, and all of them."""
    lone = every = 0
    for one in matched:
        a, b = (time[one.on_device] > 0 for time in (_time(one, one.a), _time(one, one.b)))
        lone += int((a ^ b).sum())
        every += int((a | b).sum())
    return lone, every


def _alike(matched: list[Matched]) -> float | None:
    """Likeness of the launches per whole cycle: shared over all, weighted by each function's time per launch in A."""
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
