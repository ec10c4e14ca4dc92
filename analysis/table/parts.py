"""Rows that expand: the column ``parts`` counts the rows directly below a row that are its parts.

Parts are always among the table's rows, so that cursor and marks stay put, but in its answer only while expanded.
"""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from .table import Table


def opened(table: Table, row: int, is_open: bool) -> Table | None:
    """The answer with that row (as built) expanded or collapsed; None if it has no parts or already is so."""
    if "parts" not in table.rows.schema or table.kept is None:
        return None
    counts = table.rows.column("parts").fill_null(0).to_list()
    below = pl.Series(range(row + 1, row + 1 + counts[row]), dtype=table.kept.dtype)
    others = table.kept.filter(~table.kept.is_in(below.implode()))
    if not counts[row] or (len(others) < len(table.kept)) == is_open:
        return None
    first = pl.Series(children(counts, row), dtype=table.kept.dtype)
    ids = pl.concat([others, first]).sort() if is_open else others
    return replace(table, kept=ids, row_order=ids, passed=None)


def unfolded(table: Table) -> Table:
    """The table with the parts of every row among its rows, for exports; sorted or filtered tables stay as they are."""
    if "parts" not in table.rows.schema or table.kept is None or table.sorted_by is not None or (
            table.filter is not None):
        return table
    return replace(table, kept=None, row_order=None, passed=None, total_rows=table.rows.height)


def children(counts: list[int], row: int) -> list[int]:
    """The direct parts of a row, without parts of parts; ``counts`` is the number of rows below each row."""
    result, at = [], row + 1
    while at <= row + counts[row]:
        result.append(at)
        at += 1 + counts[at]
    return result


def row_of(table: Table, row: int) -> int | None:
    """The row (as built) that this row is a part of; None if there is none."""
    counts = table.rows.column("parts").fill_null(0).to_list()
    return next((at for at in range(row - 1, -1, -1) if counts[at] and at + counts[at] >= row), None)
