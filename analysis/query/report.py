"""A report: one view, or the summary of a run or a pair, as tables ready for an export.

What a view cannot answer from these runs is a table without rows and a note that says why, so that a script sees the
same shape every time and a summary goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...loaders.trace import TABLE_NAMES, Trace
from ..contract.column import Per
from ..contract.options import Options
from ..contract.view import CannotAnswer, ScopeRefused, View
from ..core.run_labels import scope_text
from ..core.text import nearest
from ..table.filters import BadFilter, Filter, unknown_column
from ..table.table import Table
from ..views import VIEWS, view
from .ask import ask, unanswered

SUMMARY_ONE = ("overview", "cycles", "kernels")
SUMMARY_TWO = ("overview", "cycles", "diff")
SUMMARY_COUNTERS = ("metrics",)
SUMMARY_MEMORY = ("memory", "metrics")


class NoSuchColumn(ValueError):
    """The column to sort by is not in the view; the message has the nearest."""


def _answer(one: View, runs: tuple[Trace, ...], options: Options) -> Table:
    try:
        table = ask(one, runs, options)
    except ScopeRefused:
        raise
    except CannotAnswer as reason:
        table = unanswered(one, runs, options, str(reason))
    return replace(table, scope=scope_text(options, len(runs)))


def report(
    name: str | View,
    runs: tuple[Trace, ...],
    options: Options,
    *,
    condition: Filter | None = None,
    sort: str | None = None,
    ascending: bool = False,
    top: int | None = None,
    name_width: int | None = None,
    tree: bool = False,
    per: Per = "cycle",
) -> Table:
    """One view, or its other shape as a ``tree``, filtered, sorted, cut, its names as in a list that wide. Raises
    KeyError, NoSuchColumn, BadFilter, CannotAnswer, ScopeRefused."""
    one = view(name) if isinstance(name, str) else name
    if tree:
        if one.other is None:
            raise CannotAnswer(f"The {one.name} view is no tree; ops is one.")
        one = one.other
    if len(runs) == 1 and not one.one_run:
        raise CannotAnswer(f"The {one.name} view compares two runs; name a second one.")
    table = _answer(one, runs, options).compared(per)
    if condition is not None:
        table = table.filtered(condition)
        if not len(table) and (typed := unknown_column(condition.text, table.columns)):
            raise BadFilter(typed)
    if sort is not None:
        names = {column.name: column for column in table.columns}
        if sort not in names:
            raise NoSuchColumn(f"{one.name} has no column {sort}. {nearest(sort, names)}")
        table = table.sort(sort, not ascending and names[sort].unit != "text")
    table = table if top is None else table.head(top)
    return table if name_width is None else table.with_shown(name_width)


def summary(
    runs: tuple[Trace, ...], options: Options, top: int | None = None, name_width: int | None = None,
    per: Per = "cycle",
) -> list[Table]:
    """What ``report`` without ``--view`` prints: overview, cycles with their exact mean, and kernels or diff."""
    from ..views.kernels import in_overview  # no other question needs it

    known = {entry.name for entry in VIEWS}
    wanted: tuple[str, ...] = SUMMARY_TWO if len(runs) == 2 else SUMMARY_ONE
    if only_counters(runs):
        wanted = SUMMARY_MEMORY if any(run.has("allocations") for run in runs) else SUMMARY_COUNTERS
    tables = [
        report(in_overview(runs) if name == "kernels" else name, runs, options, top=top, name_width=name_width, per=per)
        for name in wanted if name in known
    ]
    return [replace(one, summary=(*one.summary, exact)) if (exact := one.facts.get("exact")) else one for one in tables]


_SAMPLES = frozenset(("metrics", "allocations"))


def only_counters(runs: Sequence[Trace]) -> bool:
    """Whether every one of these runs has samples and no other table."""
    return bool(runs) and all(
        run.has("metrics") and not any(run.has(name) for name in TABLE_NAMES if name not in _SAMPLES) for run in runs
    )
