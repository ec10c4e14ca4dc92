"""What all rows of an answer have in common: said once above them, so that names get the room.

A column says of what its rows are (device, kind, rank, metric). With one value on every row it tells no two of them
apart. Big answers are looked at through a stretch of rows first, so that this costs a pass only where it may pay.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..contract.column import Column
from ..core.text import display
from .rows import Rows

_MEASURED = ("value", "time", "share", "count", "moment")
"""Roles of columns that say how much or when: two rows that differ in them only are not told apart by them."""

_COMPARED = 100_000  # Rows up to which it is looked up what tells them apart.

_LOOKED_AT = 2_000  # Rows whose moments say to how many digits these are shown.

_CLOSEST = 0.01  # Share of neighbouring moments that may read alike.


def common_values(rows: Rows, columns: Sequence[Column], kept: pl.Series | None) -> list[tuple[str, str, str]]:
    """Name, header and text of each listed column that has one value on all rows; none of a table of one row."""
    if rows.height < 2:
        return []
    made = []
    for column in columns:
        if column.role == "where" and column.order is not None and (value := rows.only(column.name, kept)) is not None:
            made.append((column.name, column.header, display(str(value), 60)))
    return made


def telling_apart(rows: Rows, columns: Sequence[Column]) -> set[str]:
    """The columns that say of what a row is without which rows read alike: the ranks of a job, the devices of a rank. A
    list never drops them, however narrow it is."""
    if rows.on_disk or not 2 <= rows.height <= _COMPARED:
        return set()
    listed = [column for column in columns if column.order is not None]
    known = [column.name for column in listed if column.role not in ("where", *_MEASURED)]
    where = sorted((column for column in listed if column.role == "where"), key=lambda column: column.order or 0)
    needed: set[str] = set()
    different = rows.distinct(known)
    for column in where:
        if different == rows.height:
            break
        more = rows.distinct([*known, column.name])
        if more > different:
            needed.add(column.name)
            known.append(column.name)
            different = more
    return needed


def resolution(rows: Rows, name: str) -> int:
    """The largest power of ten of ns at which neighbouring moments still read differently; at most a millisecond."""
    values = pl.Series([row[0] for row in rows.window(0, _LOOKED_AT, [name])], dtype=pl.Int64).drop_nulls().sort()
    gaps = values.diff().drop_nulls()
    gaps = gaps.filter(gaps > 0)
    if gaps.is_empty():
        return 1_000
    least = gaps.quantile(_CLOSEST, "lower") or 1
    return max(power for power in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000) if power <= least)
