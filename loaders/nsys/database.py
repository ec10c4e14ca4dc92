"""An Nsight Systems export, SQLite or Parquet: its tables and columns, and their rows as frames.

Exports differ in which tables exist (they are created when needed) and in their columns (schema 3.6 to 3.25, and 2020
ones without a version), so readers get null for a missing column. A table that cannot be read, wholly or from some row
on, adds a sentence to the faults.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from .. import parquet_check
from ..errors import Unreadable
from ..ingest import sqlite_file
from ..recording.database import CountedOnce, SqliteTables, clause, dtypes, frame_of, is_of_events, kind_of, quoted
from ..recording.faults import Faults
from ..recording.values import columns, numbers
from ..schema import columns_of
from .pages import Ints, Pages, RecordBlock, Unusual

Map = Callable[[pl.DataFrame], pl.DataFrame]
_THREADS, _AHEAD = 2, 3
_LEAST_PAGES = 64  # Tables with fewer leaf pages (a few thousand rows) are read through SQLite.
_PARQUET_ROWS = 500_000  # Rows per block of a Parquet file.
_DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, parquet_check.Implausible)
"""Exceptions raised when a file is damaged or not Parquet."""


def as_is(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows unchanged."""
    return rows


class NsysDatabase(SqliteTables):
    """The tables of one export. Raises sqlite3.Error if the file is damaged or not a database."""

    def __init__(
        self, path: str | os.PathLike[str], faults: Faults, fast: bool = True,
        on_block: Callable[[int, int], None] = lambda size, rows: None,
    ) -> None:
        """``on_block`` is called with the bytes and rows of each block; ``fast=False`` reads all through SQLite."""
        self.path, self.on_block = Path(os.path.abspath(path)), on_block
        super().__init__(self.path, faults)
        self._pages: Pages | None = None
        try:
            rows = sqlite_file.schema(self._connection)
            self._roots = {str(name): root for kind, name, root, _ in rows if kind == "table" and isinstance(root, int)}
            self.tables = {name: self._columns(name) for name in self._roots}
            self._pages = self._open_pages() if fast else None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        super().close()
        if self._pages is not None:
            self._pages.close()

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table exists with all these columns."""
        return table in self.tables and set(columns) <= self.tables[table].keys()

    def first(self, table: str, *columns: str) -> tuple[object, ...] | None:
        """The first row of a small table; None for a column it lacks. None if there is no row."""
        return next(iter(self.rows(table, *columns)), None)

    def rows(self, table: str, *columns: str, limit: int = 10_000) -> list[tuple[object, ...]]:
        """At most ``limit`` rows of a small table; None for a column it lacks. Empty if there is no such table."""
        if table not in self.tables:
            return []
        selection = ", ".join(quoted(column) if column in self.tables[table] else "null" for column in columns)
        query = f"select {selection} from {quoted(table)} limit {limit}"
        return [row for rows in self._until_damage(table, query) for row in rows]

    def count(self, table: str) -> int:
        """The number of rows of the table; 0 if it is missing or damaged."""
        if table not in self.tables:
            return 0
        try:
            return int(self._connection.execute(f"select count(*) from {quoted(table)}").fetchone()[0])
        except sqlite3.DatabaseError:
            return 0

    def strings(self) -> pl.DataFrame:
        """The table StringIds as ``id`` and ``text``; empty if it is missing."""
        if not self.has("StringIds", "id", "value"):
            return pl.DataFrame(schema={"id": pl.Int64, "text": pl.String})
        query = "select id, cast(value as text) from StringIds where typeof(id) = 'integer'"
        rows = [row for rows in self._until_damage("StringIds", query) for row in rows]
        return pl.DataFrame(rows, schema={"id": pl.Int64, "text": pl.String}, orient="row", strict=False).unique("id")

    def read(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = (), build: Map = as_is
    ) -> pl.DataFrame | None:
        """All blocks of ``blocks`` as one frame; None if there are none."""
        blocks = list(self.blocks(table, ints, texts, reals, build))
        return pl.concat(blocks) if blocks else None

    def blocks(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = (), build: Map = as_is
    ) -> Iterator[pl.DataFrame]:
        """The table in row order: the columns as Int64, String and Float64, null where the table lacks one.

        ``build`` is applied to each block, on several threads; its result should be smaller than the block.
        """
        if table not in self.tables:
            return
        selection, row_count = _Wanted(self, table, tuple(ints), tuple(texts), tuple(reals)), 0
        again = self.read_rows.pop(table, 0)
        try:
            for rows, block in self._fast(table, selection, build):
                row_count += rows
                yield block
        except Unusual:
            yield from self._plain(table, selection, build, row_count)
        self.read_rows[table] = max(again, self.read_rows[table] + row_count)

    def unread(self) -> dict[str, int]:
        """Table → rows of every other table of events, by the export's own list."""
        return {table: rows for table in self.tables if is_of_events(table) and table not in self.read_rows
                and (rows := self.count(table))}

    def _columns(self, table: str) -> dict[str, int]:
        """Column → its position in a record; -1 for an INTEGER PRIMARY KEY, which is the rowid."""
        rows = self._connection.execute(f"pragma table_info({quoted(table)})").fetchall()
        keys = [row for row in rows if row[5]]
        alias = keys[0][1] if len(keys) == 1 and str(keys[0][2]).upper() == "INTEGER" else None
        return {str(row[1]): -1 if row[1] == alias else int(row[0]) for row in rows}

    def _open_pages(self) -> Pages | None:
        wal = self.path.with_name(self.path.name + "-wal")
        try:
            if wal.exists() and wal.stat().st_size:
                return None
            return Pages(self.path)
        except (Unusual, OSError, ValueError):
            return None

    def _fast(self, table: str, selection: _Wanted, derive: Map) -> Iterator[tuple[int, pl.DataFrame]]:
        """Pairs of row count and block, a few read ahead. Raises Unusual, between two blocks."""
        if self._pages is None:
            raise Unusual
        pages, leaves = self._pages, self._pages.leaves(self._roots[table])
        if len(leaves) < _LEAST_PAGES:
            raise Unusual

        def read(part: Ints) -> tuple[int, pl.DataFrame]:
            rows = selection.frame(pages.block(part, selection.numbers(), selection.strings()))
            self.on_block(len(part) * pages.size, rows.height)
            return rows.height, derive(rows)

        ahead: deque[Future[tuple[int, pl.DataFrame]]] = deque()
        pool = ThreadPoolExecutor(_THREADS)
        try:
            for first in range(0, len(leaves), pages.at_once):
                ahead.append(pool.submit(read, leaves[first : first + pages.at_once]))
                if len(ahead) > _AHEAD:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _plain(self, table: str, selection: _Wanted, derive: Map, skip: int) -> Iterator[pl.DataFrame]:
        """The rows after the first ``skip``, read through SQLite up to any damage."""
        rest = f" limit -1 offset {skip}" if skip else ""
        for rows in self._until_damage(table, f"select {selection.expressions()} from {quoted(table)}{rest}"):
            self.read_rows[table] += len(rows)
            yield derive(selection.plain(rows))
            self.on_block(0, len(rows))


