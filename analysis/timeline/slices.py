"""Slices of a table as arrays, split by lane, from which the timeline's lanes are made.

Recordings are nearly in order and most lanes are already sorted, so that is checked before sorting. Names stay codes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ..communication.rank_clocks import ahead
from ..core.quantiles import Codes, codes, combined, dense
from .classes import BY_NAME, NOT_DRAWN, ClassOf
from .coverage import Coverage, Ints, coverage_of

UNNAMED = 2**32 - 1  # The code of a slice whose name was not recorded.
Key = tuple[object, ...]


class Slices(Struct, frozen=True):
    """Slices of one lane sorted by start: ``starts``, ``ends`` (ns), name and class codes, ``rows`` in their table."""

    starts: Ints
    ends: Ints
    names: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.starts)

    def pick(self, which: npt.NDArray[np.bool_] | Ints | slice) -> Slices:
        """The selected slices, in that order."""
        return Slices(self.starts[which], self.ends[which], self.names[which], self.classes[which], self.rows[which])

    def in_order(self) -> Slices:
        """The slices sorted by start; of slices with the same start the outer one first."""
        starts, ends, order = self.starts, self.ends, None
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        together = starts[1:] == starts[:-1]
        if not (together & (ends[1:] > ends[:-1])).any():
            return self if order is None else self.pick(order)
        some = np.zeros(len(starts), dtype=bool)
        some[1:] |= together
        some[:-1] |= together
        those = np.flatnonzero(some)  # the few with equal starts; the others keep their place
        order = np.arange(len(starts)) if order is None else order
        order[those] = order[those[np.lexsort((-ends[those], starts[those]))]]
        return self.pick(order)


class DrawnSlices(Struct, frozen=True):
    """The timed slices of a table that are drawn, in table order: ``starts``, ``ends`` (ns) and ``classes``. ``rows``:
    their rows in the table; None if all rows are drawn."""

    starts: Ints
    ends: Ints
    classes: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.uint32] | None

    def together(self) -> Coverage:
        """Union of the slices."""
        starts, ends = self.starts, self.ends
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        return coverage_of(starts, ends)


def drawn_slices(table: pl.LazyFrame, class_of: ClassOf, clocks: Mapping[int, int] | None = None) -> DrawnSlices:
    """The drawn slices of a table; ``class_of`` maps a recorded kind to a class code, ``clocks`` as in ``Timeline``."""
    classes = _classes(_column(table, "kind"), class_of)
    start = _column(table, "start_ns")
    wanted = start.is_not_null().to_numpy() & (classes != NOT_DRAWN)
    rows = None if wanted.all() else np.flatnonzero(wanted).astype(np.uint32)
    some = slice(None) if rows is None else rows
    starts = start.fill_null(0).to_numpy()[some]
    if clocks and any(clocks.values()):
        starts = starts - table.select(ahead(clocks)).collect(engine="streaming").to_series().to_numpy()[some]
    ends = _column(table, "dur_ns").fill_null(0).to_numpy()[some] + starts
    return DrawnSlices(starts, ends, classes[some], rows)


def _column(table: pl.LazyFrame, name: str) -> pl.Series:
    return table.select(name).collect(engine="streaming").to_series()


def by_lane(
    table: pl.LazyFrame, keys: tuple[str, ...], drawn: DrawnSlices, names: dict[int, str], class_of: ClassOf
) -> list[tuple[Key, Slices]]:
    """The slices of each lane with the lane's key values, sorted by key, nulls last. Adds the text of each name code to
    ``names``; ``class_of`` maps a name to a class code for slices of class ``BY_NAME``."""
    if not len(drawn.starts):
        return []
    some = slice(None) if drawn.rows is None else drawn.rows
    lane, tuples = _lanes([_column(table, key) for key in keys], some)
    named = _column(table, "name")
    texts = named.unique().drop_nulls()
    numbers = texts.to_physical().to_list()
    names.update(zip(numbers, texts.cast(pl.String), strict=True))
    names[UNNAMED] = ""
    code = named.to_physical().cast(pl.UInt32).fill_null(UNNAMED).to_numpy()[some]
    classes, by_name = drawn.classes, drawn.classes == BY_NAME
    if by_name.any():
        class_by_name = np.full(max(numbers, default=0) + 2, class_of(""), dtype=np.uint8)
        class_by_name[numbers] = [class_of(names[one]) for one in numbers]
        classes = np.where(by_name, class_by_name[np.minimum(code, len(class_by_name) - 1)], classes)
    rows = np.arange(len(lane), dtype=np.uint32) if drawn.rows is None else drawn.rows
    whole = Slices(drawn.starts, drawn.ends, code, classes, rows)
    if len(tuples) == 1:
        return [(tuples[0], whole.in_order())]
    small = lane.astype(np.uint16) if len(tuples) < 1 << 16 else lane  # numpy radix-sorts 16-bit integers
    edges = np.cumsum(np.bincount(lane, minlength=len(tuples)))[:-1]
    del lane
    parts = np.split(np.argsort(small, kind="stable"), edges)
    lanes = [(key, whole.pick(part).in_order()) for key, part in zip(tuples, parts, strict=True)]
    lanes.sort(key=lambda one: [(value is None, value) for value in one[0]])
    return lanes


def _classes(kinds: pl.Series, class_of: ClassOf) -> npt.NDArray[np.uint8]:
    """Class of each slice by its kind; a null kind counts as ''."""
    distinct = kinds.unique().drop_nulls()
    numbers = distinct.to_physical().to_numpy()
    table = np.zeros(int(numbers.max(initial=0)) + 2, dtype=np.uint8)
    for number, text in [*zip(numbers.tolist(), distinct.cast(pl.String), strict=True), (len(table) - 1, "")]:
        table[number] = class_of(text)
    classes: npt.NDArray[np.uint8] = table[kinds.to_physical().fill_null(len(table) - 1).to_numpy()]
    return classes


def _lanes(columns: list[pl.Series], some: npt.NDArray[np.uint32] | slice) -> tuple[Codes, list[Key]]:
    """Lane number of each slice, and the key values of each lane (categoricals as text)."""
    lane, first = dense(combined([_codes(one)[some] for one in columns]))
    at = first if isinstance(some, slice) else some[first]
    values = [one.gather(at).cast(pl.String).to_list() if one.dtype == pl.Categorical else one.gather(at).to_list()
              for one in columns]
    return lane, list(zip(*values, strict=True))


def _codes(column: pl.Series) -> Codes:
    """A distinct number for each value, null included."""
    if not column.dtype.is_integer():
        return codes(column)
    low = column.min()
    numbers, _ = dense(column.fill_null(low if isinstance(low, int) else 0).to_numpy())
    return np.where(column.is_null().to_numpy(), 0, numbers + 1) if column.null_count() else numbers
