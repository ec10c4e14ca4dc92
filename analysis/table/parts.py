"""Rows that open into others: a column ``parts`` counts the rows right below one that are parts of it.

Parts belong to the table's rows, so that cursor and marks stay when others open, and to its answer only while open.
"""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from .table import Table


def opened(table: Table, row: int, is_open: bool) -> Table | None:
    """The answer with that row (as built) open or closed; None where it has no parts, or is so already."""
    if "parts" not in table.rows.schema or table.kept is None:
        return None
    counts = table.rows.column("parts").fill_null(0).to_list()
    below = pl.Series(range(row + 1, row + 1 + counts[row]), dtype=table.kept.dtype)
    others = table.kept.filter(~table.kept.is_in(below.implode()))
    if not counts[row] or (len(others) < len(table.kept)) == is_open:
        return None
    first = pl.Series(children(counts, row), dtype=table.kept.dtype)
    ids = pl.concat([others, first]).sort() if is_open else others
    return replace(table, kept=ids, order=ids, passed=None)


def children(counts: list[int], row: int) -> list[int]:
    """The parts of a row without what is part of them in turn; ``counts`` has how many rows are under each."""
    made, at = [], row + 1
    while at <= row + counts[row]:
        made.append(at)
        at += 1 + counts[at]
    return made


def row_of(table: Table, row: int) -> int | None:
    """The row (as built) that a row is a part of; None where it is none."""
    counts = table.rows.column("parts").fill_null(0).to_list()
    return next((at for at in range(row - 1, -1, -1) if counts[at] and at + counts[at] >= row), None)
