"""A view's answer, collected: columns, rows by window, totals, facts, notes and sources.

Every consumer (the list on the screen, the exporters, the report) reads rows through ``window``, so that a table of
millions of launches is never turned into Python objects as a whole. Sorting and filtering give a new Table that shares
the columns of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from ..loaders.trace import Trace
from .column import Column
from .filters import Filter
from .options import Options
from .view import Answer, CannotAnswer, View

_SIZES = frozenset(("count", "number", "ns", "us", "ms", "fraction", "percent", "bytes"))
"""Units of which more is more."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows come from: the run's label, path, format, and what was wrong with it."""

    label: str
    path: str
    format: str
    bytes: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """Rows of a view. ``total_rows`` counts what the view has before filter and ``--top``; ``len`` what is here.

    ``scope`` is the sentence that says what it was limited to ('cycle 5 of A'), empty where it was not.
    """

    view: str
    columns: tuple[Column, ...]
    frame: pl.DataFrame
    total_rows: int
    facts: dict[str, Any] = field(default_factory=dict)
    summary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    sorted_by: str | None = None
    descending: bool = False
    filter: Filter | None = None
    scope: str = ""
    order: pl.Series | None = None  # row numbers of ``frame`` in the order shown; None is as built

    def __len__(self) -> int:
        return self.frame.height if self.order is None else len(self.order)

    def window(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        """Raw values of rows start..stop in the order shown, one tuple a row, in the order of ``columns``."""
        if self.order is None:
            return self.frame[start:stop].rows()
        return self.frame[self.order[start:stop]].rows()

    def row_id(self, position: int) -> int:
        """An identity of the row at that position that survives sorting and filtering."""
        return position if self.order is None else int(self.order[position])

    def position(self, row_id: int) -> int | None:
        """Where the row with that identity is now; None where it is filtered out."""
        if self.order is None:
            return row_id if row_id < self.frame.height else None
        found = self.order.eq(row_id).arg_max()
        return found if found is not None and len(self.order) and self.order[found] == row_id else None

    def sort(self, column: str, descending: bool) -> Table:
        """The same rows by that column, nulls last, ties in the order they were built."""
        ids = pl.Series("id", range(self.frame.height), dtype=pl.UInt32) if self.order is None else self.order.sort()
        keys = self.frame[column].gather(ids)
        if keys.dtype == pl.Categorical:
            keys = keys.cast(pl.String)
        order = pl.DataFrame({"id": ids, "key": keys}).sort(
            "key", "id", descending=[descending, False], nulls_last=True, maintain_order=True
        )["id"]
        return replace(self, order=order, sorted_by=column, descending=descending)

    def filtered(self, condition: Filter | None) -> Table:
        """The rows that pass, in the same order; None shows all again."""
        base = replace(self, order=None, filter=condition)
        if condition is not None:
            mask = condition.mask(self.frame, self.columns)
            base = replace(base, order=mask.arg_true().cast(pl.UInt32))
        return base.sort(self.sorted_by, self.descending) if self.sorted_by else base

    def head(self, rows: int) -> Table:
        """The first rows in the order shown; ``total_rows`` still counts all."""
        frame = self.frame[:rows] if self.order is None else self.frame[self.order[:rows]]
        return replace(self, frame=frame, order=None)

    def shown(self) -> pl.DataFrame:
        """All rows in the order shown, as a frame."""
        return self.frame if self.order is None else self.frame[self.order]

    def same_rows(self, other: Table) -> bool:
        """Whether both show rows of the same answer, so that a row identity of one means the same in the other."""
        return self.frame is other.frame

    def widest(self, column: str) -> int:
        """The length of the longest text in the column, in characters; 0 where it is no text."""
        values = self.frame[column]
        if values.dtype == pl.Categorical:
            values = values.unique().cast(pl.String)
        if values.dtype != pl.String:
            return 0
        longest = values.str.len_chars().max()
        return longest if isinstance(longest, int) else 0

    def threshold(self, rows: int) -> tuple[int, float] | None:
        """The index of the column that matters most and the size its ``rows`` largest values have at least.

        That is the column sorted by, else the first duration listed; None where there is none, or too few rows.
        """
        numbers = [column for column in self.columns if column.unit in _SIZES and column.order is not None]
        chosen = next((column for column in numbers if column.name == self.sorted_by), None)
        chosen = chosen or next((column for column in numbers if column.unit in ("ns", "us", "ms")), None)
        if chosen is None or self.frame.height <= 2 * rows:
            return None
        largest = self.frame[chosen.name].drop_nulls().abs().top_k(rows)
        if len(largest) < rows or (least := largest.min()) is None or least == 0:
            return None
        return self.columns.index(chosen), least  # type: ignore[return-value]

    def find(self, text: str, start: int, backwards: bool = False) -> int | None:
        """The next position at or after ``start`` (before it, backwards) whose text holds ``text``, else None."""
        mask = Filter.containing(text).mask(self.frame, self.columns)
        hits = mask.arg_true() if self.order is None else mask.gather(self.order).arg_true()
        side = hits.filter(hits <= start) if backwards else hits.filter(hits >= start)
        if not len(side):
            return None
        return int(side[-1] if backwards else side[0])


def sources(runs: tuple[Trace, ...]) -> tuple[Source, ...]:
    """What the rows come from, one per run."""
    return tuple(
        Source(run.info.label, run.info.source, run.info.format, run.info.bytes, run.info.warnings) for run in runs
    )


def ask(view: View, runs: tuple[Trace, ...], options: Options | None = None) -> Table:
    """The view's answer for one run or two, collected on the streaming engine. Raises CannotAnswer."""
    if len(runs) == 1 and not view.one_run:
        raise CannotAnswer(f"The {view.name} view compares two runs; name a second one.")
    if len(runs) == 2 and not view.two_runs:
        runs = runs[:1]
    options = options or Options()
    if not view.scopes_itself and (options.cycle is not None or options.cycle_b is not None):
        from .scope import scoped

        runs = (scoped(runs[0], options, "a"), *(scoped(run, options, "b") for run in runs[1:]))
    answer: Answer = view.build(runs, options)
    columns = view.columns_for(len(runs))
    frame = answer.frame.select([column.name for column in columns]).collect(engine="streaming")
    return Table(
        view=view.name, columns=columns, frame=frame, total_rows=frame.height, facts=answer.facts,
        summary=answer.summary, notes=answer.notes, sources=sources(runs),
    )
