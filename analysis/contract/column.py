"""A column of a view: everything about it in one place.

A column's name, header, unit and meaning drive the list on screen, the exports, the help and the README's tables.
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
"""How a raw value is formatted. ``ns/us/ms`` are durations, ``fraction`` is 0-1 shown as %, ``percent`` is already in
%, ``trend`` is a list of numbers drawn as a sparkline from 0, ``series`` one drawn from its minimum to its maximum,
``ratio`` is a factor such as 3.4x, ``number`` has its own unit column or none, ``kinds`` is a count shown only above
one, ``rate`` is in B/s, ``measure`` is text: a value with its unit, where each row has its own unit."""

Dtype = Literal["str", "int", "float", "bool", "list"]

Role = Literal["value", "name", "label", "time", "moment", "share", "count", "order", "place", "where", "key", "tree",
               "shapes", "path", "frame"]
"""The purpose of a column, so that no code has to go by its name.

``name`` is a recorded name, shown in its short form; ``label`` is other recorded text. ``time`` is the time a view
measures, the first such column that of the state line; ``share`` and ``count`` belong to it. ``moment`` is a point in
time, not a duration; ``order`` numbers the rows as recorded, ``place`` ranks them. ``tree`` is text indented below its
parent row, ``shapes`` are operand shapes; of a ``path`` the end is shown, of
a ``frame`` of the program its file without folders. ``where`` says where a row belongs (device,
kind, rank, metric): a value shared by all rows is shown once above them."""

Pairs = Literal["", "key", "sum", "shared", "single", "side", "alone"]
"""How a column behaves in a table of two runs. ``key`` joins the rows and appears once; ``sum`` becomes ``_a``, ``_b``
and ``_delta``, and is 0 for a row that the run lacks (null if it lacks the row's device or rank); a ``shared`` sum
counts once for all ranks of a job (a collective on eight ranks is one); ``single`` says what single calls took (a
median), of those in whole cycles where sums are per cycle; ``side`` has no difference; ``alone`` is left
out, since it does not add up over rows. Empty depends on the unit: text, booleans and lists are ``side``; numbers get a
difference, null if not measured."""

Per = Literal["cycle", "recording"]  # Basis on which sums of two runs are compared.

Bar = Literal["", "share", "lost", "tensor", "dram"]  # What a bar shows, which sets its colour; '' for no bar.

ABOVE_PEAK = 1.1
"""A share of a peak above this indicates an error: clocks above the data sheet's do not explain so much."""

_DTYPES: dict[Unit, Dtype] = {
    "text": "str", "count": "int", "ns": "int", "bytes": "int", "kinds": "int", "bool": "bool", "trend": "list",
    "list": "list", "measure": "str", "series": "list",
}
_SIDED = frozenset(("text", "trend", "bool", "list", "measure", "series"))
_SIZED = frozenset(("count", "number", "ns", "us", "ms", "fraction", "percent", "bytes", "rate"))
_ASCENDING = frozenset(("name", "order", "place", "moment"))


class Column(Struct, frozen=True):
    """A column of a view.

    ``name`` is fixed (scripts rely on it) and tells the unit; ``header`` is shown. ``width`` is in cells; an
    ``elastic`` column takes the remaining width. On a narrow terminal columns with the highest ``order`` are dropped
    first, order 0 never; order None means only in exports and details. ``pair_order`` replaces ``order`` with two runs:
    (all), (A and B, delta) or (A, B, delta). ``bar`` draws fractions as an eighth-block bar. ``resolution``: ns to
    which a moment is shown; ``doubt``: relative uncertainty of durations, which limits their digits; ``side``: the run
    it belongs to. ``signed`` shows + and −. ``pinned`` columns stay when scrolling sideways. ``sorts`` names the column
    that sorts the rows if this one is only a way to show it, ``under`` the column whose larger value is drawn as ░
    behind the bar. ``brief`` has shorter words for values wider than the column. ``per``: a sum of two runs is listed
    only if they are compared on that basis. ``estimate`` names the column whose value is shown instead, marked ``~``,
    if this has none. A ``heading`` is not repeated below an equal value, and is shown once above a list in which all
    rows share it. If a row includes rows nested in it, ``nests`` names the column without them, whose sum is the total.
    ``of`` says what 1 is in a column of fractions: ``base`` (the answer's fact ``base``) or words ('of peak FLOP/s').
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
    nests: str = ""
    of: str = ""

    def mark(self, value: float | None, estimated: bool) -> str:
        """The mark before a share of a peak: ``!`` if it is impossible, ``~`` if it is estimated, not counted."""
        above = value is not None and self.bar in ("tensor", "dram") and self.side != "delta" and value > ABOVE_PEAK
        return "!" if above else "~" if estimated and value is not None else ""

    @property
    def dtype(self) -> Dtype:
        """Type of the values; integers in a ``number`` column are floats too."""
        return _DTYPES.get(self.unit, "float")

    @property
    def sized(self) -> bool:
        """Whether the values are sizes that can be compared."""
        return self.unit in _SIZED

    @property
    def lasting(self) -> bool:
        """Whether it is a duration."""
        return self.unit in ("ns", "us", "ms") and self.role != "moment"

    @property
    def ascends(self) -> bool:
        """Whether its natural order is ascending."""
        return self.role in _ASCENDING

    @property
    def is_left(self) -> bool:
        """Whether it is left-aligned: text and sparklines."""
        return self.unit in ("text", "trend", "list", "series")

    @property
    def sums(self) -> bool:
        """Whether it adds up over a run, so that a longer recording has more of it."""
        return self.pairs in ("sum", "shared")

    @property
    def differs(self) -> bool:
        """Whether it has a difference column for two runs."""
        return self.pairs not in ("key", "side", "alone") and self.unit not in _SIDED


def keys_of(columns: Iterable[Column]) -> tuple[str, ...]:
    """The names of the columns that join the rows of two runs."""
    return tuple(column.name for column in columns if column.pairs == "key")


def ranked_sums(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with sums, by importance for ranking changes: times, then counts, then the rest."""
    rank = {"time": 0, "count": 1}
    return tuple(sorted((one for one in columns if one.sums), key=lambda one: rank.get(one.role, 2)))


def with_cycle_sums(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns with each sum followed by the same per cycle: ``per_cycle_ns`` for the main time, ``count_per_cycle``
    for the count, others by their own name (``self_per_cycle_ns``); ``single`` ones by that in whole cycles."""
    main = next((one for one in ranked_sums(columns) if one.role == "time"), None)
    result: list[Column] = []
    for column in columns:
        if not column.sums and column.pairs != "single":
            result.append(column)
            continue
        what = "in whole cycles" if column.unit == "fraction" or not column.sums else "per cycle"
        result += [replace(column, per="recording"), replace(
            column, per="cycle", name=_cycle_name(column, main), help=f"{column.help}, {what}",
            unit="number" if column.unit == "count" else column.unit,
            nests=column.nests and f"{column.nests.removesuffix('_ns')}_per_cycle_ns",
        )]
    return tuple(result)


def pair_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a view for two runs, including sums per cycle."""
    return side_by_side(with_cycle_sums(columns))


def _cycle_name(column: Column, main: Column | None) -> str:
    if column is main:
        return "per_cycle_ns"
    if column.role == "count":
        return "count_per_cycle"
    per = "per_cycle" if column.sums else "in_cycles"
    return f"{column.name.removesuffix('_ns')}_{per}{'_ns' if column.unit == 'ns' else ''}"


def side_by_side(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of a view for two runs: keys once, every number as ``_a``, ``_b`` and ``_delta``."""
    result: list[Column] = []
    for column in columns:
        if column.pairs == "alone":
            continue
        own, delta = (column.pair_order[0], column.pair_order[-1]) if column.pair_order else (column.order,) * 2
        if column.pairs == "key":
            result.append(replace(column, order=own))
            continue
        at_b = column.pair_order[1] if len(column.pair_order) > 2 else own
        result += [
            replace(
                column, name=f"{column.name}_{side}", header=f"{column.header} {side.upper()}",
                help=f"{column.help}, in run {side.upper()}", side=side, order=order,
                estimate=f"{column.estimate}_{side}" if column.estimate else "",
            )
            for side, order in (("a", own), ("b", at_b))
        ]
        if column.differs:
            result.append(replace(
                column, name=f"{column.name}_delta", header=f"Δ {column.header}", signed=True, bar="", order=delta,
                help=f"{column.help}, B − A", side="delta", estimate="",
            ))
    return tuple(result)
