"""Do both runs do the same work? Decided by evidence in a fixed order, before anything is called slower or faster.

Durations never count: they may be the regression looked for. Nor do names alone: another library has other kernels. The
first evidence that says yes or no decides; without any the figures stand side by side, without a word.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import units
from ..core.call_tree import Ints, nearest, slices_of
from ..core.callers import operator_rows
from .sequence import WorkUnit

if TYPE_CHECKING:
    from ..work.attribution import Signature

Answer = Literal["yes", "no", "unknown"]
Function = tuple[str, str | None, str | None]  # Name, device and kind.
Evidence = Literal["operators", "flops", "steps", "sequence", "functions", "report"]
ALIKE = 0.95  # Share of the operators of the larger run that must be equal, with their shapes and types.
KNOWN = 0.9  # Share of the operators whose FLOPs must be known...
SAME_FLOPS = 0.05  # ...and by how much the FLOPs of both runs may differ.
COMMON = 0.9  # Share of the longer launch sequence, or of all functions, that both runs must have.
LAUNCHES = 0.85  # Agreement of the launches per cycle of runs that record no order.
SHAPED = 0.5  # Share of the operators that must have recorded shapes for shapes to count.


class Check(Struct, frozen=True):
    """One piece of evidence: its answer, what was counted in A and B, and how alike they are (0-1); null if unknown."""

    evidence: Evidence
    answer: Answer
    a: float | None = None
    b: float | None = None
    likeness: float | None = None


class SameWork(Struct, frozen=True):
    """Whether both runs do the same work, by which evidence, per cycle or recording; ``sentence`` is for users."""

    answer: Answer
    by: Evidence | None
    scope: Literal["cycle", "recording"]
    checks: tuple[Check, ...] = ()
    sentence: str = ""

    @property
    def proved(self) -> bool:
        """Whether the answer is yes: only then is a row, a cycle or a gate judged."""
        return self.answer == "yes"

    @property
    def flops_ratio(self) -> float | None:
        """FLOPs of B over those of A, None where unknown."""
        flops = next((one for one in self.checks if one.evidence == "flops" and one.a and one.b), None)
        return None if flops is None or flops.a is None or flops.b is None else flops.b / flops.a


REPORT = SameWork(
    "yes", "report", "cycle", (Check("report", "yes"),), "same work: a finished comparison says so itself")


def same_work(
    runs: tuple[Trace, Trace], units_of: tuple[WorkUnit | None, WorkUnit | None], common: float | None,
    functions: Check | None = None,
) -> SameWork:
    """Judge two runs by the operators, FLOPs and launches of their units of work; ``common`` is the common share of
    their launch sequences, ``functions`` the evidence of runs without an order of launches (``alike_functions``)."""
    a, b = units_of
    scope: Literal["cycle", "recording"] = "cycle" if functions is not None and not (a and b) else "recording"
    checks: list[Check] = []
    if a is not None and b is not None:
        scope = "cycle" if a.cycle and b.cycle else "recording"
        marked = a.marked and b.marked
        checks += _by_operators(runs, (a, b), marked)
        sequence: Answer = "yes" if common is not None and common >= COMMON else "unknown"
        sizes = float(a.launches.height), float(b.launches.height)
        checks.append(Check("steps", sequence if marked else "unknown", *sizes, common if marked else None))
        checks.append(Check("sequence", sequence, *sizes, common))
    if functions is not None:
        checks.append(functions)
    decided = next((one for one in checks if one.answer != "unknown"), None)
    answer: Answer = "unknown" if decided is None else decided.answer
    return SameWork(answer, None if decided is None else decided.evidence, scope, tuple(checks),
                    _sentence(answer, decided, checks, scope, units_of))


def _sentence(
    answer: Answer, decided: Check | None, checks: Sequence[Check], scope: str,
    units_of: tuple[WorkUnit | None, WorkUnit | None],
) -> str:
    unit = "cycle" if scope == "cycle" else "recording"
    if decided is not None and decided.evidence == "flops" and decided.a and decided.b:
        if answer == "no":
            return f"not judged: B does {units.factor(decided.b / decided.a)} the FLOPs per {unit}"
        return f"same work: equal FLOPs per {unit}"
    if answer == "yes" and decided is not None:
        share = "" if decided.likeness is None else f"{units.percent(100 * decided.likeness, places=0)} of "
        what = {"operators": "the operators agree", "functions": "the functions agree"}.get(
            decided.evidence, "the launches are in common")
        return f"same work: {share}{what}"
    lacking = []
    seen = {one.evidence: one for one in checks}
    if any(one is not None and not one.marked for one in units_of):
        lacking.append("no step marks")
    operators = seen.get("operators")
    if operators is None:
        lacking.append("no shapes" if "sequence" in seen else "no operators")
    elif operators.likeness is not None:
        lacking.append(f"{units.percent(100 * operators.likeness, places=0)} of the operators in common")
    for evidence, what in (("sequence", "launches"), ("functions", "functions and their launches")):
        if evidence in seen and seen[evidence].likeness is not None:
            lacking.append(f"{units.percent(100 * (seen[evidence].likeness or 0), places=0)} of the {what} in common")
    return f"not judged: nothing shows that both do the same work{': ' if lacking else ''}{', '.join(lacking)}"


def _by_operators(runs: tuple[Trace, Trace], units_of: tuple[WorkUnit, WorkUnit], marked: bool) -> list[Check]:
    """The evidence of the outermost operators that launched device work, and of their FLOPs."""
    rows = [launching_operators(run, unit) for run, unit in zip(runs, units_of, strict=True)]
    if any(len(one) == 0 for one in rows):
        return []
    recorded = [run.host.select("name", "shapes", "types").with_row_index("row").filter(
        pl.col("row").is_in(pl.Series(some, dtype=pl.get_index_type()).implode())
    ).select(pl.col("name", "shapes", "types").cast(pl.String)).collect(engine="streaming")
        for run, some in zip(runs, rows, strict=True)]
    shapes = all(one["shapes"].count() >= SHAPED * one.height for one in recorded)
    checks = []
    if shapes or marked:
        names = [Counter(
            (name, shape if shapes else None, (types or "").lower() if shapes else None)
            for name, shape, types in one.rows()) for one in recorded]
        likeness = (names[0] & names[1]).total() / max(names[0].total(), names[1].total())
        checks.append(Check("operators", "yes" if likeness >= ALIKE else "unknown",
                            float(names[0].total()), float(names[1].total()), likeness))
    if shapes:
        flops = [_flops(run, unit, len(some)) for run, unit, some in zip(runs, units_of, rows, strict=True)]
        a, b = flops
        if a and b:
            checks.append(Check("flops", "yes" if max(a, b) <= (1 + SAME_FLOPS) * min(a, b) else "no", a, b))
    return checks


def launching_operators(run: Trace, unit: WorkUnit) -> list[int]:
    """The rows of the host table with the outermost operators that launched the unit's work, each once."""
    top = outermost_operators(run, unit)
    return [] if top is None else [int(row) for row in np.unique(top[top >= 0])]


