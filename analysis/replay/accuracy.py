"""How far a replay can be trusted: the unchanged run against its recording, and each cycle against the next one.

The total length alone proves little: since calls keep their recorded duration, even a replay without any waits ends on
time. So each cycle is also replayed with the durations and host times of the next one and compared with it; and time
that was replayed as recorded, or spent waiting without a recorded cause, is counted.
"""

from __future__ import annotations

from copy import copy
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
from msgspec import Struct

from ..core.call_tree import Ints
from .model import Knobs, Model, Outcome

PREDICTS, TRUSTED, UNKNOWN = 0.02, 0.01, 0.10
"""Largest error at which a replay predicts, and is trusted; largest share of time kept as recorded, or unexplained."""
_ALIGNED = 0.9
"""Share of the launches of two cycles that must be the same for one to be replayed with the durations of the other."""
_MOST = 5_000
"""Calls per cycle up to which two cycles with different calls are aligned."""


class Accuracy(Struct, frozen=True):
    """How far a replay of the unchanged run is from the recording.

    ``recorded_ns`` and ``replayed_ns`` are the lengths of ``cycles`` cycles with what lies between them, without cycles
    those of the recording. ``error`` is replayed / recorded − 1; ``cross_error`` the median absolute error of cycles
    replayed with the next cycle's durations against that next cycle (None without enough cycles); ``kept`` and
    ``unexplained`` are shares of the recording's length. ``reason`` says why nothing is predicted; None if the replay
    predicts.
    """

    recorded_ns: int | None = None
    replayed_ns: int | None = None
    error: float | None = None
    cross_error: float | None = None
    kept: float | None = None
    unexplained: float | None = None
    trusted: bool = False
    reason: str | None = None
    cycles: int = 0


def accuracy_of(model: Model, unchanged: Outcome) -> Accuracy:
    """The measures and the verdict."""
    count, length = max(model.cycles, 1), max(model.recording.end - model.recording.begin, 1)
    recorded, replayed = (round(count * model.cycle_ns(one)) for one in (None, unchanged))
    order, error = model.order, replayed / max(recorded, 1) - 1
    kept = sum(order.kept_ns.values()) / length
    unexplained = sum(order.unexplained_ns.values()) / length
    crossed = _crossed(model)
    reason = None
    if kept > UNKNOWN:
        reason = f"{kept:.0%} of the time is replayed as recorded: {max(order.kept_ns, key=order.kept_ns.__getitem__)}"
    elif unexplained > UNKNOWN:
        what = max(order.unexplained_ns, key=order.unexplained_ns.__getitem__)
        reason = f"{unexplained:.0%} of the time has no recorded cause: {what}"
    elif crossed is not None and crossed[0] > max(PREDICTS, crossed[1] / 2):
        reason = f"a cycle replayed with the durations of the next one is off by {crossed[0]:.1%}"
    elif abs(error) > PREDICTS:
        reason = f"the replay of the unchanged run is off by {error:+.1%}"
    return Accuracy(
        recorded, replayed, error, None if crossed is None else crossed[0], kept, unexplained,
        reason is None and abs(error) <= TRUSTED, reason, model.cycles,
    )


