"""One column of a view: everything about it in one place.

A column's name, header, unit and meaning drive the list on the screen, the exports, the help and the README's tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Unit = Literal[
    "text", "count", "number", "ns", "us", "ms", "fraction", "percent", "bytes", "trend", "bool", "ratio", "list",
    "kinds", "rate", "measure", "series",
]
"""How a raw value is read. ``ns/us/ms`` are durations, ``fraction`` is 0-1 shown as %, ``percent`` is already in %,
``trend`` a list of numbers drawn as a sparkline from 0, ``series`` one drawn between its least and its largest,
``ratio`` a factor such as 3.4x, ``number`` has its own unit column or none, ``kinds`` is a count that only shows above
one, ``rate`` is in B/s, ``measure`` is text: a value with its unit, where rows have units of their own."""

Dtype = Literal["str", "int", "float", "bool", "list"]

Role = Literal["value", "name", "label", "time", "moment", "share", "count", "order", "place", "where", "key", "tree",
               "shapes"]
"""What a column is for, so that nothing has to know it by its name.

``name`` is a recorded name, shown in its short form; ``label`` other recorded text. ``time`` is what a view measures
time in, the first of them that of the state line; ``share`` and ``count`` go with it. ``moment`` says when, not how
long; ``order`` counts the rows as recorded, ``place`` ranks them. ``tree`` is text that stands under that of another
row, ``shapes`` are those of operands. ``where`` says of what the row is (device, kind, rank, metric): where it is the
same on every row it is said once above them."""

Pairs = Literal["", "key", "sum", "shared", "side", "alone"]
"""How a column stands in a table of two runs. ``key`` joins the rows and stands there once; ``sum`` becomes ``_a``,
``_b`` and ``_delta``, and a row that one run lacks is 0 there; of a ``shared`` sum the ranks of a job have one between
them (a collective on eight ranks is one); ``side`` has no difference; ``alone`` is left out, and adds up over no rows.
Empty goes by the unit: text, flags and lists are ``side``, numbers a difference, null where not measured."""

Per = Literal["cycle", "recording"]  # What the sums of two runs are compared per.

Bar = Literal["", "share", "lost", "tensor", "dram"]  # What a bar is drawn of, which is its colour; '' for no bar.

ABOVE_PEAK = 1.1
"""A share of a peak above which something is wrong: clocks above the data sheet's explain less."""

_DTYPES: dict[Unit, Dtype] = {
    "text": "str", "count": "int", "ns": "int", "bytes": "int", "kinds": "int", "bool": "bool", "trend": "list",
    "list": "list", "measure": "str", "series": "list",
}
_SIDED = frozenset(("text", "trend", "bool", "list", "measure", "series"))
_SIZED = frozenset(("count", "number", "ns", "us", "ms", "fraction", "percent", "bytes", "rate"))
_ASCENDING = frozenset(("name", "order", "place", "moment"))