def outermost_operators(run: Trace, unit: WorkUnit) -> Ints | None:
    """The outermost operator of each launch of the unit, as a row of the host table, -1 for none; None without any."""
    operators = _operator_of(run, unit)
    if operators is None:
        return None
    slices = slices_of(run)
    is_op = slices.of_kind("op")
    top = operators.copy()
    while True:
        above = nearest(slices.parent, np.where(top >= 0, slices.parent[top], -1), is_op)
        if not (above >= 0).any():
            return top
        top = np.where(above >= 0, above, top)


def _operator_of(run: Trace, unit: WorkUnit) -> Ints | None:
    """The operator of each launch of the unit, as a row of the host table, -1 for none; None without operators."""
    if not run.has("host") or run.captures is not None:
        return None
    return operator_rows(run, replays=False)[rows_of(run, unit)]


def rows_of(run: Trace, unit: WorkUnit) -> Ints:
    """The rows of ``run.kernels`` with the unit's launches."""
    index = run.kernels.select("index").with_row_index("row").collect(engine="streaming")
    rows = unit.launches.select("index").join(index, on="index", how="left", maintain_order="left")["row"]
    return rows.cast(pl.Int64).to_numpy()


def _flops(run: Trace, unit: WorkUnit, operators: int) -> float | None:
    """The FLOPs of the unit; None unless they are known for nearly all of its operators."""
    from ..work.attribution import attribution_of  # 15 modules that runs without shapes do not need

    attribution = attribution_of(run)
    if attribution is None:
        return None
    rows = rows_of(run, unit)
    owner, signature = attribution.owner[rows], attribution.signature[rows]
    first = np.unique(owner[owner >= 0], return_index=True)[1]
    known = [flops for at in signature[owner >= 0][first].tolist()
             if at >= 0 and (flops := flops_of(attribution.signatures[at])) is not None]
    return float(sum(known)) if known and len(known) >= KNOWN * max(len(first), operators) else None


