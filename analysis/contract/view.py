"""What a view is: a question with columns and a way to answer it from one run or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from .column import Column
from .options import Options
from .sections import PageSection, Section

if TYPE_CHECKING:
    import polars as pl

    from ...loaders.trace import Trace


class CannotAnswer(Exception):
    """The recording lacks what the question needs; the message is one sentence: what is missing, what would have it."""


class ScopeRefused(CannotAnswer):
    """What the question is limited to is not in the run, or the run cannot tell; the message says what there is."""


class Answer(Struct, frozen=True):
    """What a view's ``build`` returns: rows still lazy, in their default order, and what was found out on the way.

    ``facts`` are values beside the rows (JSON-able, names with units); ``summary`` the sentences or lines a reader sees
    above the rows; ``notes`` what was left out, repaired or could not be known. ``recorded`` says that the rows are
    recorded columns, without a filter, so that millions of them may stay on disk; ``keep`` then says which belong.
    ``picture`` is lines of text, a block a run, that stand for the rows where people read, or above them where
    ``rows_below``; a ``page`` stands for all. ``cycle_summary`` stands for ``summary`` where two runs are compared per
    cycle; empty where they cannot be. ``doubts`` has by column the share by which its durations may be off.
    """

    frame: pl.LazyFrame
    facts: dict[str, Any] = field(default_factory=dict)
    summary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    recorded: bool = False
    keep: pl.Expr | None = None
    picture: tuple[tuple[str, ...], ...] = ()
    rows_below: bool = False
    page: tuple[PageSection, ...] = ()
    cycle_summary: tuple[str, ...] = ()
    doubts: dict[str, float] = field(default_factory=dict)


Judgement = Literal["bad", "look", "good", "same", "unchecked", ""]


class Lead(Struct, frozen=True):
    """The one number of an answer, which a screen draws large: ``number`` as it is shown (``3.6×``), what it is of, and
    whether that is good or bad; ``lines`` judges lines by their label."""

    number: str
    caption: str
    judgement: Judgement = ""
    lines: dict[str, Judgement] = {}


Runs = tuple["Trace", ...]  # One run, or two: (A,) or (A, B).


def lettered(sides: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The sentences about A, then those about B, each with the letter of its run."""
    return tuple(f"{letter}: {line}" for letter, side in zip("AB", sides, strict=True) for line in side)


def of_both(sides: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The notes on A and on B, each once; one that is of one run only has its letter."""
    a, b = sides
    return tuple(dict.fromkeys(
        note if note in a and note in b else f"{letter}: {note}" for letter, side in zip("AB", sides, strict=True)
        for note in side
    ))


class View(Struct, frozen=True):
    """A question.

    ``columns`` for one run, ``pair_columns`` for two (the same where empty). ``build(runs, options)`` answers it; it
    raises CannotAnswer with a sentence where the input cannot. ``alternates`` names the columns of the other order that
    ``s`` switches to; the first that exists counts. ``noun`` is what a row is called, in the plural,
    ``pair_noun`` a row of two runs where it is another thing;
    ``details(row, runs, options)`` gives the sections that Enter shows beside the row's own columns; ``glance(runs,
    options)`` looks at the whole run once and gives what answers for any row at once, beside the list.
    ``other`` is the same question answered in another shape, which ``s`` switches to as well.
    ``one_run``/``two_runs`` say which subjects it takes. A view gets its runs limited to the cycle of the options,
    unless it ``scopes_itself``; every other scope is applied before it is asked, but the window of one that
    ``windows_itself``. Where it ``lists_cycles`` a screen shows all of them, whichever is in scope. The columns of one
    with ``free_columns`` are whatever was asked for, of one run or of both at once. ``row_id`` names the columns that
    tell its rows apart where keys do not (see ``table/row_ids.py``).
    """

    name: str
    columns: tuple[Column, ...]
    build: Callable[[Runs, Options], Answer]
    pair_columns: tuple[Column, ...] = ()
    alternates: tuple[str, ...] = ()
    one_run: bool = True
    two_runs: bool = True
    scopes_itself: bool = False
    windows_itself: bool = False
    lists_cycles: bool = False
    free_columns: bool = False
    noun: str = "rows"
    pair_noun: str = ""
    row_id: tuple[str, ...] = ()
    details: Callable[[dict[str, Any], Runs, Options], list[Section]] | None = None
    glance: Callable[[Runs, Options], Callable[[dict[str, Any]], list[Section]]] | None = None
    other: View | None = None

    def columns_for(self, runs: int) -> tuple[Column, ...]:
        """The columns for that many runs."""
        return self.pair_columns if runs == 2 and self.pair_columns else self.columns

    def other_order(self, columns: Sequence[Column]) -> Column | None:
        """The column of the other order among those there are; None where the view has one order."""
        by_name = {column.name: column for column in columns}
        return next((by_name[name] for name in self.alternates if name in by_name), None)
