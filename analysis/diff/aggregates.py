"""The diff of runs of which only totals were recorded: subtracted, without statistics, the step breakdown first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer
from ..core import device_pairs as devices
from ..core import units
from ..core.names.same_function import Function, same_functions
from ..kernels.sources import kernels_of
from .device_work import work_of_sums
from .function_change import FunctionChange, category, frame_of, in_order
from .prepare.prepared import caveats
from .same_work import SameWork, alike_functions, same_work
from .sentences import line, total_line
from .verdict import CategoryTime, Comparability, Verdict

if TYPE_CHECKING:
    from ..overview.overview import Overview

SAID = 0.1  # A category is named if its change is at least this share of the sum of all changes.
Key = tuple[str, str | None]  # Function and device.
_Item = TypeVar("_Item")
_Often = Callable[[_Item], tuple[float, str | None]]
Sums = dict[Key, tuple[int, int, str | None]]  # (function, device) → total ns, launches and kind.
_NO_STATISTICS = "Only aggregates were recorded: differences, no statistics are possible."


def aggregates(runs: tuple[Trace, Trace], options: Options) -> Answer:
    """The difference of step breakdowns and of kernel totals. Raises CannotAnswer if a run has neither."""
    steps = breakdowns(runs, options)
    result = [kernels_of(run) for run in runs]
    if (result[0] is None or result[1] is None) and steps is None:
        lacking = [run.info.label for run, side in zip(runs, result, strict=True) if side is None]
        holds = "holds" if len(lacking) == 1 else "hold"
        operators = "; ops compares their operators" if all(run.has("host.kind=op") for run in runs) else ""
        raise CannotAnswer(
            f"{' and '.join(lacking)} {holds} neither launches nor sums of kernels to compare{operators}.")
    names = [side.frame["device"].cast(pl.String).to_list() if side is not None else [] for side in result]
    apart = not devices.together(*names)
    a, b = (sums_of(side.frame, apart) if side is not None else {} for side in result)
    only, moved = (devices.only_device(*names), devices.mapped(*names)) if apart else (None, {})
    a = {(name, device or only): sums for (name, device), sums in a.items()}
    b = {(name, moved.get(device or "", device or only)): sums for (name, device), sums in b.items()}
    sides = a, under_the_same_names(a, b, lambda sums: (sums[1], sums[2]))
    rows = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        (a_ns, n_a, kind_a), (b_ns, n_b, kind_b) = (side.get(key, (0, 0, None)) for side in sides)
        us_a, us_b = (total / count / 1e3 if count else None for total, count in ((a_ns, n_a), (b_ns, n_b)))
        kind = kind_a or kind_b
        rows.append(FunctionChange(
            key[0], key[1], kind, category(kind, key[1]), launches_a=float(n_a), launches_b=float(n_b),
            launch_us_a=us_a, launch_us_b=us_b, ratio=us_b / us_a if us_a and us_b else None, a_ms=a_ns / 1e6,
            b_ms=b_ns / 1e6, delta_ms=(b_ns - a_ns) / 1e6,
            verdict="new" if not n_a else "gone" if not n_b else "too few cycles",
        ))
    same = same_sums(runs, sides)
    for row in rows:
        if row.verdict == "too few cycles" and not same.proved:
            row.verdict = "not judged"
    comparable = Comparability(same.proved, same.flops_ratio, tuple(caveats(runs, options)))
    step = step_sentence(*steps) if steps else None
    verdict = Verdict(
        comparable, same, f"{step}. {_NO_STATISTICS}" if step else _NO_STATISTICS, "aggregates",
        work=work_of_sums(rows), breakdown=_categories(*steps) if steps else (),
    )
    lines = [
        *([line("Step", step)] if step else []), *([total_line(rows, same)] if rows else []),
        line("Data", "; ".join([same.sentence, *comparable.reasons, "aggregates only, no statistics are possible"])),
    ]
    return Answer(in_order(frame_of(rows)).lazy(), verdict.facts(), tuple(lines), (_NO_STATISTICS,))


def breakdowns(runs: tuple[Trace, Trace], options: Options) -> tuple[Overview, Overview] | None:
    """The step breakdown of both runs by category; None if one has none recorded."""
    if not all(run.has("breakdown") for run in runs):
        return None
    from ..overview.sources import overview_of  # imports every rule of the findings: only recorded breakdowns need it

    return overview_of(runs[0], options, "a"), overview_of(runs[1], options, "b")


def _categories(a: Overview, b: Overview) -> tuple[CategoryTime, ...]:
    """Every category of either run, largest change first."""
    names = dict.fromkeys([*a.times, *b.times])
    result = [CategoryTime(name, a.times.get(name, 0.0) / 1e6, b.times.get(name, 0.0) / 1e6) for name in names]
    return tuple(sorted(result, key=lambda one: -abs(one.delta_ms)))


def step_sentence(a: Overview, b: Overview) -> str | None:
    """'6.29 s → 1.07 s per step (−83.0%): Runtime 4.83 s → 114.4 ms (−4.71 s), CPU Exec …'."""
    if not a.window_ns or not b.window_ns:
        return None
    changes = _categories(a, b)
    moved = sum(abs(one.delta_ms) for one in changes)
    named = [
        f"{one.category} {units.duration(one.a_ms * 1e6)} → {units.duration(one.b_ms * 1e6)}"
        f" ({units.duration(one.delta_ms * 1e6, signed=True)})"
        for place, one in enumerate(changes) if one.delta_ms and (place == 0 or abs(one.delta_ms) >= SAID * moved)
    ]
    percent = units.percent(100 * (b.window_ns - a.window_ns) / a.window_ns, signed=True)
    text = f"{units.duration(a.window_ns)} → {units.duration(b.window_ns)} per step ({percent})"
    return f"{text}: {', '.join(named)}" if named else text


def sums_of(frame: pl.DataFrame, by_device: bool = True) -> Sums:
    """Totals of the functions in a kernel table; without ``by_device`` summed over devices, with device None."""
    columns = frame.select(pl.col("name", "device", "kind").cast(pl.String), "total_ns", "count")
    result: Sums = {}
    for name, device, kind, total, count in columns.rows():
        key = name, device if by_device else None
        before = result.get(key, (0, 0, kind))
        result[key] = before[0] + (total or 0), before[1] + (count or 0), kind
    return result


def under_the_same_names(a: Mapping[Key, _Item], b: Mapping[Key, _Item], often: _Often[_Item]) -> dict[Key, _Item]:
    """B's items under A's names of the same functions; ``often`` gives an item's launches and kind."""
    sides: list[dict[Function, float]] = [
        {(name, (device, kind)): count for (name, device), one in side.items() for count, kind in [often(one)]}
        for side in (a, b)
    ]
    same = same_functions(*sides)
    return {(same.get((name, (device, often(one)[1])), name), device): one for (name, device), one in b.items()}


def same_sums(runs: tuple[Trace, Trace], sides: Sequence[Sums]) -> SameWork:
    """Whether two tables of sums are of the same work: by their functions, and the launches where these are counted."""
    launches = [{(*key, kind): float(count) for key, (_, count, kind) in side.items()} for side in sides]
    counted = all(any(side.values()) for side in launches)
    return same_work(runs, (None, None), None, alike_functions(launches[0], launches[1], counted))
