"""Which function of B is which function of A.

Names say it where they are equal but for what a compiler or a source line puts into them: functions of one ``stem`` are
assigned as one set, by their launches and their order, since an equal number in a name is worth nothing. A function
that only A has and one that only B has, launched at the same places of the sequence, are ``replaced``: the same work by
another name. Names that are merely alike (``same_function``) are paired where no order of launches is recorded.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from ...loaders.trace import Trace
from ..core.callers import launchers
from ..core.names.same_function import function_key, same_functions
from .prepare.samples import HOST
from .sequence import WorkUnit, aligned, gaps, operator_calls

Match = Literal["name", "stem", "replaced", "operator", "flops"]
Function = tuple[str, str | None, str | None]  # Name, device and kind.
Place = tuple[str, str | None]  # Name and device.
AS_OFTEN = 0.02  # Launches per cycle that differ by at most this share are equal.
MOSTLY = 0.9  # Share of the launches of two functions that must stand at the same places.
IN_B = " (in B)"
"""Ends the name of a function of B that is not the function of A with this name."""
_NUMBERS = (
    (re.compile(r"^(triton_\w+?)_\d+(?=\b|$)"), r"\1"),
    (re.compile(r"(__omp_offloading_)[0-9a-f]+_[0-9a-f]+_(.+?)_l\d+"), r"\1\2"),
    (re.compile(r"(F\d+L)\d+(?:_\d+)?(?=\b|_|$)"), r"\1"),
    (re.compile(r"_\d+(_gpu(?:__red)?)$"), r"\1"),
    (re.compile(r"(\$ck_L)\d+(?:_\d+)*"), r"\1"),
    (re.compile(r"(lambda)(?:\(\))?#?\d+"), r"\1"),
)
"""What a compiler numbers anew: Inductor's kernels, source lines in names of OpenMP, OpenACC and Cray, lambdas."""


class Profile(Struct, frozen=True):
    """What is known of a function in one run: launches a cycle (without cycles: in all), mean time of one in µs, its
    first ``grid`` and the ``place`` of its first launch in the unit of work, None where not recorded."""

    launches: float
    each_us: float
    grid: str | None = None
    place: int | None = None


class Matches(Struct, frozen=True):
    """``names``: (B's name, device) → the name it is compared under, where that differs from its own. ``how``: (name
    it is compared under, device, kind) → how the match was made. ``common``: the share of the longer launch sequence
    that is common with equal grids, None without an order of launches."""

    names: dict[Place, str]
    how: dict[Function, Match]
    common: float | None = None


@lru_cache(maxsize=16_384)
def stem(name: str) -> str:
    """The name without what differs from build to build: equal for all spellings and numbers of one function."""
    text = function_key(name)
    for pattern, kept in _NUMBERS:
        text = pattern.sub(kept, text)
    return text


def matches(
    a: Mapping[Function, Profile], b: Mapping[Function, Profile], units: tuple[WorkUnit | None, WorkUnit | None],
    moved: Mapping[str, str], runs: tuple[Trace | None, Trace | None] = (None, None),
) -> Matches:
    """Match the functions of two runs; devices of ``b`` have A's names, ``moved`` maps those in B's unit to them."""
    pairs = _by_stem(a, b)
    how: dict[Function, Match] = {
        (was, *there): "name" if was == now else "stem" for (now, *there), was in pairs.items()}  # type: ignore[misc]
    sequences = None
    if units[0] is not None and units[1] is not None:
        sequences = functions_in(units[0], {}), functions_in(units[1], moved)
        both: list[tuple[list[Function], list[Function]]] = [sequences]
        if runs[0] is not None and runs[1] is not None and all(
                any(one[1] == HOST and one[2] == "op" and one not in used for one in side)
                for side, used in ((a, {(was, *now[1:]) for now, was in pairs.items()}), (b, pairs))):
            calls: list[list[Function]] = [
                [(name, HOST, "op") for name in operator_calls(run, unit)]
                for run, unit in zip(runs, units, strict=True) if run is not None and unit is not None]
            both.append((calls[0], calls[1]))
        operators = [_operators(run, unit) for run, unit in zip(runs, units, strict=True)]
        for at, one in enumerate(both):
            for theirs, own in _replaced(a, b, pairs, one, ([], []) if at else (operators[0], operators[1])).items():
                pairs[theirs], how[own] = own[0], "replaced"
    taken = {(was, *there) for (_, *there), was in pairs.items()}
    left_a, left_b = (dict[tuple[str, tuple[str | None, ...]], float](
        ((name, (device, kind)), one.launches) for (name, device, kind), one in side.items()
        if (name, device, kind) not in used and (sequences is None or device == HOST))
        for side, used in ((a, taken), (b, pairs)))
    for (now, where), was in same_functions(left_a, left_b).items():
        pairs[now, where[0], where[1]], how[was, where[0], where[1]] = was, "stem"
    lone = {key: (key[0] or "") + IN_B for key in b if key not in pairs and key in a}
    common = None if sequences is None or units[0] is None or units[1] is None else _common(
        sequences, pairs, how, tuple(one.launches["grid"].to_list() for one in units if one is not None))
    names = {(now, device): name for (now, device, _), name in (pairs | lone).items() if name != now}
    return Matches(names, how, common)


