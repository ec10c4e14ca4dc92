"""The rows of a Table: in memory, or on disk and read only when needed.

Five million launches take 300 MB as recorded. A list shows forty of them, so rows that are recorded columns stay on
disk: only a block around the last window is decoded and cached. A whole column is loaded only to sort, to filter or to
read it in another order, and then as narrow as its values allow. Invariants: values do not depend on where they were
read from; row numbers (``ids``) always refer to the rows as built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any, cast

import polars as pl

from ...loaders.schema import columns_of
from ..core.names.short_name import short_name
from .sorting import narrow, sorted_ids

STRETCH = 16_384  # Rows decoded at once around a window read from disk.

SPREAD = 131_072
"""Rows within this range are read from disk in one piece, some 8 ms; beyond it, whole columns are loaded."""

NAMES = 20_000  # Most distinct names in a column for which a search also looks at their short forms.

_RUNS = 4  # Most runs of matching codes that are found by comparisons; beyond that, each code is looked up.


class Rows:
    """Rows of an answer. ``height`` counts them, ``schema`` has the dtypes as built. ``source`` is a frame, or a lazy
    frame over recorded columns without any filter (so that a slice reads only that slice), which needs ``height``.
    ``named``: columns of recorded names, which are also searched by the short form that lists show."""

    def __init__(
        self, source: pl.DataFrame | pl.LazyFrame, height: int | None = None, named: Collection[str] = ()
    ) -> None:
        self.named = frozenset(named)
        self._plan = source if isinstance(source, pl.LazyFrame) else None
        self._frame = source if isinstance(source, pl.DataFrame) else None
        self._loaded: dict[str, pl.Series] = {}
        self._stretch: tuple[int, pl.DataFrame] | None = None
        self._order: tuple[str, bool, pl.Series] | None = None
        self._widest: dict[str, int] = {}
        self._blank: frozenset[str] | None = None
        self._largest: dict[tuple[str, int], float | None] = {}
        self._totals: dict[str, float] = {}
        self._match: tuple[str, pl.Series] | None = None
        self._placed_match: tuple[pl.Series, pl.Series, pl.Series] | None = None
        self.schema = dict(columns_of(source))
        self.height = source.height if isinstance(source, pl.DataFrame) else height or 0

    @property
    def on_disk(self) -> bool:
        """Whether the rows are read from disk when needed instead of being held in memory."""
        return self._plan is not None

    def at_hand(self, name: str) -> bool:
        """Whether the whole column is in memory, so that scanning it takes milliseconds."""
        return self._plan is None or name in self._loaded

    def column(self, name: str) -> pl.Series:
        """All values of a column; from disk, integers in the narrowest dtype and repeated text as sorted Enum."""
        if self._plan is None:
            assert self._frame is not None
            return self._frame[name]
        if name not in self._loaded:
            self._loaded[name] = narrow(self._plan.select(name).collect(engine="streaming")[name]).rechunk()
        return self._loaded[name]

    def window(self, start: int, stop: int, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows start..stop as built, one tuple each, with the columns ``names``."""
        start, stop = max(0, start), min(stop, self.height)
        if start >= stop:
            return []
        stretch = self._cut(start, stop)
        # column by column: a select would run the optimizer, which takes longer than all of this
        return list(zip(*(stretch.get_column(name).to_list() for name in names), strict=True))

    def pick(self, ids: pl.Series, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows with these numbers, in this order."""
        if self._plan is None or not len(ids):
            return self.gather(ids, names).rows()
        low, high = cast(int, ids.min()), cast(int, ids.max())
        if high - low < SPREAD and not all(self.at_hand(name) for name in names):
            return self._cut(low, high + 1).select(names)[ids.cast(pl.Int64) - low].rows()
        return pl.DataFrame([self.column(name).gather(ids) for name in names]).rows()

    def gather(self, ids: pl.Series | None, names: Sequence[str] | None = None) -> pl.DataFrame:
        """The rows with these numbers as a frame in the dtypes as built; None for all."""
        if self._plan is not None and ids is not None and len(ids):
            low, high = cast(int, ids.min()), cast(int, ids.max())
            if high - low < STRETCH:
                return self._cut(low, high + 1).select(names or pl.all())[ids.cast(pl.Int64) - low]
        whole = self._frame if self._plan is None else self._plan.select(names or pl.all()).collect(engine="streaming")
        assert whole is not None
        whole = whole.select(names) if names else whole
        return whole if ids is None else whole[ids]

    def order(self, column: str, descending: bool, ids: pl.Series | None = None) -> pl.Series:
        """Row numbers sorted by a column, nulls and NaN last, ties as built; of ``ids`` (ascending) or of all rows."""
        cached = self._order
        if ids is None or len(ids) > self.height // 8:
            if cached is None or cached[:2] != (column, descending):
                cached = column, descending, sorted_ids(self._narrowed(column), descending)
                self._order = cached
            if ids is None:
                return cached[2]
            here = self._none().scatter(ids, True)
            return cached[2].filter(here.gather(cached[2]))
        return ids.gather(sorted_ids(self._narrowed(column).gather(ids), descending))

    def matching(self, name: str, test: Callable[[pl.Series], pl.Series]) -> pl.Series:
        """Mask of the rows whose text passes ``test``, called once on the distinct texts; null for null text."""
        values = self._narrowed(name)
        if not isinstance(values.dtype, pl.Enum):
            return test(values)
        passed = test(values.dtype.categories)
        if not passed.any() and (nulls := values.null_count()) in (0, self.height):  # also for a column of nulls only
            return self._none() if not nulls else pl.Series([None], dtype=pl.Boolean).new_from_index(0, self.height)
        codes = values.to_physical()
        if runs := few_runs(passed):
            return reduce(or_, (_between(codes, first, last, len(passed)) for first, last in runs))
        return passed.gather(codes)

    def _narrowed(self, name: str) -> pl.Series:
        if self._plan is not None or self.schema[name] != pl.Categorical:
            return self.column(name)
        if name not in self._loaded:
            self._loaded[name] = narrow(self.column(name))
        return self._loaded[name]

    def _none(self) -> pl.Series:
        return pl.Series([False]).new_from_index(0, self.height)

    def containing(self, text: str) -> pl.Series:
        """Mask of the rows with a text column that contains the text, ignoring case; never null."""
        if self._match is None or self._match[0] != text:
            low = text.lower()
            passed = self._none()
            for name, dtype in self.schema.items():
                if dtype in (pl.Categorical, pl.String) or isinstance(dtype, pl.Enum):
                    hits = self.matching(name, partial(self.holds, name, low))
                    passed = passed | hits.fill_null(False) if hits.any() else passed
            self._match = text, passed
        return self._match[1]

    def holds(self, name: str, low: str, values: pl.Series) -> pl.Series:
        """Mask of the texts of that column that contain ``low``, ignoring case, as recorded or as lists show them."""
        passed = values.str.to_lowercase().str.contains(low, literal=True)
        return passed | self.shown(name, values).str.to_lowercase().str.contains(low, literal=True)

    def shown(self, name: str, values: pl.Series) -> pl.Series:
        """Texts of that column as lists show them; unchanged if it holds no names, or too many."""
        if name not in self.named or values.n_unique() > NAMES:
            return values
        forms = [None if text is None else short_name(text) for text in values.cast(pl.String)]
        return pl.Series(values.name, forms, dtype=pl.String)

    def texts(self, name: str) -> list[str]:
        """The distinct texts of an in-memory column, sorted; empty if it is still on disk."""
        if not self.at_hand(name) or self.schema[name] not in (pl.Categorical, pl.String):
            return []
        values = self.column(name)
        distinct = values.dtype.categories if isinstance(values.dtype, pl.Enum) else values.drop_nulls().unique()
        return sorted(distinct.cast(pl.String))

    def only(self, name: str, ids: pl.Series | None) -> Any:
        """The value that all rows with these numbers share (None: all rows); None if there is none. On disk all rows
        are checked regardless of ``ids``: a value that all share, these share too."""
        if self._plan is None:
            values = self.column(name) if ids is None else self.column(name).gather(ids)
            value = values[0] if len(values) else None
            return value if value is not None and (values == value).all(ignore_nulls=False) else None
        first = self._cut(0, min(STRETCH, self.height))[name]
        value = first[0]
        if value is None or not (first == value).all(ignore_nulls=False):
            return None
        test = pl.col(name).eq_missing(pl.lit(value)).all()
        return value if self._plan.select(test).collect(engine="streaming").item() else None

    def placed_match(self, text: str, order: pl.Series | None) -> pl.Series:
        """``containing``, in the order shown."""
        passed = self.containing(text)
        if order is None:
            return passed
        cached = self._placed_match
        if cached is None or cached[0] is not passed or cached[1] is not order:
            cached = passed, order, passed.gather(order)
            self._placed_match = cached
        return cached[2]

    def widest(self, name: str) -> int:
        """Length of the longest text in the column, in characters; 0 if it is not text. For a column on disk that is
        not loaded, of the first rows only."""
        if self.schema[name] not in (pl.Categorical, pl.String):
            return 0
        if name not in self._widest:
            complete = self.at_hand(name)
            texts = self.column(name) if complete else self._cut(0, min(STRETCH, self.height))[name]
            if isinstance(texts.dtype, pl.Enum):
                texts = texts.dtype.categories
            elif texts.dtype == pl.Categorical:
                texts = texts.unique().cast(pl.String)
            longest = cast(int | None, texts.str.len_chars().max()) or 0
            if not complete:
                return longest
            self._widest[name] = longest
        return self._widest[name]

    def widest_shown(self, name: str, find: Callable[[], int]) -> int:
        """Cells of the widest name as lists show it, from ``find`` the first time."""
        if (key := f"{name} shown") not in self._widest:
            self._widest[key] = find()
        return self._widest[key]

    def largest(self, name: str, rows: int, ids: pl.Series | None) -> float | None:
        """The ``rows``-th largest absolute value of a column among ``ids``, the rows of the answer (None: all); None if
        there are fewer values."""
        if (name, rows) not in self._largest:
            values = self.column(name)
            top = (values if ids is None else values.gather(ids)).drop_nulls().abs().top_k(rows)
            least = top.min() if len(top) == rows else None
            self._largest[name, rows] = float(least) if isinstance(least, (int, float)) else None
        return self._largest[name, rows]

    def total(self, name: str, ids: pl.Series | None, passed: pl.Series | None = None) -> float:
        """Sum of a column over the rows with these numbers (None: all), without nulls. ``passed``, the same selection
        as a mask if available, takes half the time for millions of rows."""
        if ids is None and name in self._totals:
            return self._totals[name]
        values = self.column(name)
        if passed is not None:
            values = values.filter(passed)
        elif ids is not None:
            values = values.gather(ids)
        total = float(values.drop_nulls().to_numpy().sum(dtype="float64"))
        if ids is None:
            self._totals[name] = total
        return total

    def distinct(self, names: Sequence[str]) -> int:
        """Number of distinct rows in these columns; 1 if no column is given."""
        return self.gather(None, names).n_unique() if names else 1

    def blank(self, name: str) -> bool:
        """Whether the whole column is null: nothing was measured."""
        if self._blank is None:
            self._blank = self._blanks()
        return name in self._blank

    def _blanks(self) -> frozenset[str]:
        """All-null columns: candidates from the first rows are counted together, as fast as one column alone."""
        some = self._cut(0, min(STRETCH, self.height))
        maybe = [name for name in some.columns if some[name].null_count() == some.height]
        if not self.height or not maybe:
            return frozenset()
        # if all candidates are null literals, the widest column is read for the row count, unless another is selected
        counted = [name for name in some.columns if name not in maybe and some[name].dtype == pl.Categorical][:1]
        plan = self._plan if self._plan is not None else cast(pl.DataFrame, self._frame).lazy()
        nulls = plan.select(pl.col(*maybe, *counted).null_count()).collect(engine="streaming").row(0, named=True)
        return frozenset(name for name in maybe if nulls[name] == self.height)

    def _cut(self, start: int, stop: int) -> pl.DataFrame:
        if self._plan is None:
            assert self._frame is not None
            return self._frame[start:stop]
        cached = self._stretch
        if cached is None or start < cached[0] or stop > cached[0] + cached[1].height:
            first = max(0, min(start - STRETCH // 2, self.height - STRETCH))
            length = max(STRETCH, stop - first)
            cached = first, self._plan.slice(first, length).collect()
            self._stretch = cached
        return cached[1][start - cached[0] : stop - cached[0]]


def few_runs(passed: pl.Series) -> list[tuple[int, int]]:
    """The (first, last) of each run of true values; [] if there are none, or more than comparisons are worth.
    Categories are sorted, so texts with a common prefix are neighbours."""
    lengths = passed.fill_null(False).rle().struct.unnest().with_columns(end=pl.col("len").cum_sum())
    held = lengths.filter("value").select(pl.col("end") - pl.col("len"), last=pl.col("end") - 1)
    return held.rows() if held.height <= _RUNS else []


def _between(codes: pl.Series, first: int, last: int, count: int) -> pl.Series:
    """Mask of the codes within first..last, of ``count`` codes; null for null."""
    above = codes >= first
    return above if last == count - 1 else above & (codes <= last)
