"""A view's collected answer: columns, rows by window, totals, facts, notes and sources.

All consumers (the list on screen, exporters, the report) read rows through ``window``, so that a table of millions of
launches never becomes Python objects as a whole. Sorting and filtering return a new Table that shares the columns of
the old one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Column, Dtype, Per
from ..contract.sections import PageSection
from ..core import units
from ..core.names.display_names import ShortNames, shown_name
from ..core.names.short_name import fit_name
from .filters import Filter
from .row_ids import ID, RowIds
from .rows import Rows
from .sorting import true_ids

STANDING_OUT = 3  # Number of largest rows that are emphasised.


class Source(Struct, frozen=True):
    """A run that the rows come from: label, path, format, and warnings from reading it."""

    label: str
    path: str
    format: str
    bytes: int | None = None
    warnings: tuple[str, ...] = ()


class Table(Struct, frozen=True):
    """Rows of a view. ``total_rows`` counts the view's rows before filter and ``--top``; ``len`` the rows here.
    ``scope`` says what it is limited to ('cycle 5 of A'), empty if nothing; ``same`` has header and text of each column
    whose value is equal in all rows, so that lists omit it. ``cycle_facts`` computes what ``all_facts`` adds: finding
    cycles takes longer than most answers, and a screen does not need it."""

    view: str
    columns: tuple[Column, ...]
    rows: Rows
    total_rows: int
    facts: dict[str, Any] = field(default_factory=dict)
    summary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    sorted_by: str | None = None
    descending: bool = False
    filter: Filter | None = None
    scope: str = ""
    picture: tuple[tuple[str, ...], ...] = ()
    rows_below: bool = False
    page: tuple[PageSection, ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    cycle_facts: Callable[[], dict[str, Any]] | None = None
    per: Per | None = None  # basis on which sums of two runs are compared; None if they are not
    unlisted: tuple[Column, ...] = ()  # the columns as listed if sums are compared on either basis
    summaries: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # per cycle (empty: not possible), per recording
    row_order: pl.Series | None = None  # row numbers of ``rows`` in the order shown; None: as built
    kept: pl.Series | None = None  # row numbers that belong to the answer; None: all
    passed: pl.Series | None = None  # whether each of ``rows`` is shown, if known in addition to ``order``
    names: tuple[ShortNames, ...] = ()  # of the runs' activities, then of other names in the answer
    command: str = ""  # the command line that prints it, if the screen knows it
    ids: RowIds | None = None  # form of row ids in exports
    built: pl.Series | None = None  # row numbers of ``rows`` in the full answer, if they are a subset of it
    answer: object | None = None  # the original rows, if ``rows`` was rebuilt from them; else None

    @property
    def all_facts(self) -> dict[str, Any]:
        """The view's facts plus the runs' cycle facts (computed now if not yet known), under ``cycles`` for one run,
        under ``a`` and ``b`` for two. Raises CannotAnswer for a bad cycle anchor."""
        facts = dict(self.facts)
        for name, value in (self.cycle_facts() if self.cycle_facts is not None else {}).items():
            own = facts.get(name) or {}
            facts[name] = {**own, **value} if isinstance(value, dict) else value
            if isinstance(value, dict) and own.get("base"):  # of compared steps, not of all
                facts[name]["base"] = own["base"]
        return facts

    def __len__(self) -> int:
        return self.rows.height if self.row_order is None else len(self.row_order)

    def window(self, start: int, stop: int, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """Raw values of rows start..stop in the order shown, one tuple per row, in the order of ``columns`` or of the
        given ``names``; other columns of a big table are then not read."""
        wanted = names or [column.name for column in self.columns]
        if self.row_order is None:
            return self.rows.window(start, stop, wanted)
        return self.rows.pick(self.row_order[start:stop], wanted)

    def display_text(self, row: Sequence[Any], at: int) -> str:
        """Display text of column number ``at`` in a full row: its value, or the estimate in place of a missing one."""
        column, value = self.columns[at], row[at]
        if estimated := bool(column.estimate) and (value is None or value != value):
            value = next(row[number] for number, other in enumerate(self.columns) if other.name == column.estimate)
        return column.mark(value, estimated) + units.short(value, column)

    def row_id(self, position: int) -> int:
        """An identity for the row at that position that survives sorting and filtering."""
        return position if self.row_order is None else int(self.row_order[position])

    def position(self, row_id: int) -> int | None:
        """The current position of the row with that identity; None if it is filtered out."""
        if self.row_order is None:
            return row_id if row_id < self.rows.height else None
        place = self.row_order.eq(row_id).arg_max()
        return place if place is not None and len(self.row_order) and self.row_order[place] == row_id else None

    def sort(self, column: str, descending: bool) -> Table:
        """The same rows sorted by that column, nulls last, ties as built."""
        ids = None if self.row_order is None or len(self.row_order) == self.rows.height else self.row_order.sort()
        by = next((c.sorts for c in self.columns if c.name == column and c.sorts), column)
        return replace(self, row_order=self.rows.order(by, descending, ids), sorted_by=column, descending=descending)

    def filtered(self, condition: Filter | None) -> Table:
        """The rows that match, in the same order; None shows all again. Raises BadFilter."""
        base = replace(self, row_order=self.kept, filter=condition, passed=None)
        if condition is not None:
            mask, belongs = condition.mask(self.rows, self.columns), self.kept
            ids = true_ids(mask) if belongs is None else belongs.filter(mask.gather(belongs))
            base = replace(base, row_order=ids, passed=mask if belongs is None else None)
        return base.sort(self.sorted_by, self.descending) if self.sorted_by else base

    def compared(self, per: Per) -> Table:
        """The same rows with the sums of two runs compared per cycle or per recording, largest change first, those
        without a change by size. Returns the table itself if it compares no sums or cannot do so per cycle."""
        if per == self.per or not self.has_both_bases:
            return self
        columns = tuple(replace(one, order=None) if one.per not in ("", per) else one for one in self.unlisted)
        same = replace(
            self, columns=columns, per=per, summary=self.summaries[per == "recording"], facts=self.facts | {"per": per},
            row_order=None, kept=None, passed=None, filter=None, sorted_by=None,
        )
        main = next(one.name for one in columns if one.per == per and one.side == "delta" and one.role == "time")
        if any(one.role == "tree" for one in columns):
            return same
        sides = {side: self.rows.column(main.removesuffix("delta") + side) for side in ("delta", "a", "b")}
        order = pl.DataFrame(sides).select(pl.arg_sort_by(
            pl.col("delta").abs(), pl.max_horizontal("a", "b"), descending=True, nulls_last=True, maintain_order=True,
        )).to_series()
        return replace(same, row_order=order, kept=order)

    @property
    def has_both_bases(self) -> bool:
        """Whether its sums can be compared both per cycle and per recording."""
        return bool(self.per and self.summaries[0] and any(one.per for one in self.unlisted))

    def column_in_basis(self, column: str) -> str:
        """The column listed instead when sums are compared on the other basis; else the column itself."""
        hidden = next((one for one in self.columns if one.name == column), None)
        if hidden is None or hidden.per in ("", self.per):
            return column
        same = hidden.header, hidden.side
        return next(one.name for one in self.columns if one.per == self.per and (one.header, one.side) == same)

    def without_empty_rows(self) -> Table:
        """The answer without rows that say nothing: all listed values are 0 or, with two runs, the sums of both."""
        listed = [one for one in self.columns if one.order is not None]
        summed = [one.name for one in listed if self.per and one.per and one.sums and one.side in ("a", "b")]
        sums = summed or [one.name for one in listed if one.sized and one.role not in ("where", "order")]
        if not sums or self.rows.on_disk:
            return self
        some = pl.Series([False]).new_from_index(0, self.rows.height)
        for name in sums:
            some = some | (self.rows.column(name).fill_null(0 if summed else 1) != 0)
        if some.all():
            return self
        if self.row_order is None and any(one.role == "tree" for one in self.columns):
            return self._tree_where(some)
        every = pl.int_range(self.rows.height, dtype=pl.UInt32, eager=True)
        order, kept = (rows.filter(some.gather(rows))
                       for rows in (one if one is not None else every for one in (self.row_order, self.kept)))
        return replace(self, row_order=order, kept=kept, passed=None, total_rows=len(kept))

    def _tree_where(self, some: pl.Series) -> Table:
        """The tree, as built, without those rows that neither ``some`` selects nor any row below them."""
        frame = self.rows.gather(None)
        ends = frame["under"] + pl.int_range(1, frame.height + 1, eager=True)

        def with_below(flags: pl.Series) -> pl.Series:
            sums = pl.Series([0]).append(flags.cum_sum().cast(pl.Int64))
            return sums.gather(ends) - sums.head(-1)

        stays = with_below(some) > 0
        rows = frame.with_columns(under=with_below(stays) - 1).filter(stays)
        return replace(self, rows=Rows(rows, named=self.rows.named), total_rows=rows.height)

    def head(self, rows: int) -> Table:
        """The first rows in the order shown; ``total_rows`` still counts all."""
        every = pl.Series(range(min(rows, len(self))), dtype=pl.UInt32)
        some = every if self.row_order is None else self.row_order[:rows]
        first = Rows(self.rows.gather(some), named=self.rows.named)
        return replace(self, rows=first, row_order=None, kept=None, passed=None, built=self._numbers(some))

    def _numbers(self, some: pl.Series | None) -> pl.Series | None:
        """Row numbers in the full answer for some of ``rows``, or for all."""
        return some if self.built is None or some is None else self.built.gather(some)

    def row_ids(self, start: int, stop: int) -> list[str]:
        """The ids of rows start..stop in the order shown; empty if the view has no ids."""
        if self.ids is None:
            return []
        stop = min(stop, len(self))
        order = self.row_order
        numbers = pl.Series(range(start, stop), dtype=pl.UInt32) if order is None else order[start:stop]
        if self.built is not None:
            numbers = self.built.gather(numbers)
        rows = self.window(start, stop, self.ids.columns) if self.ids.columns else []
        return self.ids.of(rows, numbers.to_list())

    def with_ids(self) -> Table:
        """The rows in the order shown, with their ids as the first column."""
        if self.ids is None or any(column.name == "id" for column in self.columns):
            return self
        return self._with(ID, self.row_ids(0, len(self)), first=True)

    def _with(self, column: Column, texts: Sequence[str | None], first: bool = False) -> Table:
        """The rows in the order shown, with one more column."""
        rows = Rows(self.shown().with_columns(pl.Series(column.name, texts, dtype=pl.String)), named=self.rows.named)
        columns = (column, *self.columns) if first else (*self.columns, column)
        return replace(
            self, columns=columns, rows=rows, row_order=None, kept=None, passed=None,
            built=self._numbers(self.row_order),
        )

    def shown(self) -> pl.DataFrame:
        """All rows in the order shown, as a frame in the dtypes as built."""
        return self.rows.gather(self.row_order)

    @property
    def frame(self) -> pl.DataFrame:
        """All rows of the answer as built, ignoring order and filter: for whatever needs every value."""
        return self.rows.gather(self.kept)

    def as_flame(self, by: str) -> Table:
        """A tree that is exported as a flame graph by that weight (``flame.Weight``)."""
        return replace(self, facts=self.facts | {"flame_by": by})

    def same_rows(self, other: Table) -> bool:
        """Whether both show rows of the same answer, so that row identities are interchangeable."""
        return (self.answer or self.rows) is (other.answer or other.rows)

    def total(self, column: str) -> float:
        """Sum of a column over the rows shown, without nulls."""
        return self.rows.total(column, self.row_order, self.passed)

    def widest(self, column: str) -> int:
        """Cells of the longest text read so far in the column, of a recorded name as lists show it; 0 if it is not
        text."""
        is_name = any(one.name == column and one.role == "name" for one in self.columns)
        if is_name and (names := self.rows.texts(column)):
            return self.rows.widest_shown(column, lambda: max(len(self.shown_name(name, None)) for name in names))
        is_frame = any(one.name == column and one.role == "frame" for one in self.columns)
        if is_frame and (texts := self.rows.texts(column)):
            return self.rows.widest_shown(column, lambda: max(len(text.rpartition("/")[2]) for text in texts))
        return self.rows.widest(column)

    def prepare(self) -> None:
        """Loads what filter, search, emphasis and time share need; run it in a thread after the first paint."""
        time = self.time
        wanted = [self.main, time, *(column.name for column in self.columns if column.unit == "text")]
        for name in filter(None, wanted if self.rows.on_disk else ()):
            self.rows.column(name)
        if self.rows.on_disk and time is not None:
            self.rows.total(time, None)
        self.threshold(STANDING_OUT)
        for names in self.names:
            len(names.names)

    def threshold(self, rows: int) -> tuple[str, float] | None:
        """The main column, and the smallest of its ``rows`` largest absolute values. None if there is no main column,
        too few rows, or it is on disk and not loaded."""
        name = self.main
        if name is None or self.rows.height <= 2 * rows or not self.rows.at_hand(name):
            return None
        least = self.rows.largest(name, rows, self.kept)
        return (name, least) if least else None

    def most(self, column: str) -> float | None:
        """The largest absolute value of a column, which fills its bar; None if the column is on disk and not loaded."""
        return self.rows.largest(column, 1, self.kept) if self.rows.at_hand(column) else None

    @property
    def main(self) -> str | None:
        """The most important column: the one sorted by, if it is a size; else the view's time column (with two runs,
        the change of its sums); else the first duration listed."""
        names = [column.name for column in self.columns if column.sized and column.order is not None]
        if self.sorted_by in names:
            return self.sorted_by
        lasting = [column for column in self.columns if column.lasting and column.order is not None]
        ranked = [one for one in lasting if one.role == "time" and (one.side == "delta" or not self.per)]
        return next((column.name for column in (*ranked, *lasting)), None)

    @property
    def time(self) -> str | None:
        """The column in which the view measures time; None if there is none."""
        return next((column.name for column in self.columns if column.role == "time"), None)

    @property
    def same_line(self) -> str:
        """The values that all rows share, as text: ``GPU 0 · kind kernel``."""
        texts = (text if text.startswith(("GPU", "Host")) else f"{header} {text}" for header, text in self.same)
        return " · ".join(texts)

    def shown_name(self, raw: str | None, width: int | None) -> str:
        """A recorded name as a list of that many cells shows it, whichever rows it lists."""
        return shown_name(raw, width, *self.names)

    def with_shown(self, width: int) -> Table:
        """The rows in the order shown, with one more column: their names as a list of that many cells shows them."""
        named = next((column.name for column in self.columns if column.role == "name"), None)
        if named is None:
            return self
        texts = self.shown()[named].cast(pl.String)
        names = {text: self.shown_name(text, width) for text in texts.unique().drop_nulls()}
        column = Column("shown", "shown", "text", f"the name as a list {width} cells wide shows it", width, order=None)
        return self._with(column, [names.get(text) for text in texts])

    def matches(self, text: str) -> int:
        """Number of rows that contain the text."""
        return int(self.rows.placed_match(text, self.row_order).sum())

    def find(self, text: str, start: int, backwards: bool = False) -> int | None:
        """The next position at or after ``start`` (backwards: at or before) whose text contains ``text``, else None."""
        passed = self.rows.placed_match(text, self.row_order)
        side = passed[: start + 1].reverse() if backwards else passed[max(0, start) :]
        at = side.arg_max() if len(side) else None
        if at is None or not side[at]:
            return None
        return start - at if backwards else max(0, start) + at


def sources(runs: tuple[Trace, ...]) -> tuple[Source, ...]:
    """The sources of the rows, one per run."""
    return tuple(
        Source(run.info.label, run.info.source, run.info.format, run.info.bytes, run.info.warnings) for run in runs
    )


def names_of(of_activities: ShortNames, rows: Rows, columns: Sequence[Column]) -> tuple[ShortNames, ShortNames]:
    """The short names of the runs' activities, and of the other names in an answer: ranges, Python lines."""
    def others() -> list[str]:
        texts = {text for column in columns if column.role == "name" for text in rows.texts(column.name)}
        return sorted(text for text in texts if of_activities.fit(text, None) is None)

    return of_activities, ShortNames(others)


