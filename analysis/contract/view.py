"""Views: a question with its columns, and the function that answers it for one run or two."""

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
    """The recording lacks data for this view; the message is one sentence: what is missing, what would provide it."""


class ScopeRefused(CannotAnswer):
    """The run does not contain the requested scope, or cannot tell; the message says what it has."""


class Answer(Struct, frozen=True):
    """The result of a view's ``build``: rows, still lazy and in default order, with facts, sentences and notes.

    ``facts`` are values besides the rows (JSON-able, names with units); ``summary`` are the lines shown above the rows;
    ``notes`` say what was left out, repaired or unknown. ``recorded``: the rows are recorded columns without a filter,
    so that millions of them may stay on disk; ``keep`` then selects those that belong. ``picture`` is text, a block of
    lines per run, that replaces the rows for human readers, or is shown above them if ``rows_below``; a ``page``
    replaces everything. ``cycle_summary`` replaces ``summary`` if two runs are compared per cycle; empty if they cannot
    be. ``doubts``: relative uncertainty of durations, by column.
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
    """The headline number of an answer, which a screen draws large: ``number`` as shown (``3.6×``), its caption, and
    whether it is good or bad; ``lines`` judges lines by their label."""

    number: str
    caption: str
    judgement: Judgement = ""
    lines: dict[str, Judgement] = {}


Runs = tuple["Trace", ...]  # One run, or two: (A,) or (A, B).


def lettered(sides: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The sentences about A, then those about B, each prefixed with its run's letter."""
    return tuple(f"{letter}: {line}" for letter, side in zip("AB", sides, strict=True) for line in side)


def merged_notes(sides: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The notes on A and B without duplicates; a note on one run only is prefixed with its letter."""
    a, b = sides
    return tuple(dict.fromkeys(
        note if note in a and note in b else f"{letter}: {note}" for letter, side in zip("AB", sides, strict=True)
        for note in side
    ))


def neither(labels: Sequence[str], whys: Sequence[str]) -> str:
    """Why neither run has the data: "X holds no ranges" of both as "Neither run holds ranges", else both sentences."""
    a, b = (why.removeprefix(label) for label, why in zip(labels, whys, strict=True))
    if a == b != whys[0] and " no " in a:
        return f"Neither run{a.replace(' no ', ' ', 1)}"
    return " ".join(dict.fromkeys(whys))


class View(Struct, frozen=True):
    """A question and how it is answered.

    ``columns`` for one run, ``pair_columns`` for two (if empty, the same). ``build(runs, options)`` answers it, or
    raises CannotAnswer with a sentence if the input does not allow it. ``alternates`` names columns for the other sort
    order that ``s`` switches to; the first that exists is used. ``noun`` is the plural for rows, ``pair_noun`` the one
    for rows of two runs if they differ. ``details(row, runs, options)`` gives the sections that Enter shows besides the
    row's own columns; ``glance(runs, options)`` scans the whole run once and returns a function that gives a row's
    sections at once, for the pane beside the list. ``other`` is a variant of the view in another shape, which ``s``
    switches to as well. ``one_run``/``two_runs``: the number of runs it takes. Runs arrive limited to the cycle in the
    options unless the view ``scopes_itself``; all other limits are applied beforehand, except the window of a view that
    ``windows_itself``. If it ``lists_cycles``, a screen shows all cycles, whichever is in scope. With ``free_columns``
    the query determines the columns, for one run or both. ``row_id`` names the columns that identify a row where keys
    do not (see ``table/row_ids.py``).
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
        """The column of the other sort order, from the given columns; None if the view has only one order."""
        by_name = {column.name: column for column in columns}
        return next((by_name[name] for name in self.alternates if name in by_name), None)
