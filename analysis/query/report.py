"""A report: one view, or the summary of a run or a pair, as tables ready for export.

A view that cannot answer for these runs gives a table without rows and a note with the reason, so that scripts always
see the same shape and a summary continues.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Per
from ..contract.options import Options
from ..contract.view import CannotAnswer, ScopeRefused, View
from ..core.run_labels import scope_text
from ..core.text import nearest
from ..table.filters import BadFilter, Filter, unknown_column
from ..table.table import Table
from ..views import VIEWS, lacking, view
from .answering import explained, host_lists, without_device_work
from .ask import ask, unanswered


class NoSuchColumn(ValueError):
    """The view has no column of that name to sort by; the message suggests the nearest."""


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
    """One view, or its ``tree`` variant, filtered, sorted and cut to ``top`` rows; ``name_width`` adds short names.
    Raises KeyError, NoSuchColumn, BadFilter, CannotAnswer, ScopeRefused."""
    one = view(name) if isinstance(name, str) else name
    if tree:
        if one.other is None:
            raise CannotAnswer(f"The {one.name} view is no tree; ops and stacks are.")
        one = one.other
    if len(runs) == 1 and not one.one_run:
        raise CannotAnswer(f"The {one.name} view compares two runs; name a second one.")
    table = _answer(one, runs, options).compared(per)
    if one is not view(one.name):  # another variant, whose rows --row would not find
        table = replace(table, ids=None)
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
    """The tables of ``report`` without ``--view``: overview, cycles with their exact mean, and a list or the diff."""
    from ..views.kernels import in_overview  # no other question needs it

    registered = {entry.name for entry in VIEWS}
    usual = ("overview", "cycles", "diff" if len(runs) == 2 else _list_of(runs))
    wanted = without_device_work(runs) or (*usual, *explained(runs))
    tables = [
        report(in_overview(runs) if name == "kernels" else name, runs, options, top=top, name_width=name_width, per=per)
        for name in wanted if name in registered
    ]
    return [replace(one, summary=(*one.summary, exact)) if (exact := one.facts.get("exact")) else one for one in tables]


def _list_of(runs: Sequence[Trace]) -> str:
    """The view that lists what takes time: kernels, or operators, ranges or host calls if no device was recorded."""
    (kernels,) = (entry for entry in VIEWS if entry.name == "kernels")
    return next(iter(host_lists(runs)), "kernels") if lacking(kernels, tuple(runs)) else "kernels"
