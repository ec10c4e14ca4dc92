"""Kernels that were only swapped under one operator: one row of their sums, whose launches are the operator's calls.

When cuDNN or cuBLAS picks other kernels, kernels of one operator appear, vanish or change their launch counts, while
the operator is called as often as before. A kernel belongs to that row if the operator makes nearly all its launches.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders import schema
from ....loaders.trace import Trace
from ...contract.options import Options
from ...cycles import assignment
from ...cycles.detection import find_cycles
from ..judge import Floats
from ..matching import AS_OFTEN, Match, Place, functions_in
from ..same_work import SAME_FLOPS, flops_of_launches, of_calls
from ..sequence import WorkUnit, aligned, gaps
from .samples import HOST, SWAPPED, Flags, Matched, RunSamples, Work

MOSTLY = 0.9  # Share of a kernel's launches one operator must make to count as its launcher.


def _launches(run: Trace, work: Work, options: Options) -> pl.DataFrame:
    """Every launch in a whole compared cycle; empty without operators or timestamps."""
    columns = ("device", "name", "index")
    cycles = find_cycles(run, options)
    if run.has("profile") or not run.has("host.kind=op") or cycles.frame.is_empty():
        return run.kernels.head(0).select(columns).collect()
    numbers = work.rows["cycle"].unique()
    left = numbers.filter(~numbers.is_in(list(work.incomplete)))
    chosen = left if len(left) else numbers
    launches = assignment.in_cycles(run, cycles.frame, cycles.device_time)
    return launches.filter((pl.col("kind") != "sync") & pl.col("cycle").is_in(chosen.implode())).select(
        columns).collect(engine="streaming")


Key = tuple[int, str, str | None]  # Index of the pair of processes, function and device.


class Group(Struct, frozen=True):
    """A row for kernels that meet: how (``operator`` or ``flops``), the operators in B where they are others, and its
    calls per cycle where the host's do not say."""

    match: Match
    name_b: str | None = None
    calls: float | None = None


def with_swapped(
    matched: list[Matched], works: tuple[Work, Work], names: dict[Place, str],
    moved: dict[str, str], options: Options, units: tuple[WorkUnit | None, WorkUnit | None],
) -> tuple[list[Matched], dict[Key, Key], dict[Key, Group]]:
    """The pairs with a row added per operator whose kernels were swapped, or per set of kernels that do the same FLOPs
    at the same place; each such kernel's row → that row; and how each of those rows was made."""
    changed = [_changed(one) for one in matched]
    kernels = {(name, device) for one, rows in zip(matched, changed, strict=True)
               for name, device in one.functions.filter(pl.Series(rows)).select("function", "device").rows()}
    if not kernels or works[0].run is None or works[1].run is None:
        return matched, {}, {}
    there = {own: theirs for theirs, own in moved.items()}
    in_b = {(name, device): (names.get((name, device), name), there.get(device or "", device))
            for name, device in kernels}
    launchers = _launchers(works[0], {key: key for key in kernels}, options), _launchers(works[1], in_b, options)
    equal = _of_equal_flops((works[0].run, works[1].run), units, names, moved)
    result, parts, groups_of = [], dict[Key, Key](), dict[Key, Group]()
    for place, (one, rows) in enumerate(zip(matched, changed, strict=True)):
        groups = _groups(one, rows, launchers)
        kinds = {key: Group("operator") for key in groups}
        used = {row for members in groups.values() for row in members}
        numbers = {key: row for row, key in enumerate(one.functions.select("function", "device").rows())}
        for key, kernels_of, group in equal:
            found = [numbers[member] for member in kernels_of if member in numbers]
            if key not in groups and len(found) == len(kernels_of) and not used.intersection(found):
                groups[key], kinds[key] = found, group
        result.append(_with_rows(one, groups, kinds) if groups else one)
        functions = one.functions["function"]
        for (op, device), members in groups.items():
            groups_of[place, op, device] = kinds[op, device]
            parts |= {(place, functions[row], device): (place, op, device) for row in members}
    return result, parts, groups_of


