"""Where the change of the cycle went: every millisecond of it has one cause, so that the causes sum to the change.

A cause is a function that owns more or less time of the cycle than before, or a cause of idle time (the account of
``idle.account``). Calls of the host are no causes: what a call waits for is. Cycle profiles have no timeline: their
functions count with their summed time, and the rest of the cycle is one cause of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.call_tree import nearest, slices_of
from ..core.callers import operator_rows
from ..cycles.detection import find_cycles
from ..idle.account import IDLE, Account, Owner, account_of
from ..idle.cause_meanings import LABELS
from ..kernels.family import family
from .cycle_time import NO_SINGLE_REASON, CycleTime, Outlier, known_lengths, reasons_of
from .judge import Floats, welch
from .matching import IN_B
from .prepare.prepared import Prepared
from .prepare.samples import SWAPPED, Matched, RunSamples
from .sequence import WorkUnit

REST = "rest"  # Kind of the cause that holds what the functions of a cycle profile leave over.
NOT_RECORDED = "not recorded"
_FAMILY = {"collective": "communication"}
_ATTENTION = re.compile(r"attention|attn|sdpa", re.IGNORECASE)
MOSTLY = 0.5  # Share of a kernel's launches under an attention operator from which it is attention.


class ChangeCause(Struct, frozen=True):
    """A cause, ms per compared cycle: a function by its name in A (``name_b``: in B where that differs), or a cause of
    idle time. ``low_ms`` and ``high_ms``: the 95% interval of its change; ``rows``: ids of the rows that show it."""

    kind: str
    name: str
    name_b: str | None
    a_ms: float
    b_ms: float
    delta_ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    rows: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        """Whether it changed beyond chance."""
        return self.low_ms is not None and self.high_ms is not None and (self.low_ms > 0 or self.high_ms < 0)


class FamilyChange(Struct, frozen=True):
    """The change of all functions of one family (attention, gemm, norm, …) together, ms per compared cycle."""

    family: str
    delta_ms: float


class CycleChange(Struct, frozen=True):
    """The change of the mean of the compared cycles on ``device``, by cause, the largest in its direction first."""

    delta_ms: float
    device: str | None
    causes: tuple[ChangeCause, ...]
    families: tuple[FamilyChange, ...]


Owners = dict[Owner, Floats]


def change_of(ready: Prepared, cycles: CycleTime, options: Options) -> tuple[CycleChange | None, CycleTime]:
    """The account of the change, and the cycle time with what its outliers have more of by their accounts. None where
    neither a timeline nor a cycle profile was recorded."""
    pairs = [one for one in ready.matched if one.on_device.any()]
    pairs = pairs if pairs and pairs[0].pair.rank is not None else pairs[:1]
    accounts = [both for one in pairs if (both := _accounts(ready, one, options)) is not None]
    if not accounts:
        return None, cycles
    device = accounts[0][0].device
    left = [{one.cycle for one in some} for some in (cycles.left_out_a, cycles.left_out_b)]
    sides = [_compared([both[side] for both in accounts], left[side]) for side in (0, 1)]
    names = {now: was for (was, on), now in ready.names.items() if on == device}
    own, theirs = _together(sides[0], {}, ready), _together(sides[1], names, ready)
    counts = [len(next(iter(side.values()))) for side in sides]
    none = (np.zeros(counts[0]), None), (np.zeros(counts[1]), None)
    causes = [_cause(key, own.get(key, none[0])[0], *theirs.get(key, none[1]))
              for key in dict.fromkeys([*own, *theirs])]
    delta = sum(one.delta_ms for one in causes)
    sign = 1.0 if delta >= 0 else -1.0
    causes.sort(key=lambda one: (-sign * one.delta_ms, one.kind, one.name))
    result = CycleChange(delta, device, tuple(causes), _families(causes, ready))
    return result, replace(cycles, outliers=tuple(_explained(one, accounts) for one in cycles.outliers))


def _accounts(ready: Prepared, one: Matched, options: Options) -> tuple[Account, Account] | None:
    """The accounts of the cycles of a pair of processes, on the device with most work; B's under A's device."""
    busy = np.where(one.on_device, np.nansum(one.a.ms, axis=1) + np.nansum(one.b.ms, axis=1), 0.0)
    totals: dict[str | None, float] = {}
    for device, ms in zip(one.functions["device"], busy, strict=True):
        totals[device] = totals.get(device, 0.0) + float(ms)
    busiest = max(totals, key=lambda name: totals[name])
    there = {own: theirs for theirs, own in ready.moved.items()}
    mains = [_main_device(work.run, one.pair.rank, options) for work in ready.works]
    device = mains[0] or busiest
    result = []
    for work, side, where in zip(ready.works, (one.a, one.b), (device, mains[1] or there.get(
            device or "", device)), strict=True):
        if work.run is None:
            return None
        numbers, _ = known_lengths(side)
        account = _of_profile(one, side, device) if work.run.has("profile") else account_of(
            work.run, options, one.pair.rank, where, numbers)
        if account is None:
            return None
        result.append(replace(account, device=device))
    return result[0], result[1]


def _main_device(run: Trace | None, rank: int | None, options: Options) -> str | None:
    """The device that step times are of, of that rank; None where they are of none."""
    if run is None:
        return None
    frame = find_cycles(run, options).frame
    own = frame if rank is None else frame.filter(pl.col("rank") == rank)
    names = own["main_device"].drop_nulls()
    return str(names[0]) if len(names) else None


def _of_profile(one: Matched, side: RunSamples, device: str | None) -> Account:
    """The summed time of a device's functions in each cycle, and the rest of it."""
    numbers, lengths = known_lengths(side)
    at = np.isin(side.cycles, numbers)
    owners: Owners = {}
    for row, (name, where, kind) in enumerate(one.functions.select("function", "device", "kind").rows()):
        if where == device and kind not in (IDLE, SWAPPED):
            owners[kind or "kernel", name] = np.nan_to_num(side.ms[row, at])
    owners[REST, NOT_RECORDED] = lengths - sum(owners.values(), np.zeros(len(lengths)))
    return Account(device, tuple(numbers), owners)


