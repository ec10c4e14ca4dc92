"""Collectives across the ranks of a job: which rank waited, which came last, and how long the transfer itself took.

A collective ends on all ranks at once, so the rank with the shortest time in it came last and shows the transfer; the
excess of the other ranks is waiting for it. A rank that turns from waiting into the late one has no faster all-reduce.
So the row of a collective shows its transfer, waits have their own columns, and the last rank gets the blame.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...core import units
from ..judge import Floats
from .samples import Matched, RunSamples

ALIKE = 0.8  # Ranks take part in the same collective if their launches per cycle agree to at least this share.
CHANCE = 0.01  # False-alarm rate: share of jobs without a late rank that get one named, as in the ranks view.
MATERIAL = 0.01  # Share of a cycle below which waiting gets no sentence.


class CollectiveWaits(Struct, frozen=True):
    """Mean wait per cycle in A and B, ms, by (pair index, function row)."""

    a: dict[tuple[int, int], float]
    b: dict[tuple[int, int], float]


class RankWait(Struct, frozen=True):
    """How long one rank's device waited for the other ranks in a collective, mean ms per cycle: a wait
    in few cycles counts, and the waits are those that the ranks view sums up."""

    device: str
    a_ms: float
    b_ms: float


class CollectiveTiming(Struct, frozen=True):
    """One collective over the ranks of a job: its transfer time, the rank that waits least in most cycles (None if
    chance explains it) with (cycles it waits least in, cycles), and the wait of each rank."""

    function: str
    transfer_a_us: float
    transfer_b_us: float
    last_a: str | None
    last_b: str | None
    often_a: tuple[int, int]
    often_b: tuple[int, int]
    waits: tuple[RankWait, ...]

    @property
    def longest_wait_ms(self) -> float:
        """The longest wait of any rank in either run."""
        return max(max(wait.a_ms, wait.b_ms) for wait in self.waits)


def split(matched: list[Matched]) -> tuple[list[Matched], CollectiveWaits, list[CollectiveTiming]]:
    """The pairs with collectives reduced to their transfer, the waits removed from them, and each one's timing."""
    waits, timings = CollectiveWaits({}, {}), list[CollectiveTiming]()
    strict = [at for at, one in enumerate(matched) if one.pair.strict] or list(range(len(matched)))
    ranks = [{matched[at].pair.a for at in strict}, {matched[at].pair.b for at in strict}]
    if len(strict) < 2 or any(len(side) < len(strict) for side in ranks):
        return matched, waits, timings
    times = {at: (matched[at].a.ms.copy(), matched[at].b.ms.copy()) for at in strict}
    places: dict[str, list[tuple[int, int]]] = {}
    for at in strict:
        rows = matched[at].functions.with_row_index("row").filter(pl.col("kind") == "collective")
        for row, function in rows.select("row", "function").rows():
            places.setdefault(function, []).append((at, row))
    for function, every in places.items():
        present = [(at, row) for at, row in every if sum(other == at for other, _ in every) == 1]
        a, b = (_transfer([((matched[at].a, matched[at].b)[side], row) for at, row in present]) for side in (0, 1))
        if a is None or b is None:
            continue
        for side, (transfer, waited) in enumerate(((a, waits.a), (b, waits.b))):
            for (at, row), ms, wait in zip(present, transfer.transfer_ms, transfer.wait_ms, strict=True):
                times[at][side][row] = ms
                waited[at, row] = wait
        devices = _called([(matched[at], row) for at, row in present])
        last_a, last_b = (None if side.last is None else devices[side.last] for side in (a, b))
        timings.append(CollectiveTiming(
            function, a.transfer_us, b.transfer_us, last_a, last_b, a.often, b.often,
            tuple(RankWait(*wait) for wait in zip(devices, a.wait_ms, b.wait_ms, strict=True)),
        ))
    reduced = [
        replace(one, a=replace(one.a, ms=times[at][0]), b=replace(one.b, ms=times[at][1])) if at in times else one
        for at, one in enumerate(matched)
    ]
    return reduced, waits, sorted(timings, key=lambda timing: -timing.longest_wait_ms)