def _of_equal_flops(
    runs: tuple[Trace, Trace], units: tuple[WorkUnit | None, WorkUnit | None], names: dict[Place, str],
    moved: dict[str, str],
) -> list[tuple[Place, list[Place], Group]]:
    """Kernels that only one run has, of both runs, that stand between the same launches and do the same FLOPs."""
    if units[0] is None or units[1] is None:
        return []
    own = functions_in(units[0], {})
    back = {(name, device): was for (was, device), name in names.items()}
    theirs = [(back.get((name, device), name), device, kind) for name, device, kind in functions_in(units[1], moved)]
    common = set(own) & set(theirs)
    places = [(left, right) for left, right in gaps(len(own), len(theirs), aligned(own, theirs))
              if len(left) and len(right) and common.isdisjoint([own[i] for i in left] + [theirs[j] for j in right])]
    if not places:
        return []
    sets: list[tuple[set[Place], set[Place], list[tuple[range, range]]]] = []
    for left, right in places:
        a, b, some = {own[i][:2] for i in left}, {theirs[j][:2] for j in right}, [(left, right)]
        for other in [one for one in sets if one[0] & a or one[1] & b]:
            sets.remove(other)
            a, b, some = a | other[0], b | other[1], some + other[2]
        sets.append((a, b, some))
    work = [flops_of_launches(run, unit) for run, unit in zip(runs, units, strict=True) if unit is not None]
    result = []
    for a, b, some in sets:
        sums = [of_calls(one, [at for gap in some for at in gap[side]]) for side, one in enumerate(work)]
        (flops_a, name_a), (flops_b, name_b) = sums
        device = next(iter(a))[1]
        if flops_a and flops_b and max(flops_a, flops_b) <= (1 + SAME_FLOPS) * min(flops_a, flops_b):
            result.append(((name_a, device), sorted(a | b), Group("flops", name_b, float(len(some)))))
    return result


def _launches_per_cycle(side: RunSamples) -> Floats:
    """Mean launches per cycle of each function, over the cycles in which they are known."""
    seen = side.seen
    mean: Floats = np.where(seen, side.launches, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    return mean


def _changed(one: Matched) -> Flags:
    """The kernels that are launched more or less often in B."""
    a, b = _launches_per_cycle(one.a), _launches_per_cycle(one.b)
    kernels = (one.functions["kind"] == "kernel").fill_null(False).to_numpy()
    result: Flags = (np.abs(a - b) > AS_OFTEN * np.maximum(a, b)) & one.on_device & kernels
    return result


def _launchers(work: Work, called: dict[Place, Place], options: Options) -> dict[Place, str]:
    """The operator that makes nearly all launches of a function; ``called`` maps functions to the run's own names."""
    assert work.run is not None
    rows = _launches(work.run, work, options)
    own = {theirs: ours for ours, theirs in called.items()}
    wanted = pl.Series([name for name, _ in own], dtype=schema.NAME)
    rows = rows.filter(pl.col("name").is_in(wanted.implode()))
    if rows.is_empty():
        return {}
    from ...core.callers import launchers  # imported late: most pairs, and all cycle profiles, return above

    rows = rows.with_columns(launchers(work.run, rows["index"])["op"])
    counted = rows.group_by(pl.col("name", "device", "op").cast(pl.String)).len()
    share = pl.col("len") / pl.col("len").sum().over("name", "device")
    mostly = counted.filter(share >= MOSTLY).drop_nulls("op").select("name", "device", "op")
    return {own[name, device]: op for name, device, op in mostly.rows() if (name, device) in own}


def _groups(one: Matched, changed: Flags, launchers: tuple[dict[Place, str], ...]) -> dict[Place, list[int]]:
    """The rows of swapped kernels by operator and device."""
    result: dict[Place, list[int]] = {}
    names = one.functions.select("function", "device").rows()
    for row in np.flatnonzero(changed).tolist():
        ops = {by_kernel[names[row]] for by_kernel in launchers if names[row] in by_kernel}
        if len(ops) == 1:
            result.setdefault((ops.pop(), names[row][1]), []).append(row)
    a, b = _launches_per_cycle(one.a), _launches_per_cycle(one.b)
    calls = _on_host(one)

    def swapped(op: str, rows: list[int]) -> bool:
        if op not in calls:
            return False
        called = a[calls[op]], b[calls[op]]
        as_often = min(called) > 0 and abs(called[0] - called[1]) <= AS_OFTEN * max(called)
        return as_often and bool((b[rows] > a[rows]).any() and (b[rows] < a[rows]).any())

    return {(op, device): rows for (op, device), rows in result.items() if swapped(op, rows)}


def _on_host(one: Matched) -> dict[str, int]:
    """The row of each operator on the host."""
    rows = enumerate(one.functions.rows())
    return {name: row for row, (name, device, kind) in rows if device == HOST and kind == SWAPPED}


def _with_rows(one: Matched, groups: dict[Place, list[int]], kinds: dict[Place, Group]) -> Matched:
    """The pair with a row added per operator: the time of its swapped kernels, with its calls as launches."""
    names = pl.DataFrame([(op, device, SWAPPED) for op, device in groups], schema=one.functions.schema, orient="row")
    host = _on_host(one)

    def below(side: RunSamples) -> RunSamples:
        ms = np.stack([side.ms[rows].sum(axis=0) for rows in groups.values()])
        calls = np.stack([side.launches[host[key[0]]] if (each := kinds[key].calls) is None
                          else np.full(ms.shape[1], each) for key in groups])
        return replace(
            side, ms=np.concatenate([side.ms, ms]),
            launches=np.concatenate([side.launches, np.where(np.isnan(ms), np.nan, calls)]),
        )

    return replace(one, functions=pl.concat([one.functions, names]), a=below(one.a), b=below(one.b))