def _compared(accounts: Sequence[Account], left: set[int]) -> Owners:
    """The owners in the compared cycles; of a job the mean over its ranks, in the cycles that all of them have."""
    common = set.intersection(*(set(one.cycles) for one in accounts)) - left
    every = dict.fromkeys(owner for one in accounts for owner in one.owners)
    keep = [np.array([number in common for number in one.cycles], dtype=bool) for one in accounts]
    none = np.zeros(len(common))
    return {owner: np.mean([one.owners[owner][some] if owner in one.owners else none
                            for one, some in zip(accounts, keep, strict=True)], axis=0) for owner in every}


def _together(owners: Owners, names: Mapping[str, str], ready: Prepared) -> dict[Owner, tuple[Floats, str | None]]:
    """The owners under the names they are compared under, kernels that meet in one row under its operator; with the
    name in B where that differs."""
    rows = {kernel: operator for (_, kernel, _), (_, operator, _) in ready.parts.items()}
    result: dict[Owner, tuple[Floats, str | None]] = {}
    for (kind, name), values in owners.items():
        under = names.get(name, name) if kind != IDLE else name
        key, shown = (kind, under), (name if under != name else None)
        if under in rows and kind != IDLE:
            key, shown = (SWAPPED, rows[under]), None
        before = result.get(key)
        result[key] = values if before is None else before[0] + values, shown
    return result


def _cause(owner: Owner, a: Floats, b: Floats, name_b: str | None) -> ChangeCause:
    kind, name = owner
    delta, low, high, _p = (float(one[0]) for one in welch(a[None, :], b[None, :]))
    bounded = not np.isnan(low)
    label = LABELS.get(name, name) if kind == IDLE else (name or "").removesuffix(IN_B)
    return ChangeCause(kind, label, name_b, float(a.mean()), float(b.mean()), delta, low if bounded else None,
                       high if bounded else None)


def _families(causes: Sequence[ChangeCause], ready: Prepared) -> tuple[FamilyChange, ...]:
    attention = {name for run, unit in zip((work.run for work in ready.works), ready.units, strict=True)
                 if run is not None and unit is not None for name in attention_kernels(run, unit)}
    sums: dict[str, float] = {}
    for one in causes:
        if one.kind in (IDLE, REST):
            continue
        of = family(one.name, "kernel" if one.kind == SWAPPED else one.kind)
        name = "attention" if one.name in attention or (one.kind == SWAPPED and _ATTENTION.search(one.name)) else (
            _FAMILY.get(of, of))
        sums[name] = sums.get(name, 0.0) + one.delta_ms
    ordered = sorted(sums.items(), key=lambda one: (-abs(one[1]), one[0]))
    return tuple(FamilyChange(name, ms) for name, ms in ordered)


def attention_kernels(run: Trace, unit: WorkUnit) -> set[str]:
    """The kernels that run mostly under an attention operator."""
    if not run.has("host"):
        return set()
    slices = slices_of(run)
    marked = slices.named(lambda text: _ATTENTION.search(text), slices.of_kind("op"))
    if not marked.any():
        return set()
    index = run.kernels.select("index").with_row_index("row").collect(engine="streaming")
    rows = unit.launches.join(index, on="index", how="left", maintain_order="left")["row"].cast(pl.Int64).to_numpy()
    under = nearest(slices.parent, operator_rows(run)[rows], marked) >= 0
    share = unit.launches.select(pl.col("name").cast(pl.String), under=pl.Series(under)).group_by("name").agg(
        pl.col("under").mean())
    return set(share.filter(pl.col("under") >= MOSTLY)["name"])


def _explained(odd: Outlier, accounts: Sequence[tuple[Account, Account]]) -> Outlier:
    """The outlier with what its account has more of than the median cycle's: the device, or causes of idle time."""
    account = accounts[0][0 if odd.run == "A" else 1]
    if odd.cycle not in account.cycles or any(kind == REST for kind, _ in account.owners):
        return odd
    at = account.cycles.index(odd.cycle)
    more: dict[str, float] = {}
    for (kind, name), values in account.owners.items():
        reason = LABELS.get(name, name) if kind == IDLE else "device"
        more[reason] = more.get(reason, 0.0) + float(values[at] - np.median(values))
    return replace(odd, reasons=reasons_of(odd.excess_ms, more) if more else (NO_SINGLE_REASON,))
