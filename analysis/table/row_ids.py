"""Row ids: what scripts use to name a row, so that they can ask for its details without parsing its text.

An id is a word for the kind of row and what identifies it within its view. Rows with a number of their own use it
(``launch:1204``, ``cycle:5``). Rows with a name use a hash of their key columns, so that a kernel has the same id in
every run, order and filter (``kernel:3f2a91c0``). Other rows use their position in the view's own order, which is
stable for the same runs and scope (``gap:17``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from msgspec import Struct

from ..contract.column import Column, keys_of
from ..contract.view import View

ID = Column("id", "id", "text", "the id that --row takes", 15, order=0)
LEAST_DIGITS = 4  # Hash digits that are enough if they match one row only.
_SEPARATOR = "\x1f"


class RowIds(Struct, frozen=True):
    """The form of row ids: the ``word`` before the colon, the ``columns`` that identify a row (none: its number),
    and whether those are hashed."""

    word: str
    columns: tuple[str, ...] = ()
    hashed: bool = False

    def of(self, rows: Sequence[tuple[Any, ...]], numbers: Sequence[int]) -> list[str]:
        """The ids of rows, given their values in ``columns`` and their row numbers as built."""
        if not self.columns:
            return [f"{self.word}:{number}" for number in numbers]
        if self.hashed:
            texts = (_SEPARATOR.join(map(str, row)).encode("utf-8", "replace") for row in rows)
            return [f"{self.word}:{crc32(text):08x}" for text in texts]
        return [f"{self.word}:" + "@".join(str(value) for value in row if value is not None) for row in rows]

    def names(self, row_id: str, asked: str) -> bool:
        """Whether ``asked`` is this row's id, long enough a prefix of its hash, or its id without the rank."""
        return row_id == asked or (
            self.hashed and len(asked) >= len(self.word) + 1 + LEAST_DIGITS and row_id.startswith(asked)
        ) or (not self.hashed and row_id.startswith(f"{asked}@"))


def row_ids(view: View, runs: int) -> RowIds | None:
    """The form of a view's row ids for that many runs; None if its columns depend on the query."""
    if view.free_columns:
        return None
    columns = view.columns_for(runs)
    word = row_word(view) if runs == 1 or keys_of(view.columns) or view.row_id else view.name
    names = {column.name for column in columns}
    if view.row_id and names.issuperset(view.row_id):
        hashed = any(column.unit == "text" for column in columns if column.name in view.row_id)
        return RowIds(word, view.row_id, hashed)
    if keys_of(columns):
        return RowIds(word, tuple(column.name for column in columns if _identifies_rows(column)), hashed=True)
    return RowIds(view.name if view.row_id else word)


def row_word(view: View) -> str:
    """The word for a row of a view in its ids: the last one of its noun."""
    noun = view.noun.split()[-1] if view.noun != "rows" else view.name
    for plural, singular in (("series", "series"), ("ies", "y"), ("ches", "ch"), ("s", "")):
        if noun.endswith(plural):
            return noun.removesuffix(plural) + singular
    return noun


def _identifies_rows(column: Column) -> bool:
    return column.pairs == "key" or (column.role == "where" and not column.side)
