"""Aligned text for a terminal, a log or a pipe into ``less``. Long names are cut in the middle; no escape sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len

from ...contract.sections import PageSection
from ...core import units
from ...core.text import clean, cut, display
from ..table import Table
from .state import answer_lines, base_line, notes, state_line

_BLOCK = 20_000
_MEASURED = 2_000  # Rows that set the column widths; a longer cell further down only shifts its own row.
_NAME = 72


def _text(row: Sequence[Any], at: int, table: Table) -> str:
    column, shown = table.columns[at], table.display_text(row, at)
    if column.role == "name" and row[at] is not None:
        return table.shown_name(row[at], _NAME)
    return cut(clean(shown), _NAME) if column.unit == "text" else shown


def _pad(text: str, width: int, left: bool) -> str:
    room = " " * max(0, width - cell_len(text))
    return text + room if left else room + text


def rows_as_text(table: Table) -> list[str]:
    """Header and rows, aligned by column; only the columns that a list shows."""
    shown = [(at, column) for at, column in enumerate(table.columns) if column.order is not None]
    sample = table.window(0, min(_MEASURED, len(table)))
    filled = [
        (at, column)
        for at, column in shown
        if not sample or any(table.display_text(row, at) not in units.NOTHING for row in sample)
    ]
    widths = [
        max([cell_len(column.header), *(cell_len(_text(row, at, table)) for row in sample)])
        for at, column in filled
    ]
    lines = ["  ".join(_pad(column.header, w, column.is_left) for (_, column), w in zip(filled, widths, strict=True))]
    for start in range(0, len(table), _BLOCK):
        for row in table.window(start, min(start + _BLOCK, len(table))):
            cells = (
                _pad(_text(row, at, table), w, column.is_left)
                for (at, column), w in zip(filled, widths, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
    return lines


def block(table: Table) -> str:
    """One view: title, summary, rows, notes."""
    lines = [f"{table.view.upper()}  {state_line(table)}{base_line(table)}"]
    lines += [f"  {display(line, 400)}" for line in table.summary]
    lines += [f"  {display(line, 400)}" for line in answer_lines(table)]
    lines.append("")
    if table.page:
        lines += [line for part in table.page for line in _section(part)]
    else:
        lines += [line for block in table.picture for line in (*block, "")]
        if len(table) and (table.rows_below or not table.picture):
            lines += rows_as_text(table)
    lines += [f"! {display(note, 600)}" for note in notes(table)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _section(page: PageSection) -> list[str]:
    """One section of a page: title, its table, its sentences."""
    room = [_NAME if name in page.code else 400 for name in page.header]
    rows = [tuple(display(text, width) for text, width in zip(row, room, strict=True)) for row in page.rows]
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(page.header))] if rows else []
    laid = ["  " + "  ".join(_pad(text, width, True) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows]
    return [page.title.upper(), *laid, *(f"  · {display(line, 400)}" for line in page.sentences), ""]


def render(tables: Sequence[Table]) -> bytes:
    """The views one after the other, below a line that names the runs."""
    sources = tables[0].sources if tables else ()
    title = "  →  ".join(f"{display(source.label, 80)} ({source.format})" for source in sources)
    return f"warplens  {title}\n\n{chr(10).join(block(table) for table in tables)}".encode("utf-8", "backslashreplace")
