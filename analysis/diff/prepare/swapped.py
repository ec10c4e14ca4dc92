"""Kernels that were only swapped under one operator: one row of their sums, whose launches are the operator's calls.

When cuDNN or cuBLAS picks other kernels, or another vendor's library runs, kernels of one operator appear, vanish or
change their launch counts, while the operator is called as often as before. A kernel belongs to the row of the deepest
operator or module that both runs call alike, if that makes nearly all its launches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ....loaders import schema
from ....loaders.schema import is_work
from ....loaders.trace import Trace
from ...contract.options import Options
from ...core.call_tree import HostSlices, Ints, Mask, nearest, slices_of
from ...core.callers import MODULE, launchers
from ...cycles import assignment
from ...cycles.detection import find_cycles
from ..judge import Floats
from ..matching import AS_OFTEN, Match, Place, functions_in
from ..same_work import SAME_FLOPS, flops_of_launches, of_calls
from ..sequence import WorkUnit, aligned, gaps
from .samples import HOST, SWAPPED, Matched, RunSamples, Work

MOSTLY = 0.9  # Share of a kernel's launches one operator must make to count as its launcher.
MEETING = ("kernel", "memset")  # Kinds that may be part of such a row.
MOST_OPERATORS = 4  # Most operators whose kernels meet in one row.


def _launches(run: Trace, work: Work, options: Options) -> pl.DataFrame:
    """Every launch in a whole compared cycle; empty without operators or timestamps."""
    columns = ("device", "name", "index")
    cycles = find_cycles(run, options)
    if run.has("profile") or not run.has("host.kind=op") or cycles.frame.is_empty():
        return run.kernels.head(0).select(columns).collect()
    launches = assignment.in_cycles(run, cycles.frame, cycles.device_time)
    return launches.filter(is_work() & pl.col("cycle").is_in(_compared(work).implode())).select(
        columns).collect(engine="streaming")


def _compared(work: Work) -> pl.Series:
    numbers = work.rows["cycle"].unique()
    left = numbers.filter(~numbers.is_in(list(work.incomplete)))
    return left if len(left) else numbers


def under_common_operators(
    runs: tuple[Trace, Trace], launches: tuple[pl.DataFrame, pl.DataFrame], per: tuple[float, float]
) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """The launches (``index`` and others) with ``op``, the deepest operator or module around each that both runs call
    as often with the same shapes (where there is none, with any), and ``call``, its row of the host table (-1 for
    none); ``per``: how many cycles they are of. None where a run has no launches or operators."""
    rows, calls = [], []
    for run, some in zip(runs, launches, strict=True):
        if some.is_empty() or not run.has("host.kind=op"):
            return None
        rows.append(launchers(run, some["index"], ("call",))["call"].fill_null(-1).to_numpy())
        calls.append(_calls_around(run, rows[-1]))
    both = calls[0].keys() & calls[1].keys()
    alike, as_often_called = ({name for name in both if _as_alike(calls[0][name], calls[1][name], per, shaped)}
                              for shaped in (True, False))
    result = []
    for run, some, own in zip(runs, launches, rows, strict=True):
        slices = slices_of(run)
        among = _callers(slices)
        call = nearest(slices.parent, own, slices.named(lambda text: _unnumbered(text) in alike, among))
        other = nearest(slices.parent, np.where(call < 0, own, -1), slices.named(
            lambda text: _unnumbered(text) in as_often_called, among))
        call = np.where(call < 0, other, call)
        names = slices.names_of(call).cast(pl.String).str.replace(_NUMBERED_MODULE, "$1")
        result.append(some.with_columns(op=names, call=pl.Series(call)))
    return result[0], result[1]


_NUMBERED_MODULE = rf"^({MODULE}.*?)_\d+$"


def _unnumbered(name: str) -> str:
    return re.sub(_NUMBERED_MODULE, r"\1", name)


def _callers(slices: HostSlices) -> Mask:
    """Operators and modules."""
    modules = slices.named(lambda text: text.startswith(MODULE), slices.of_kind("python", "annotation"))
    return slices.of_kind("op") | modules


def _calls_around(run: Trace, rows: Ints) -> dict[str, Counter[str]]:
    """The calls of each operator and module that are around these rows of the host table, by their shapes ('' if not
    recorded)."""
    slices = slices_of(run)
    around = np.zeros(len(slices.parent), dtype=bool)
    level = np.unique(rows[rows >= 0])
    while len(level):
        around[level] = True
        level = np.unique(slices.parent[level])
        level = level[level >= 0]
        level = level[~around[level]]
    calls = run.host.filter(pl.Series(around & _callers(slices))).select(
        pl.col("name", "shapes").cast(pl.String).fill_null("")).collect(engine="streaming")
    result: dict[str, Counter[str]] = {}
    for name, shapes, count in calls.group_by("name", "shapes").len().rows():
        result.setdefault(_unnumbered(name), Counter())[shapes] += count
    return result


def _as_alike(a: Counter[str], b: Counter[str], per: tuple[float, float], shaped: bool) -> bool:
    """Whether calls agree in number, and in shapes where asked for and both runs have them."""
    if not shaped or "" in a or "" in b:
        a, b = Counter({"": a.total()}), Counter({"": b.total()})
    pairs = [(a[shapes] / per[0], b[shapes] / per[1]) for shapes in a | b]
    return sum(map(min, pairs)) >= (1 - AS_OFTEN) * sum(map(max, pairs))


class Makers(Struct, frozen=True):
    """Which operators launched each function of a run: ``main`` nearly all of its launches, ``all`` together so."""

    main: dict[Place, str]
    all: dict[Place, frozenset[str]]


def makers_of(launches: pl.DataFrame, called: dict[Place, Place]) -> Makers:
    """The operators (column ``op``) behind each function; ``called`` maps functions to the run's own names."""
    own = {theirs: ours for ours, theirs in called.items()}
    rows = launches.filter(pl.col("name").is_in(pl.Series([name for name, _ in own], dtype=schema.NAME).implode()))
    counted = rows.group_by(pl.col("name", "device", "op").cast(pl.String)).len()
    shares = counted.with_columns(share=pl.col("len") / pl.col("len").sum().over("name", "device")).drop_nulls("op")
    some: dict[Place, dict[str, float]] = {}
    for name, device, op, share in shares.select("name", "device", "op", "share").rows():
        if (name, device) in own:
            some.setdefault(own[name, device], {})[op] = share
    main = {place: op for place, ops in some.items() for op, share in ops.items() if share >= MOSTLY}
    return Makers(main, {place: frozenset(ops) for place, ops in some.items() if sum(ops.values()) >= MOSTLY})