class Column(Struct, frozen=True):
    """A column of a view.

    ``name`` is fixed (scripts rely on it) and tells the unit; ``header`` is what the eye reads. ``width`` is in cells;
    an ``elastic`` column takes what is left. When the terminal is narrow, columns with the highest ``order`` go first;
    order 0 never goes, and columns with order None are only in exports and details; ``pair_order`` is that of A and B,
    and of the difference, in a table of two runs, the same as ``order`` where empty. ``bar`` draws fractions as an
    eighth-block bar. ``resolution`` is how many ns a moment is shown to, ``doubt`` the share of itself by
    which a duration may be off, which takes its last figures away; ``side`` is the run of two it is of.
    ``signed`` shows + and −. ``pinned`` columns stay when scrolling sideways. ``sorts`` names the
    column whose values order the rows where the column itself is only a way to show them. ``under`` names the column
    that the bar is a part of, drawn ░. ``brief`` has shorter words for values that are wider than the column. ``per``
    is that of a sum of two runs: it is listed where the runs are compared per that. ``estimate`` names the column
    whose value is shown, marked with ``~``, where this has none. A ``heading`` is not repeated in a list where the row
    above has the same, and is said once above a list that has it on all rows.
    """

    name: str
    header: str
    unit: Unit
    help: str
    width: int = 10
    order: int | None = 1
    elastic: bool = False
    role: Role = "value"
    pairs: Pairs = ""
    pair_order: tuple[int, ...] = ()
    bar: Bar = ""
    signed: bool = False
    pinned: bool = False
    sorts: str = ""
    under: str = ""
    brief: tuple[tuple[str, str], ...] = ()
    side: Literal["", "a", "b", "delta"] = ""
    per: Literal["", "cycle", "recording"] = ""
    resolution: int = 1_000
    doubt: float = 0.0
    estimate: str = ""
    heading: bool = False

    def mark(self, value: float | None, estimated: bool) -> str:
        """What stands before a share of a peak: ``!`` where it cannot be, ``~`` where it was not counted."""
        above = value is not None and self.bar in ("tensor", "dram") and self.side != "delta" and value > ABOVE_PEAK
        return "!" if above else "~" if estimated and value is not None else ""

    @property
    def dtype(self) -> Dtype:
        """What the values are; whole numbers of a ``number`` column are floats too."""
        return _DTYPES.get(self.unit, "float")

    @property
    def sized(self) -> bool:
        """Whether more of it is more."""
        return self.unit in _SIZED

    @property
    def lasting(self) -> bool:
        """Whether it says how long something took."""
        return self.unit in ("ns", "us", "ms") and self.role != "moment"

    @property
    def ascends(self) -> bool:
        """Whether its natural order is smallest first."""
        return self.role in _ASCENDING

    @property
    def left(self) -> bool:
        """Whether it reads from the left: words and pictures."""
        return self.unit in ("text", "trend", "list", "series")

    @property
    def sums(self) -> bool:
        """Whether it adds up over a run, so that a longer recording has more of it."""
        return self.pairs in ("sum", "shared")

    @property
    def differs(self) -> bool:
        """Whether two runs have a difference in it."""
        return self.pairs not in ("key", "side", "alone") and self.unit not in _SIDED


def keys_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """The names of the columns that join the rows of two runs."""
    return tuple(column.name for column in columns if column.pairs == "key")


def ranked_sums(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The sums by which a change is large: times, then counts, then the rest."""
    rank = {"time": 0, "count": 1}
    return tuple(sorted((one for one in columns if one.sums), key=lambda one: rank.get(one.role, 2)))


def with_cycle_sums(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with each sum followed by the same per cycle. That of the main time is ``per_cycle_ns``, that of the
    count ``count_per_cycle``; others keep their own name's beginning (``self_per_cycle_ns``)."""
    main = next((one for one in ranked_sums(columns) if one.role == "time"), None)
    made: list[Column] = []
    for column in columns:
        if not column.sums:
            made.append(column)
            continue
        what = "in whole cycles" if column.unit == "fraction" else "per cycle"
        made += [replace(column, per="recording"), replace(
            column, per="cycle", name=_cycle_name(column, main), help=f"{column.help}, {what}",
            unit="number" if column.unit == "count" else column.unit,
        )]
    return tuple(made)


def pair_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a view for two runs whose sums are compared per cycle."""
    return side_by_side(with_cycle_sums(columns))


def _cycle_name(column: Column, main: Column | None) -> str:
    if column is main:
        return "per_cycle_ns"
    if column.role == "count":
        return "count_per_cycle"
    return f"{column.name.removesuffix('_ns')}_per_cycle{'_ns' if column.unit == 'ns' else ''}"


def side_by_side(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of a view for two runs: keys once, every number as ``_a``, ``_b`` and ``_delta``."""
    made: list[Column] = []
    for column in columns:
        if column.pairs == "alone":
            continue
        own, delta = (column.pair_order[0], column.pair_order[-1]) if column.pair_order else (column.order,) * 2
        if column.pairs == "key":
            made.append(replace(column, order=own))
            continue
        at_b = column.pair_order[1] if len(column.pair_order) > 2 else own
        made += [
            replace(
                column, name=f"{column.name}_{side}", header=f"{column.header} {side.upper()}",
                help=f"{column.help}, in run {side.upper()}", side=side, order=order,
                estimate=f"{column.estimate}_{side}" if column.estimate else "",
            )
            for side, order in (("a", own), ("b", at_b))
        ]
        if column.differs:
            made.append(replace(
                column, name=f"{column.name}_delta", header=f"Δ {column.header}", signed=True, bar="", order=delta,
                help=f"{column.help}, B − A", side="delta", estimate="",
            ))
    return tuple(made)
