"""The details that stand beside a list while one moves in it.

A view that has a ``glance`` looks at the whole run once, in the background; what that gives answers for any row in
about a millisecond. The other views give what Enter gives, without what only the file has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options
from ...contract.sections import Detail, Section
from ...contract.view import CannotAnswer, View
from ...core import units
from ...core.names.display_names import of_runs, speaking_of
from ...core.text import display
from ...cycles.scope import part
from ...table.table import Table
from ..row_details import fields

Glance = Callable[[Table, int], Detail]  # What is known of the row at that position of that table, as it is shown.


def glance_of(view: View, runs: tuple[Trace, ...], options: Options) -> Glance:
    """What answers for the rows of the view; looks at the whole run. The view has ``details``."""
    of_activities = of_runs(runs)
    runs = tuple(part(run, options, side) for run, side in zip(runs, SIDES, strict=False))
    options = options.without_part()
    with speaking_of(of_activities):
        of_row = view.glance(runs, options) if view.glance else None

    def of(table: Table, position: int) -> Detail:
        values = table.window(position, position + 1)[0]
        row = {column.name: value for column, value in zip(table.columns, values, strict=True)}
        with speaking_of(of_activities):
            sections = _sections(view, of_row, row, runs, options)
        return Detail((*_named(table, row), *(sections or [_known(table, row)])))

    return of


def _named(table: Table, row: dict[str, Any]) -> tuple[Section, ...]:
    named = (row[column.name] for column in table.columns if column.role in ("name", "label"))
    name = next((value for value in named if value is not None), None)
    return (Section(display(str(name))),) if name is not None else ()


def _known(table: Table, row: dict[str, Any]) -> Section:
    """The row itself, without what was not measured."""
    whole = fields(table.columns, row)
    return replace(whole, rows=tuple(one for one in whole.rows if one[1] != units.MISSING))


def _sections(
    view: View, of_row: Callable[[dict[str, Any]], list[Section]] | None, row: dict[str, Any],
    runs: tuple[Trace, ...], options: Options,
) -> list[Section]:
    try:
        if of_row is not None:
            return of_row(row)
        made = view.details(row, runs, options) if view.details else []
    except CannotAnswer as error:
        return [Section("Not known", (("why", display(str(error))),))]
    return [replace(one, event=None) if one.rows else one for one in made if one.rows or one.shape]
