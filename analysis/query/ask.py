"""From a view and its runs to a table, computed or read from the stored answer.

The runs are restricted to the scope of the options, the view answers, and the columns to list for these rows are
chosen. Large numbers of recorded rows stay on disk. Answers about big recordings are stored beside their tables: the
overview of a 2 GB trace takes 5 s, and 0.2 s the second time. The key includes file state, label, order of the runs and
the state of our code; answers with a scope, with rows on disk or with many rows are not stored.

A column that says where its rows belong (device, kind, rank, metric) and has the same value on every row does not
distinguish them: it is shown once above them, which leaves more room for names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import polars as pl
from msgspec import DecodeError, Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Column, Per
from ..contract.options import SIDES, Options
from ..contract.sections import PageSection
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.derived import code_hash, is_stored, packed, unpacked
from ..core.names.display_names import short_names_of, speaking_of
from ..core.names.short_name import fit_name
from ..core.text import display
from ..cycles.statement import cycle_facts
from ..table.row_ids import row_ids
from ..table.rows import Rows
from ..table.sorting import true_ids
from ..table.table import Table, names_of, sources
from ..work.peaks import settings_text
from .answering import reason

MOST_BYTES = 24 << 20  # Largest answer in memory that is stored; 1,300 lanes of 100 columns take 10 MB.
MOST_ANSWERS = 40  # Answers stored per recording: all its views, and its comparisons with some others.
_BEGINNING = "answer-"


class _Stored(Struct, frozen=True):
    """The rows, and the other fields of an ``Answer``."""

    rows: pl.DataFrame
    facts: dict[str, Any]
    summary: tuple[str, ...]
    notes: tuple[str, ...]
    picture: tuple[tuple[str, ...], ...]
    rows_below: bool
    page: tuple[PageSection, ...]
    cycle_summary: tuple[str, ...]

    def answer(self) -> Answer:
        """The answer with its rows collected."""
        return Answer(self.rows.lazy(), **{name: getattr(self, name) for name in _BESIDE})


_BESIDE = _Stored.__struct_fields__[1:]


def cached_answer(view: View, runs: Runs, options: Options, names: Sequence[str], find: Callable[[], Answer]) -> Answer:
    """The answer with the columns ``names`` collected, from ``find`` or as stored by an earlier call. Raises what
    ``find`` raises. Rows that may stay on disk (``recorded``) are returned as ``find`` gives them."""
    store = runs[0].derived_store if runs and all(is_stored(run) for run in runs) else None
    if store is None or options != Options() or view.free_columns:
        return find()
    question = [view.name, view.build.__module__, view.build.__qualname__, code_hash(), settings_text()]
    for run in runs:
        assert run.derived_store is not None
        question += [run.derived_store.identity, repr(run.info)]
    name = f"{_BEGINNING}{pl.Series([repr(question)]).hash()[0]:016x}"
    if (frame := store.read(name)) is not None:
        with suppress(DecodeError, ValueError, TypeError, IndexError, pl.exceptions.PolarsError):
            stored: _Stored = unpacked(frame, _Stored)
            return stored.answer()
    answer = find()
    if answer.recorded:
        return answer
    plan = answer.frame if answer.keep is None else answer.frame.filter(answer.keep)
    rows = plan.select(names).collect(engine="streaming")
    stored = _Stored(rows, **{name: getattr(answer, name) for name in _BESIDE})
    with suppress(TypeError, ValueError, OverflowError):
        if rows.estimated_size() <= MOST_BYTES and (data := packed(stored)).estimated_size() <= MOST_BYTES:
            store.write(name, data)
            store.only_last(_BEGINNING, MOST_ANSWERS)
    return stored.answer()


ON_DISK = 500_000  # From this many rows on, recorded columns are left on disk.


def ask(view: View, runs: tuple[Trace, ...], options: Options | None = None) -> Table:
    """The view's answer for one or two runs, collected on the streaming engine. Raises CannotAnswer."""
    if len(runs) == 1 and not view.one_run:
        raise CannotAnswer(f"The {view.name} view compares two runs; name a second one.")
    if len(runs) == 2 and not view.two_runs:
        runs = runs[:1]
    options = options or Options()
    whole, question = runs, options.without_window() if view.windows_itself else options
    runs, options = _restricted(view, runs, options)
    columns = view.columns_for(len(runs))
    names = [column.name for column in columns]
    of_activities = short_names_of(whole)
    try:
        with speaking_of(of_activities):
            answer = cached_answer(view, runs, options, names, partial(view.build, runs, options))
            rows, ids = _collected(answer, columns)
    except CannotAnswer as said:
        raise reason(view.name, runs, said) from None
    same = common_values(rows, columns, ids)
    columns = tuple(replace(_listed(column, rows, {name for name, _, _ in same}),
                            doubt=answer.doubts.get(column.name, 0.0)) for column in columns)
    needed = distinguishing_columns(rows, columns)
    columns = tuple(replace(column, order=0) if column.name in needed else column for column in columns)
    listed, per = columns, per_of(columns, answer)
    if per is not None:
        columns = tuple(replace(one, order=None) if one.per not in ("", per) else one for one in columns)
    table = Table(
        view=view.name, columns=columns, rows=rows, total_rows=rows.height if ids is None else len(ids),
        facts=answer.facts, summary=answer.cycle_summary or answer.summary, notes=answer.notes, sources=sources(runs),
        row_order=ids, kept=ids,
        picture=answer.picture, rows_below=answer.rows_below, page=answer.page,
        same=tuple((header, text) for _, header, text in same),
        cycle_facts=partial(cycle_facts, whole, question),
        per=per, unlisted=listed, summaries=(answer.cycle_summary, answer.summary),
        names=names_of(of_activities, rows, columns), ids=row_ids(view, len(runs)),
    )
    if rows.on_disk:
        table.window(0, 1)  # loads what the first paint needs, in this thread and not in the screen's
    return table


