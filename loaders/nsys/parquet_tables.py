"""The tables of a Parquet export under the interface of the database, which asks for columns and gets null for others.

Rows are read in blocks. A table that cannot be read, wholly or from some row on, is one of the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl

from .. import parquet_check
from ..errors import Unreadable
from .database import Made, NsysDatabase, as_is

_ROWS = 500_000
"""Rows of a block."""
DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, parquet_check.Implausible)
"""What reading a file that is no Parquet, or a damaged one, raises."""


class ParquetTables(NsysDatabase):
    """The Parquet files of one folder, each a table by its name. Raises Unreadable where none can be read."""

    def __init__(self, folder: Path, on_block: Callable[[int, int], None]) -> None:
        self.path, self.on_block = folder, on_block
        self.faults: list[str] = []
        self._frames: dict[str, pl.LazyFrame] = {}
        self.tables = {}
        for file in sorted(folder.glob("*.parquet")):
            try:
                parquet_check.check(file)  # before polars reserves what it says
                frame = pl.scan_parquet(file, glob=False)
                names = frame.collect_schema().names()
            except DAMAGED as error:
                self.faults.append(f"{file.name} could not be read ({_said(error)})")
                continue
            self._frames[file.stem] = frame
            self.tables[file.stem] = {name: at for at, name in enumerate(names)}
        if not self._frames:
            why = self.faults[0] if self.faults else "no file in it is a table"
            raise Unreadable(folder, f"is a Parquet export without a table ({why})", "Export it again.")

    def close(self) -> None:
        """Nothing is held."""

    def rows(self, table: str, *columns: str, limit: int = 10_000) -> list[tuple[object, ...]]:
        """At most so many rows of a small table; a column it lacks is None. Empty where there is no such table."""
        if table not in self.tables:
            return []
        picked = [pl.col(name) if name in self.tables[table] else pl.lit(None).alias(name) for name in columns]
        try:
            return self._frames[table].select(picked).head(limit).collect().rows()
        except DAMAGED as error:
            self._fault(table, error)
            return []

    def count(self, table: str) -> int:
        """How many rows the table has; 0 where there is none, or where it is damaged."""
        try:
            return int(self._frames[table].select(pl.len()).collect().item()) if table in self.tables else 0
        except DAMAGED:
            return 0

    def strings(self) -> pl.DataFrame:
        """StringIds: ``id`` and ``text``; empty where there are none."""
        empty = pl.DataFrame(schema={"id": pl.Int64, "text": pl.String})
        if not self.has("StringIds", "id", "value"):
            return empty
        try:
            return self._frames["StringIds"].select(
                pl.col("id").cast(pl.Int64, strict=False), pl.col("value").cast(pl.String, strict=False).alias("text")
            ).drop_nulls("id").unique("id", keep="first").collect()
        except DAMAGED as error:
            self._fault("StringIds", error)
            return empty

    def blocks(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = (), made: Made = as_is
    ) -> Iterator[pl.DataFrame]:
        """The table in row order: the columns as Int64, String and Float64, null where it has none."""
        if table not in self.tables:
            return
        kinds = {**dict.fromkeys(ints, pl.Int64), **dict.fromkeys(texts, pl.String), **dict.fromkeys(reals, pl.Float64)}
        plan = self._frames[table].select(
            (pl.col(name) if name in self.tables[table] else pl.lit(None)).cast(kind, strict=False).alias(name)
            for name, kind in kinds.items()
        )
        columns = self._frames[table].head(0).collect_schema()
        rows, skipped = self.count(table) if columns else 0, 0
        while skipped < rows:
            try:
                block = plan.slice(skipped, _ROWS).collect()
            except DAMAGED as error:
                self._fault(table, error)
                return
            if block.height != min(_ROWS, rows - skipped):  # no column of it is there: a frame of literals has one row
                block = pl.DataFrame({name: pl.repeat(None, rows, dtype=kind, eager=True)
                                      for name, kind in kinds.items()}).slice(skipped, _ROWS)
            skipped += block.height
            self.on_block(0, block.height)
            yield made(block)

    def _fault(self, table: str, error: BaseException) -> None:
        self.faults.append(f"{table} could be read only in part ({_said(error)})")


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:120]