_DTYPES: dict[Dtype, type[pl.DataType]] = {"str": pl.String, "int": pl.Int64}
_SURROGATE = re.compile("[\ud800-\udfff]")


def listing(name: str, columns: tuple[Column, ...], rows: Sequence[tuple[Any, ...]]) -> Table:
    """A Table of these rows, with text and integer columns only. File names may hold bytes that are not text, which
    Python keeps as lone surrogates; a column cannot store them, so they are replaced."""
    schema = {column.name: _DTYPES[column.dtype] for column in columns}
    frame = pl.DataFrame([tuple(map(_storable, row)) for row in rows], schema=schema, orient="row")
    return Table(view=name, columns=columns, rows=Rows(frame), total_rows=frame.height)


def _storable(value: Any) -> Any:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value


_NAME, _MOST = 64, 4


def row_words(columns: Sequence[Column], values: Sequence[Any]) -> str:
    """The row's name, then the columns a narrow list would show: 'gemm bf16 64x64 · total 8.52 ms'."""
    shown = [(column, value) for column, value in zip(columns, values, strict=True)
             if column.order is not None and not isinstance(value, list)]
    named = ("name", "label", "frame")
    name = next((at for at, (column, value) in enumerate(shown) if column.role in named and value), None)
    words = []
    if name is not None:
        column, value = shown.pop(name)
        words.append(fit_name(str(value), _NAME) if column.role == "name" else str(value)[:_NAME])
    for column, value in sorted(shown, key=lambda one: one[0].order or 0):
        text = units.short(value, column)
        if text not in units.NOTHING and len(words) < _MOST:
            words.append(f"{column.header or column.name} {text}")
    return " · ".join(words)


def coverage(whole: Table, part: Table) -> float | None:
    """The share (0-1) of the time of ``whole`` in the rows that ``part`` shows; None if its times cannot be summed."""
    name = whole.time
    if name is None or any(one.name == name and (one.pairs == "alone" or one.nests) for one in whole.columns):
        return None
    if part.rows.on_disk and part.row_order is whole.row_order:  # all rows: not worth reading the column
        return None if whole.rows.blank(name) else 1.0
    everything = whole.total(name)
    return part.total(name) / everything if everything else None