def per_of(columns: Sequence[Column], answer: Answer) -> Per | None:
    """The basis on which the answer's sums are compared; None if it compares none. A view with a single basis states it
    in its facts."""
    if not any(one.per for one in columns):
        return answer.facts.get("per")
    return "cycle" if answer.cycle_summary else "recording"


def _restricted(view: View, runs: tuple[Trace, ...], options: Options) -> tuple[tuple[Trace, ...], Options]:
    """The runs restricted to what the view should see, and the options it still has to apply itself."""
    if options == Options(
        thresholds=options.thresholds, cycle_anchor=options.cycle_anchor, changes=options.changes
    ):
        return runs, options
    from ..cycles.scope import scoped, scoped_any_cycle

    if view.windows_itself and (options.from_ns is not None or options.to_ns is not None):
        from ..cycles.limits import require_window

        for run, side in zip(runs, SIDES, strict=False):
            require_window(run, options.scope(side))
    runs = tuple(
        scoped_any_cycle(run, options, side, not view.windows_itself) for run, side in zip(runs, SIDES, strict=False))
    options = options.without_part(not view.windows_itself)
    # a comparison leaves warm-up cycles out itself, because it reports their number
    if not view.scopes_itself:
        chosen = options if view.one_run else replace(options, warm_up=True)
        chosen = chosen.without_window() if view.windows_itself else chosen
        runs = tuple(scoped(run, chosen, side) for run, side in zip(runs, SIDES, strict=False))
    return runs, options


def _listed(column: Column, rows: Rows, same: Collection[str]) -> Column:
    """The column for a list of these rows: unlisted if it says nothing, moments as fine as needed."""
    given = (name for name in (column.name, column.estimate) if name)
    names_rows = column.elastic and (column.pinned or column.role in ("name", "tree"))
    blank = column.order is not None and not names_rows and all(map(rows.blank, given))
    if column.name in same or blank:
        return replace(column, order=None)
    if column.role != "moment" or not rows.height:
        return column
    fine = resolution(rows, column.name)
    last = rows.window(rows.height - 1, rows.height, [column.name])[0][0]
    return replace(column, resolution=fine, width=max(column.width, len(units.moment(last or 0, fine))))