class _Wanted:
    """The columns requested of one table, and their positions in it."""

    def __init__(
        self, database: NsysDatabase, table: str, ints: tuple[str, ...], texts: tuple[str, ...], reals: tuple[str, ...]
    ) -> None:
        self._table, self._have = table, database.tables[table]
        self._ints, self._texts, self._reals = ints, texts, reals
        self._faults = database.faults_of(table, (*ints, *reals))

    def numbers(self) -> list[int]:
        """Positions of the numeric columns in a record."""
        return [at for name in (*self._ints, *self._reals) if (at := self._have.get(name, -1)) >= 0]

    def strings(self) -> list[int]:
        """Positions of the text columns in a record."""
        return [self._have[name] for name in self._texts if name in self._have]

    def schema(self) -> dict[str, type[pl.DataType]]:
        """Column → dtype of the frame."""
        return dtypes(self._ints, self._texts, self._reals)

    def expressions(self) -> str:
        """The columns as SQL expressions: numbers as stored, names as text."""
        return ", ".join(
            (f"cast({quoted(name)} as text)" if dtype == pl.String else quoted(name)) if name in self._have else "null"
            for name, dtype in self.schema().items()
        )

    def plain(self, rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
        """Rows as SQLite returned them as a frame."""
        return frame_of(rows, self._ints, self._texts, self._reals, self._faults, self._table)

    def frame(self, block: RecordBlock) -> pl.DataFrame:
        """A decoded block as a frame. Raises Unusual if an integer column holds another type."""
        columns: list[pl.Series] = []
        for name, dtype in self.schema().items():
            at = self._have.get(name)
            if at is None:
                columns.append(pl.repeat(None, block.rows, dtype=dtype, eager=True).alias(name))
            elif name in self._texts:
                columns.append(pl.Series(name, block.text(at), dtype=pl.String))
            elif at < 0:
                columns.append(pl.Series(name, block.rowids))
            else:
                column = block.columns[at]
                values = pl.Series(name, column.floats() if name in self._reals else column.integers())
                valid = values if bool(column.valid.all()) else values.set(pl.Series(~column.valid), None)
                kind = "real" if name in self._reals else kind_of(name)
                columns.append(numbers(valid, kind, self._faults[name], self._table))
        return pl.DataFrame(columns)


class ParquetTables(NsysDatabase):
    """The Parquet files of one folder, one table per file, named after it. Raises Unreadable if none can be read."""

    def __init__(self, folder: Path, faults: Faults, on_block: Callable[[int, int], None]) -> None:
        CountedOnce.__init__(self, faults)
        self.path, self.on_block = folder, on_block
        self._frames: dict[str, pl.LazyFrame] = {}
        self.tables = {}
        for file in sorted(folder.glob("*.parquet")):
            try:
                parquet_check.check(file)  # before polars allocates the sizes it declares
                frame = pl.scan_parquet(file, glob=False)
                names = columns_of(frame).names()
            except _DAMAGED as error:
                faults.sentences.append(f"{file.name} could not be read ({clause(error)})")
                continue
            self._frames[file.stem] = frame
            self.tables[file.stem] = {name: at for at, name in enumerate(names)}
        if not self._frames:
            why = faults.sentences[0] if faults.sentences else "no file in it is a table"
            raise Unreadable(folder, f"is a Parquet export without a table ({why})", "Export it again.")

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def rows(self, table: str, *columns: str, limit: int = 10_000) -> list[tuple[object, ...]]:
        """At most ``limit`` rows of a small table; None for a column it lacks. Empty if there is no such table."""
        if table not in self.tables:
            return []
        picked = [pl.col(name) if name in self.tables[table] else pl.lit(None).alias(name) for name in columns]
        try:
            return self._frames[table].select(picked).head(limit).collect().rows()
        except _DAMAGED as error:
            self._fault(table, error)
            return []

    def count(self, table: str) -> int:
        """The number of rows of the table; 0 if it is missing or damaged."""
        try:
            return int(self._frames[table].select(pl.len()).collect().item()) if table in self.tables else 0
        except _DAMAGED:
            return 0

    def strings(self) -> pl.DataFrame:
        """The table StringIds as ``id`` and ``text``; empty if it is missing."""
        empty = pl.DataFrame(schema={"id": pl.Int64, "text": pl.String})
        if not self.has("StringIds", "id", "value"):
            return empty
        try:
            rows = self._frames["StringIds"].select("id", pl.col("value").cast(pl.String).alias("text")).collect()
            ids = numbers(rows["id"], "id", self.wrong, "StringIds")
            return rows.with_columns(ids).drop_nulls("id").unique("id", keep="first")
        except _DAMAGED as error:
            self._fault("StringIds", error)
            return empty

    def blocks(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = (), build: Map = as_is
    ) -> Iterator[pl.DataFrame]:
        """The table in row order: the columns as Int64, String and Float64, null where the table lacks one."""
        if table not in self.tables:
            return
        kinds = dtypes(ints, texts, reals)
        plan = self._frames[table].select(
            (pl.col(name) if name in self.tables[table] else pl.lit(None, kind)).alias(name)
            for name, kind in kinds.items()
        )
        rows, skipped = self.count(table) if self.tables[table] else 0, 0
        while skipped < rows:
            try:
                block = plan.slice(skipped, _PARQUET_ROWS).collect()
            except _DAMAGED as error:
                self._fault(table, error)
                return
            # if the table has none of the columns, a frame of literals has a single row
            if block.height != min(_PARQUET_ROWS, rows - skipped):
                block = pl.DataFrame({name: pl.repeat(None, rows, dtype=kind, eager=True)
                                      for name, kind in kinds.items()}).slice(skipped, _PARQUET_ROWS)
            skipped += block.height
            self.read_rows[table] = max(self.read_rows[table], skipped)
            self.on_block(0, block.height)
            whole = {name: kind_of(name) for name in ints}
            block = block.with_columns(pl.col(list(texts)).cast(pl.String)) if texts else block
            yield build(columns(block, table, self.wrong, {**whole, **dict.fromkeys(reals, "real")}))

    def _fault(self, table: str, error: BaseException) -> None:
        self.wrong.sentences.append(f"{table} could be read only in part ({clause(error)})")