class Changed(Struct, frozen=True):
    """A function launched more (``by`` > 0) or less often in B: ``row`` is the caller's own name of it."""

    row: int
    place: Place
    kind: str | None
    by: float


def meeting(changed: Sequence[Changed], makers: Sequence[Makers]) -> dict[tuple[str, ...], dict[str | None, list[int]]]:
    """The rows of changed functions by operators and device, where some kernels are launched more often and some less.
    Functions that meet under no single operator may do so under the few that share them: one vendor has one GEMM for
    two operators, the other has one for each."""
    result: dict[tuple[str, ...], dict[str | None, list[int]]] = {}
    left = list(changed)
    for single in (True, False):
        sets: list[tuple[set[str], list[Changed]]] = []
        for one in left:
            ops = set[str]().union(*(
                {side.main[one.place]} if single and one.place in side.main else
                set() if single else side.all.get(one.place, ()) for side in makers))
            if not ops or (single and len(ops) > 1):
                continue
            touching = [some for some in sets if some[0] & ops and some[1][0].place[1] == one.place[1]]
            sets = [some for some in sets if all(some is not other for other in touching)]
            sets.append((ops.union(*(names for names, _ in touching)),
                         [one, *(member for _, members in touching for member in members)]))
        for names, members in sets:
            kernels = [one.by for one in members if one.kind == "kernel"]
            if len(names) <= MOST_OPERATORS and min(kernels, default=0.0) < 0 < max(kernels, default=0.0):
                rows = [one.row for one in members]
                result.setdefault(tuple(sorted(names)), {})[members[0].place[1]] = sorted(rows)
                left = [one for one in left if one.row not in rows]
    return result


