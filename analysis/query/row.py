"""One row of a view by its id: what Enter shows in the app, as a table for any export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from msgspec.structs import replace

from ...loaders.errors import Unreadable
from ...loaders.trace import Info, Trace
from ..contract.options import Options
from ..contract.sections import PageSection, Section
from ..contract.view import CannotAnswer, View
from ..details.event_arguments import rows_of
from ..details.row_details import details
from ..table.export.markdown import histogram_text
from ..table.row_ids import row_ids, row_word
from ..table.table import Table
from ..views import VIEWS

ReadArguments = Callable[[Info, int | None, int, str], dict[str, Any]]
"""Reads an event's arguments from its file, given run, rank, offset and name."""


def view_of(row_id: str, runs: int) -> View | None:
    """The view whose rows have ids like this, for that many runs."""
    word = row_id.partition(":")[0]
    for entry in VIEWS:
        if (ids := row_ids(entry.load(), runs)) is not None and ids.word == word:
            return entry.load()
    return None


def words() -> list[str]:
    """The words that ids start with."""
    return [row_word(entry.load()) for entry in VIEWS]


def row(view: View, table: Table, row_id: str, runs: tuple[Trace, ...], options: Options, read: ReadArguments) -> Table:
    """The row with that id, its details as a page and in the facts. Raises CannotAnswer if there is none, if the id is
    a prefix of several, or if the view could not answer."""
    if table.ids is None:
        raise CannotAnswer(table.notes[0] if table.notes else f"Rows of the view {view.name} have no ids.")
    ids = table.row_ids(0, len(table))
    at = [position for position, one in enumerate(ids) if table.ids.names(one, row_id)]
    if len(at) != 1:
        several = ", ".join(ids[position] for position in at[:4])
        raise CannotAnswer(f"{row_id} matches {len(at)} rows of the view {view.name}" + (f": {several}" if at else ""))
    sections = [_with_arguments(one, runs, read) for one in details(view, table, at[0], runs, options).sections]
    tables = [{"title": one.title, "columns": one.columns, "rows": one.rows, "shape": one.shape} for one in sections]
    one_row = replace(table, row_order=pl.Series([table.row_id(at[0])], dtype=pl.UInt32)).head(1)
    page = tuple(map(_as_page, sections))
    return replace(one_row, page=page, picture=(), summary=(ids[at[0]],), notes=(), same=(), facts={"details": tables})


def _as_page(section: Section) -> PageSection:
    """The section as text and markdown write it; its headers become the first row."""
    rows = (*((section.columns,) if section.columns else ()), *section.rows)
    across = max(map(len, rows), default=0)
    rows = tuple((*row, *("",) * (across - len(row))) for row in rows)
    shape = tuple(histogram_text(section.shape)) if section.shape else ()
    return PageSection(section.title, shape, ("",) * across, rows)


def _with_arguments(section: Section, runs: tuple[Trace, ...], read: ReadArguments) -> Section:
    """The section with the event arguments, which only the file has."""
    if section.event is None:
        return section
    event = section.event
    try:
        recorded = rows_of(read(runs[event.side].info, event.rank, event.offset, event.name))
    except Unreadable as error:
        recorded = (("not read", str(error)),)
    return replace(section, rows=(*section.rows, *recorded))
