"""Ids of rows: what a script names a row by, so that it can ask for the row's details without reading its text.

An id is a word for the row and what tells it from the others of its view. Rows that have a number of their own are
called by it (``launch:1204``, ``cycle:5``). Rows of a name are called by a hash of the columns that tell them apart, so
that a kernel has one id in every run, order and filter (``kernel:3f2a91c0``). Others are called by their number in the
view's own order, which holds for the same runs and scope (``gap:17``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from msgspec import Struct

from ..contract.column import Column, keys_of
from ..contract.view import View

ID = Column("id", "id", "text", "what --row names this row by", 15, order=0)
LEAST_DIGITS = 4  # Of a hash so many digits are enough where they name one row.
_SEPARATOR = "\x1f"


class RowIds(Struct, frozen=True):
    """How rows are named: ``word`` before the colon, the ``columns`` that tell them apart (none: their number), and
    whether those are hashed."""

    word: str
    columns: tuple[str, ...] = ()
    hashed: bool = False

    def of(self, rows: Sequence[tuple[Any, ...]], numbers: Sequence[int]) -> list[str]:
        """The ids of rows, given the values of ``columns`` and their numbers as built."""
        if not self.columns:
            return [f"{self.word}:{number}" for number in numbers]
        if self.hashed:
            texts = (_SEPARATOR.join(map(str, row)).encode("utf-8", "replace") for row in rows)
            return [f"{self.word}:{crc32(text):08x}" for text in texts]
        return [f"{self.word}:" + "@".join(str(value) for value in row if value is not None) for row in rows]

    def names(self, row_id: str, asked: str) -> bool:
        """Whether ``asked`` means this row: its id, enough of the beginning of a hash, or one without its rank."""
        return row_id == asked or (
            self.hashed and len(asked) >= len(self.word) + 1 + LEAST_DIGITS and row_id.startswith(asked)
        ) or (not self.hashed and row_id.startswith(f"{asked}@"))


def row_ids(view: View, runs: int) -> RowIds | None:
    """How the rows of a view of that many runs are named; None where its columns are whatever was asked for."""
    if view.free_columns:
        return None
    columns = view.columns_for(runs)
    word = row_word(view) if runs == 1 or keys_of(view.columns) or view.row_id else view.name
    names = {column.name for column in columns}
    if view.row_id and names.issuperset(view.row_id):
        hashed = any(column.unit == "text" for column in columns if column.name in view.row_id)
        return RowIds(word, view.row_id, hashed)
    if keys_of(columns):
        return RowIds(word, tuple(column.name for column in columns if _tells_apart(column)), hashed=True)
    return RowIds(view.name if view.row_id else word)


def row_word(view: View) -> str:
    """What one row of a view is called in its ids."""
    noun = view.noun if view.noun != "rows" else view.name
    for plural, singular in (("series", "series"), ("ies", "y"), ("ches", "ch"), ("s", "")):
        if noun.endswith(plural):
            return noun.removesuffix(plural) + singular
    return noun


def _tells_apart(column: Column) -> bool:
    return column.pairs == "key" or (column.role == "where" and not column.side)