def _crossed(model: Model) -> tuple[float, float] | None:
    """Median error of cycles replayed with the next cycle's durations; median difference of consecutive cycles.

    The first cycle is left out: it began before the recording did.
    """
    rows = [one for one in model.cycle_rows if len(one) > 2]
    if not rows:
        return None
    knobs, pairs = copy(model.recorded), list[tuple[int, int, int]]()
    knobs.gap, knobs.length, knobs.dur = knobs.gap.copy(), knobs.length.copy(), knobs.dur.copy()
    of_cycle, key = _calls_by_cycle(model)
    for number, cycles in enumerate(rows):
        whole = [place for place in range(1, len(cycles)) if len(of_cycle[cycles[place]])]
        step = max(1, len(whole) // 50)
        for place, other in list(zip(whole, [*whole[1:], *whole[:1]], strict=True))[::step] if len(whole) > 1 else ():
            x, y = of_cycle[cycles[place]], of_cycle[cycles[other]]
            same = _aligned(key[x], key[y])
            if same is None:
                continue
            pairs.append((number, place, other))
            _exchange(model, knobs, x[same[0]], y[same[1]])
    if not pairs:
        return None
    outcome = model.replay(knobs)
    recorded, replayed = model.cycle_ends(), model.cycle_ends(outcome)
    own = [np.diff(one) for one in recorded if len(one) > 2]
    got = [np.diff(one) for one in replayed if len(one) > 2]
    off = [abs(got[n][m - 1] / own[n][o - 1] - 1) for n, m, o in pairs if own[n][o - 1] > 0]
    differ = [abs(own[n][m - 1] / own[n][o - 1] - 1) for n, m, o in pairs if own[n][o - 1] > 0]
    return (float(np.median(off)), float(np.median(differ))) if off else None


def _calls_by_cycle(model: Model) -> tuple[list[Ints], Ints]:
    """The calls of each cycle in order, and for each call a hash of its name and the names of what it launched.

    A call that launches nothing belongs to the cycle of the previous launch on its host timeline.
    """
    a, c, cycles = model.recording.activities, model.recording.calls, model.recording.cycles
    cycle = np.full(len(c.start), -1, dtype=np.int64)
    launched = np.flatnonzero(a.call >= 0)
    cycle[a.call[launched[::-1]]] = a.cycle[launched[::-1]]
    launches = np.zeros(len(c.start), dtype=bool)
    launches[a.call[launched]] = True
    for chain in np.unique(c.chain):
        matching = np.flatnonzero((c.chain == chain) & (c.row >= 0))
        last = np.maximum.accumulate(np.where(launches[matching], np.arange(len(matching)), -1))
        cycle[matching] = np.where(last >= 0, cycle[matching[np.maximum(last, 0)]], -1)
    key = c.name.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    names = (a.name.number[launched].astype(np.uint64) + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F)
    np.add.at(key, a.call[launched], names ^ (names >> np.uint64(29)))
    some = np.flatnonzero(cycle >= 0)
    order = some[np.argsort(cycle[some], kind="stable")]
    edges = np.searchsorted(cycle[order], np.arange(cycles.height + 1))
    return [order[low:high] for low, high in pairwise(edges)], key.astype(np.int64)


def _aligned(x: Ints, y: Ints) -> tuple[Ints, Ints] | None:
    """The indices of matching calls in two cycles; None where too few match."""
    if np.array_equal(x, y):
        return np.arange(len(x)), np.arange(len(y))
    if max(len(x), len(y)) > _MOST or _in_both(x, y) < _ALIGNED * max(len(x), len(y)):
        return None
    blocks = SequenceMatcher(None, x.tolist(), y.tolist(), autojunk=False).get_matching_blocks()
    if sum(block.size for block in blocks) < _ALIGNED * max(len(x), len(y)):
        return None
    places = [(np.arange(b.size) + b.a, np.arange(b.size) + b.b) for b in blocks]
    return np.concatenate([one for one, _ in places]), np.concatenate([other for _, other in places])


def _in_both(x: Ints, y: Ints) -> int:
    """How many calls match in any order: an upper bound for the alignment, which takes far longer to compute."""
    kinds, number = np.unique(np.concatenate((x, y)), return_inverse=True)
    of_x, of_y = (np.bincount(one, minlength=len(kinds)) for one in (number[: len(x)], number[len(x) :]))
    return int(np.minimum(of_x, of_y).sum())


def _exchange(model: Model, knobs: Knobs, x: Ints, y: Ints) -> None:
    """Give calls ``x`` the host times and durations of ``y``, and the activity durations where both launch as many."""
    a, c = model.recording.activities, model.recording.calls
    knobs.gap[x], knobs.length[x] = model.gap[y], c.end[y] - c.start[y]
    order, edges = model.by_call
    counts = edges[x + 1] - edges[x]
    same = counts == edges[y + 1] - edges[y]
    x, y, counts = x[same], y[same], counts[same]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    donors = order[np.repeat(edges[y], counts) + within]
    knobs.dur[order[np.repeat(edges[x], counts) + within]] = a.end[donors] - a.start[donors]