def _by_stem(a: Mapping[Function, Profile], b: Mapping[Function, Profile]) -> dict[Function, str]:
    """Function of B → name in A, of functions with one stem. Of several, all are assigned together."""
    groups: dict[tuple[str, str | None, str | None], tuple[list[Function], list[Function]]] = {}
    for place, side in enumerate((a, b)):
        for function in side:
            if function[0]:
                groups.setdefault((stem(function[0]), *function[1:]), ([], []))[place].append(function)
    pairs: dict[Function, str] = {}
    for old, new in groups.values():
        for was, now in _assigned(old, new, a, b):
            pairs[now] = was[0]
    return pairs


def _assigned(
    old: list[Function], new: list[Function], a: Mapping[Function, Profile], b: Mapping[Function, Profile]
) -> Iterable[tuple[Function, Function]]:
    if len(old) == 1 == len(new):
        return [(old[0], new[0])]
    if not old or not new:
        return []
    fixed: list[tuple[Function, Function]] = []
    places = [side[one].place for side, some in ((a, old), (b, new)) for one in some]
    if None in places or not any(_numbered(one[0]) for one in (*old, *new)):
        # no order is recorded, or the names hold no number that could have moved
        same = set(old) & set(new)
        fixed = [(one, one) for one in old if one in same]
        old, new = ([one for one in side if one not in same] for side in (old, new))
    else:
        by_order = [sorted(side, key=lambda one, of=of: of[one].place or 0)  # type: ignore[misc]
                    for side, of in ((old, a), (new, b))]
        if len(old) == len(new) and all(
                as_often(a[x].launches, b[y].launches) for x, y in zip(*by_order, strict=True)):
            return list(zip(*by_order, strict=True))

    def distance(x: Function, y: Function) -> tuple[float, bool, float]:
        return (round(abs(math.log((a[x].launches + 1e-9) / (b[y].launches + 1e-9))), 2), a[x].grid != b[y].grid,
                abs(math.log((a[x].each_us + 0.1) / (b[y].each_us + 0.1))))

    free = set(new)
    for _, x, y in sorted((distance(x, y), x, y) for x in old for y in new):
        if y in free and x not in {one for one, _ in fixed}:
            fixed.append((x, y))
            free.discard(y)
    return fixed


def _numbered(name: str) -> bool:
    return any(pattern.search(name) for pattern, _ in _NUMBERS)


def as_often(a: float, b: float) -> bool:
    """Whether two numbers of launches count as equal."""
    return abs(a - b) <= AS_OFTEN * max(a, b)


def functions_in(unit: WorkUnit, moved: Mapping[str, str]) -> list[Function]:
    """The functions that the unit launched, in order; ``moved`` maps its devices to A's names."""
    columns = (unit.launches[name].cast(str).to_list() for name in ("name", "device", "kind"))
    return [(str(name), moved.get(device, device), kind) for name, device, kind in zip(*columns, strict=True)]


def _operators(run: Trace | None, unit: WorkUnit | None) -> list[str | None]:
    """The operator of each launch of the unit; empty where none is recorded."""
    if run is None or unit is None or not run.has("host"):
        return []
    return launchers(run, unit.launches["index"])["op"].cast(str).to_list()


def _replaced(
    a: Mapping[Function, Profile], b: Mapping[Function, Profile], pairs: Mapping[Function, str],
    sequences: tuple[list[Function], list[Function]], operators: tuple[list[str | None], list[str | None]],
) -> dict[Function, Function]:
    """Function of B → function of A without a partner, where nearly all launches of both stand at the same places.
    What an operator that both runs call has launched is replaced only by what the same operator launches: the fill
    before an attention kernel is no attention kernel."""
    matched = {(was, *now[1:]) for now, was in pairs.items()}
    alone_a, alone_b = ({one for one in side if one not in used} for side, used in ((a, matched), (b, pairs)))
    if not alone_a or not alone_b:
        return {}
    own, theirs = sequences
    under = [(pairs.get(one, one[0] + IN_B), *one[1:]) for one in theirs]
    votes: Counter[tuple[Function, Function]] = Counter()
    called = {*operators[0]} & {*operators[1]}
    both = aligned(own, under)
    for left, right in gaps(len(own), len(theirs), both) if both else ():  # the same place is between what both have
        if len(left) == len(right):
            votes.update((own[i], theirs[j]) for i, j in zip(left, right, strict=True)
                         if not called or _may_be_one(operators[0][i], operators[1][j], called))
    counts = Counter(own), Counter(theirs)
    result: dict[Function, Function] = {}
    for (was, now), count in votes.most_common():
        if was in alone_a and now in alone_b and was not in result.values() and now not in result and (
            was[1:] == now[1:] and count >= MOSTLY * max(counts[0][was], counts[1][now])
            and as_often(a[was].launches, b[now].launches)
        ):
            result[now] = was
    return result


def _may_be_one(one: str | None, other: str | None, called_in_both: set[str | None]) -> bool:
    return one == other or one is None or other is None or (one not in called_in_both and other not in called_in_both)


def _common(
    sequences: tuple[list[Function], list[Function]], pairs: Mapping[Function, str], how: Mapping[Function, Match],
    grids: Sequence[list[str | None]],
) -> float | None:
    """The share of the longer sequence that is common: functions that match, and unless replaced with equal grids."""
    own, theirs = sequences
    if not own or not theirs:
        return None
    sides = []
    for functions, grid, under in ((own, grids[0], {}), (theirs, grids[1], pairs)):
        named = [(under.get(one, one[0] if not under else one[0] + IN_B), *one[1:]) for one in functions]
        sides.append([(one, None if how.get(one) == "replaced" else where)
                      for one, where in zip(named, grid, strict=True)])
    return len(aligned(sides[0], sides[1])) / max(len(own), len(theirs))