class _Transfer(Struct, frozen=True):
    transfer_ms: list[Floats]
    wait_ms: list[float]
    transfer_us: float
    last: int | None
    often: tuple[int, int]


def _called(present: list[tuple[Matched, int]]) -> list[str]:
    """Display names of the ranks: their devices, or "rank N" if device names repeat."""
    devices = [str(one.functions["device"][row]) for one, row in present]
    if len(set(devices)) == len(devices) or any(one.pair.rank is None for one, _ in present):
        return devices
    return [f"rank {one.pair.rank}" for one, _ in present]


def _transfer(ranks: list[tuple[RunSamples, int]]) -> _Transfer | None:
    """Transfer and waits, from the shortest time in each cycle known on all ranks; None if they do not share it."""
    if len(ranks) < 2:
        return None
    shared = set(ranks[0][0].cycles.tolist())
    for side, row in ranks:
        ran = side.seen[row] & (side.launches[row] > 0)
        shared &= set(side.cycles[ran].tolist())
    if not shared:
        return None
    cycles = np.array(sorted(shared))
    at = [np.searchsorted(side.cycles, cycles) for side, _ in ranks]
    launches = np.stack([side.launches[row, place] for (side, row), place in zip(ranks, at, strict=True)])
    if float((launches.min(axis=0) / launches.max(axis=0)).mean()) < ALIKE:
        return None
    each = np.stack([side.ms[row, place] for (side, row), place in zip(ranks, at, strict=True)]) / launches
    shortest = each.min(axis=0)
    transfer = []
    for (side, row), place in zip(ranks, at, strict=True):
        values = np.full(len(side.cycles), np.nan)
        values[place] = shortest * side.launches[row, place]
        values[side.seen[row] & (side.launches[row] == 0)] = 0.0
        transfer.append(values)
    waits = [float(np.mean((each[i] - shortest) * launches[i])) for i in range(len(ranks))]
    return _Transfer(transfer, waits, float(np.median(shortest)) * 1e3, *_last(each))


def _last(each: Floats) -> tuple[int | None, tuple[int, int]]:
    """The rank (row) that is shortest in most cycles (columns), None if chance explains it; (times last, cycles)."""
    from scipy.special import bdtrc

    times = np.bincount(each.argmin(axis=0), minlength=len(each))
    chance = len(each) * float(bdtrc(int(times.max()) - 1, each.shape[1], 1 / len(each)))
    return int(times.argmax()) if chance < CHANCE else None, (int(times.max()), each.shape[1])


def sentence(timings: list[CollectiveTiming], names: dict[str, str], cycle_ms: float) -> str | None:
    """The sentence on the last rank, for the collective with the longest wait; None if all waits are immaterial."""
    for timing in timings:
        if timing.longest_wait_ms < MATERIAL * cycle_ms:
            continue
        name = names.get(timing.function, timing.function)
        was, now = (units.duration(1e3 * us) for us in (timing.transfer_a_us, timing.transfer_b_us))
        transfer = f"transfer {was} → {now}"
        if timing.last_a is not None and timing.last_a == timing.last_b:
            often = ", ".join(f"{times} of {of}" for times, of in (timing.often_a, timing.often_b))
            return (f"{timing.last_a} waits least at {name} in most cycles of both runs ({often}) and the others wait "
                    f"for it; {transfer}")
        waited = {wait.device: units.amount(wait.a_ms, wait.b_ms) for wait in timing.waits}
        if timing.last_a is not None and timing.last_b is not None:
            return (f"the late rank changed sides: {name} waited for {timing.last_a}, now for {timing.last_b} "
                    f"(which waited {waited[timing.last_b]} per cycle); {transfer}")
        sides = ("A", timing.last_a, *timing.often_a), ("B", timing.last_b, *timing.often_b)
        late = next((f"{one} waits least in {times} of {of} cycles of {run}" for run, one, times, of in sides if one),
                    "no rank waits least in more cycles than by chance")
        most = max(timing.waits, key=lambda wait: abs(wait.b_ms - wait.a_ms)).device
        return f"{most} waits {waited[most]} a cycle (mean) at {name}; {late}; {transfer}"
    return None