def unanswered(view: View, runs: tuple[Trace, ...], options: Options, reason: str) -> Table:
    """The table of a view that cannot answer: no rows, the reason, and the runs' cycle facts as in every view."""
    columns = view.columns_for(len(runs))
    rows = Rows(pl.DataFrame(schema={column.name: _DTYPES.get(column.unit, pl.Float64) for column in columns}))
    return Table(
        view.name, columns, rows, 0, notes=(reason,), sources=sources(runs),
        cycle_facts=partial(cycle_facts, runs, options),
    )


_DTYPES = {"text": pl.String, "measure": pl.String, "bool": pl.Boolean}
"""The type of a column without rows, by unit, so that filters apply; of any other unit it is a number."""


def _no_parts(rows: Rows) -> pl.Series | None:
    """The numbers of the rows that are not a part of another (``parts``); None if there are no parts."""
    under, alone = 0, []
    for at, parts in enumerate(rows.column("parts").fill_null(0)):
        if under:
            under -= 1
        else:
            under = parts
            alone.append(at)
    return pl.Series(alone, dtype=pl.UInt32) if len(alone) < rows.height else None


def _collected(answer: Answer, columns: Sequence[Column]) -> tuple[Rows, pl.Series | None]:
    """The rows of the answer; many recorded ones stay on disk, with the row numbers that belong to the answer."""
    names = [column.name for column in columns]
    named = [column.name for column in columns if column.role == "name"]
    plan = answer.frame
    if answer.recorded:
        height = int(plan.select(pl.len()).collect().item())
        if height >= ON_DISK:
            ids = None
            if answer.keep is not None:
                mask = plan.select(answer.keep.alias("keep")).collect(engine="streaming")["keep"].fill_null(False)
                ids = None if mask.all() else true_ids(mask)
            return Rows(plan.select(names), height, named), ids
    if answer.keep is not None:
        plan = plan.filter(answer.keep)
    rows = Rows(plan.select(names).collect(engine="streaming"), named=named)
    return rows, _no_parts(rows) if "parts" in names else None


_MEASURED = ("value", "time", "share", "count", "moment")
"""Roles of columns that say how much or when; they do not identify a row."""

_COMPARED = 100_000  # Most rows for which the columns that distinguish them are looked up.

_LOOKED_AT = 2_000  # Rows whose moments determine the displayed resolution.

_CLOSEST = 0.01  # Share of neighbouring moments that may read alike.


def common_values(rows: Rows, columns: Sequence[Column], ids: pl.Series | None) -> list[tuple[str, str, str]]:
    """Name, header and text of each listed column with the same value on all rows; empty for a single row."""
    if rows.height < 2:
        return []
    result = []
    for column in columns:
        in_title = column.order is not None and (column.role == "where" or column.heading)
        if in_title and (value := rows.only(column.name, ids)) is not None:
            shown = fit_name(str(value), 60) if column.role == "name" else display(str(value), 60)
            result.append((column.name, column.header, shown))
    return result


def distinguishing_columns(rows: Rows, columns: Sequence[Column]) -> set[str]:
    """The "where" columns without which some rows read alike: a job's ranks, a rank's devices, and processes, which are
    not listed otherwise. A list keeps them however narrow it is."""
    if rows.on_disk or not 2 <= rows.height <= _COMPARED:
        return set()
    listed = [column for column in columns if column.order is not None]
    names = [column.name for column in listed if column.role not in ("where", *_MEASURED)]
    where = sorted((column for column in columns if column.role == "where"),
                   key=lambda column: math.inf if column.order is None else column.order)
    needed: set[str] = set()
    different = rows.distinct(names)
    for column in where:
        if different == rows.height:
            break
        more = rows.distinct([*names, column.name])
        if more > different:
            needed.add(column.name)
            names.append(column.name)
            different = more
    return needed


def resolution(rows: Rows, name: str) -> int:
    """The largest power of ten in ns, up to 1 ms, at which neighbouring moments still read differently."""
    values = pl.Series([row[0] for row in rows.window(0, _LOOKED_AT, [name])], dtype=pl.Int64).drop_nulls().sort()
    gaps = values.diff().drop_nulls()
    gaps = gaps.filter(gaps > 0)
    if gaps.is_empty():
        return 1_000
    least = gaps.quantile(_CLOSEST, "lower") or 1
    return max(power for power in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000) if power <= least)