Key = tuple[int, str, str | None]  # Index of the pair of processes, function and device.


class Group(Struct, frozen=True):
    """A row for kernels that meet: how (``operator`` or ``flops``), the operators in B where they are others, its
    operators, and its calls per cycle where the host's do not say."""

    match: Match
    name_b: str | None = None
    calls: float | None = None
    operators: tuple[str, ...] = ()


def with_swapped(
    matched: list[Matched], works: tuple[Work, Work], names: dict[Place, str],
    moved: dict[str, str], options: Options, units: tuple[WorkUnit | None, WorkUnit | None],
) -> tuple[list[Matched], dict[Key, Key], dict[Key, Group]]:
    """The pairs with a row added per operator whose kernels were swapped, or per set of kernels that do the same FLOPs
    at the same place; each such kernel's row → that row; and how each of those rows was made."""
    changed = [_changed(one) for one in matched]
    kernels = {one.place for some in changed for one in some}
    if not kernels or works[0].run is None or works[1].run is None:
        return matched, {}, {}
    there = {own: theirs for theirs, own in moved.items()}
    in_b = {(name, device): (names.get((name, device), name), there.get(device or "", device))
            for name, device in kernels}
    launches = [_launches(work.run, work, options) for work in works if work.run is not None]
    under = under_common_operators((works[0].run, works[1].run), (launches[0], launches[1]), (
        float(len(_compared(works[0]))), float(len(_compared(works[1])))))
    makers = () if under is None else (makers_of(under[0], {key: key for key in kernels}), makers_of(under[1], in_b))
    equal = of_equal_flops((works[0].run, works[1].run), units, names, moved)
    result, parts, groups_of = [], dict[Key, Key](), dict[Key, Group]()
    for place, (one, some) in enumerate(zip(matched, changed, strict=True)):
        calls = _on_host(one)
        groups, kinds = dict[Place, list[int]](), dict[Place, Group]()
        for operators, by_device in meeting(some, makers).items():
            for device, rows in by_device.items():
                on_host = calls.keys() >= set(operators)
                count = None if on_host or under is None else under[0].filter(
                    pl.col("op").is_in(operators))["call"].n_unique() / len(_compared(works[0]))
                groups[", ".join(operators), device] = rows
                kinds[", ".join(operators), device] = Group("operator", None, count, operators)
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


def of_equal_flops(
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


def _changed(one: Matched) -> list[Changed]:
    """The kernels, and what sets memory for them, that are launched more or less often in B."""
    a, b = _launches_per_cycle(one.a), _launches_per_cycle(one.b)
    there = (np.abs(a - b) > AS_OFTEN * np.maximum(a, b)) & one.on_device
    return [Changed(row, (name, device), kind, float(b[row] - a[row]))
            for row, (name, device, kind) in enumerate(one.functions.select("function", "device", "kind").rows())
            if there[row] and kind in MEETING]


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
        calls = np.stack([
            np.full(ms.shape[1], kinds[key].calls) if kinds[key].calls is not None else
            sum((side.launches[host[op]] for op in kinds[key].operators), np.zeros(ms.shape[1])) for key in groups])
        return replace(
            side, ms=np.concatenate([side.ms, ms]),
            launches=np.concatenate([side.launches, np.where(np.isnan(ms), np.nan, calls)]),
        )

    return replace(one, functions=pl.concat([one.functions, names]), a=below(one.a), b=below(one.b))
