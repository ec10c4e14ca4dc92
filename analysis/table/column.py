"""One column of a view: everything about it in one place.

A column's name, header, unit and meaning drive the list on the screen, the exports, the help and the README's tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Unit = Literal[
    "text", "count", "number", "ns", "us", "ms", "fraction", "percent", "bytes", "trend", "bool", "ratio", "list",
    "kinds",
]
"""How a raw value is read. ``ns/us/ms`` are durations, ``fraction`` is 0-1 shown as %, ``percent`` is already in %,
``trend`` a list of numbers drawn as a sparkline, ``ratio`` a factor such as 3.4x, ``number`` has its own unit column or
none, ``kinds`` is a count that only shows above one."""


class Column(Struct, frozen=True):
    """A column of a view.

    ``name`` is fixed (scripts rely on it) and tells the unit; ``header`` is what the eye reads. ``width`` is in cells;
    an ``elastic`` column takes what is left. When the terminal is narrow, columns with the highest ``order`` go first;
    order 0 never goes, and columns with order None are only in exports and details. ``bar`` draws fractions as an
    eighth-block bar. ``signed`` shows + and −. ``pinned`` columns stay when scrolling sideways. ``sorts`` names the
    column whose values order the rows where the column itself is only a way to show them. ``brief`` has shorter words
    for values that are wider than the column.
    """

    name: str
    header: str
    unit: Unit
    help: str
    width: int = 10
    order: int | None = 1
    elastic: bool = False
    bar: bool = False
    signed: bool = False
    pinned: bool = False
    sorts: str = ""
    brief: tuple[tuple[str, str], ...] = ()


def side_by_side(columns: Iterable[Column], keys: Iterable[str]) -> tuple[Column, ...]:
    """The columns of a view for two runs: key columns once, every number as ``_a``, ``_b`` and ``_delta``.

    Columns that have no difference (text, lists, flags) get no ``_delta``.
    """
    made: list[Column] = []
    key_names = set(keys)
    for column in columns:
        if column.name in key_names:
            made.append(column)
            continue
        for side in ("a", "b"):
            made.append(
                replace(
                    column, name=f"{column.name}_{side}", header=f"{column.header} {side.upper()}",
                    help=f"{column.help}, in run {side.upper()}",
                )
            )
        if column.unit not in ("text", "trend", "bool", "list"):
            made.append(
                replace(
                    column, name=f"{column.name}_delta", header=f"Δ {column.header}", signed=True, bar=False,
                    help=f"{column.help}, B − A",
                )
            )
    return tuple(made)