def flops_of(one: Signature) -> int | None:
    """The FLOPs of a call; what only moves data has none whatever its arguments. Attention whose causal flag is not
    recorded counts as not causal, in both runs alike."""
    from ..work.operators import entry

    if one.work is not None:
        return one.work.flops
    found = entry(one.name)
    if found is not None and found.formula == "0":
        return 0
    shapes = json.loads(one.shapes) if one.shapes and "attention" in one.name else []
    if one.contradicts or len(shapes) < 3 or any(len(shape) != 4 for shape in shapes[:3]):
        return None
    query, key, value = shapes[:3]
    heads, rows = (2, 1) if "_attention_forward" in one.name else (1, 2)
    return int(2 * query[0] * query[heads] * query[rows] * key[rows] * (query[3] + value[3]))


class LaunchWork(Struct, frozen=True):
    """Per launch of a unit the call it belongs to (-1: none), and of each call its operator and FLOPs if known."""

    call: list[int]
    operators: dict[int, tuple[str, int | None]]


def flops_of_launches(run: Trace, unit: WorkUnit) -> LaunchWork | None:
    """The calls behind the launches of a unit; None where no operator was recorded."""
    from ..work.attribution import attribution_of

    attribution = attribution_of(run) if run.has("host.shapes") else None
    if attribution is None:
        return None
    rows = rows_of(run, unit)
    owner, signature = attribution.owner[rows].tolist(), attribution.signature[rows].tolist()
    calls: dict[int, tuple[str, int | None]] = {}
    for call, at in zip(owner, signature, strict=True):
        if call >= 0 and at >= 0 and call not in calls:
            calls[call] = attribution.signatures[at].name, flops_of(attribution.signatures[at])
    return LaunchWork(owner, calls)


def of_calls(work: LaunchWork | None, launches: Sequence[int]) -> tuple[int | None, str]:
    """The FLOPs of the calls behind some launches (places in the unit), None unless all are known; and their names."""
    calls = dict.fromkeys(work.call[at] for at in launches) if work is not None else {}
    if work is None or any(call not in work.operators for call in calls):
        return None, ""
    flops = [work.operators[call][1] for call in calls]
    names = ", ".join(dict.fromkeys(work.operators[call][0] for call in calls))
    return (None if None in flops else sum(one or 0 for one in flops)), names


def alike_functions(
    a: Mapping[Function, float], b: Mapping[Function, float], counted: bool
) -> Check:
    """The evidence of runs that record neither order nor operators: launches a cycle of each device function by name,
    device and kind, of B under A's names. ``counted``: whether launches are recorded."""
    every, both = a.keys() | b.keys(), a.keys() & b.keys()
    share = len(both) / len(every) if every else None
    most = sum(max(a.get(key, 0.0), b.get(key, 0.0)) for key in every)
    launches = sum(min(a[key], b[key]) for key in both) / most if most and counted else None
    yes = share is not None and share >= COMMON and (launches is None or launches >= LAUNCHES)
    likeness = min((one for one in (share, launches) if one is not None), default=None)
    return Check("functions", "yes" if yes else "unknown", float(len(a)), float(len(b)), likeness)
