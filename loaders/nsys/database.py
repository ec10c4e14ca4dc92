"""An Nsight Systems export as a database: which tables and columns it has, and their rows as frames.

Exports differ in which tables exist (they are created when needed) and in their columns (schema
3.6 to 3.25, and 2020 ones without a version), so every reader asks for what it would like and gets null for what is
not there.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from ..ingest import sqlite_file
from .pages import Pages
from .records import Ints, RecordBlock, Unusual

Made = Callable[[pl.DataFrame], pl.DataFrame]
_THREADS, _AHEAD = 2, 3
_LEAST_PAGES = 64
"""Tables below this many leaf pages are read through SQLite: a few thousand rows."""


def as_is(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows themselves."""
    return rows


class NsysDatabase:
    """The tables of one export. Raises sqlite3.Error where the file is no database or is damaged."""

    def __init__(
        self, path: str | os.PathLike[str], fast: bool = True,
        on_block: Callable[[int, int], None] = lambda size, rows: None,
    ) -> None:
        """``on_block`` is called with the bytes and rows of each block read; ``fast=False`` leaves all to SQLite."""
        self.path, self.on_block = Path(os.path.abspath(path)), on_block
        self.faults: list[str] = []
        self._connection = sqlite_file.connect(self.path)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
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
        """Let go of the file."""
        self._connection.close()
        if self._pages is not None:
            self._pages.close()

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table exists with all these columns."""
        return table in self.tables and set(columns) <= self.tables[table].keys()

    def first(self, table: str, *columns: str) -> tuple[object, ...] | None:
        """The first row of a small table; a column it lacks is None. None where there is no row."""
        return next(iter(self.rows(table, *columns)), None)

    def rows(self, table: str, *columns: str, limit: int = 10_000) -> list[tuple[object, ...]]:
        """At most so many rows of a small table; a column it lacks is None. Empty where there is no such table."""
        if table not in self.tables:
            return []
        selection = ", ".join(_quoted(column) if column in self.tables[table] else "null" for column in columns)
        query = f"select {selection} from {_quoted(table)} limit {limit}"
        return [row for rows in self._until_damage(table, query) for row in rows]

    def count(self, table: str) -> int:
        """How many rows the table has; 0 where there is none, or where it is damaged."""
        if table not in self.tables:
            return 0
        try:
            return int(self._connection.execute(f"select count(*) from {_quoted(table)}").fetchone()[0])
        except sqlite3.DatabaseError:
            return 0

    def strings(self) -> pl.DataFrame:
        """StringIds: ``id`` and ``text``; empty where there are none."""
        if not self.has("StringIds", "id", "value"):
            return pl.DataFrame(schema={"id": pl.Int64, "text": pl.String})
        expression = "cast(id as integer), cast(value as text)"  # any column may hold anything
        query = f"select {expression} from StringIds where typeof(id) = 'integer'"
        rows = [row for rows in self._until_damage("StringIds", query) for row in rows]
        return pl.DataFrame(rows, schema={"id": pl.Int64, "text": pl.String}, orient="row", strict=False).unique("id")

    def read(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = (), made: Made = as_is
    ) -> pl.DataFrame | None:
        """All that ``blocks`` gives as one frame; None without rows."""
        blocks = list(self.blocks(table, ints, texts, reals, made))
        return pl.concat(blocks) if blocks else None

    def blocks(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = (), made: Made = as_is
    ) -> Iterator[pl.DataFrame]:
        """The table in row order: the columns as Int64, String and Float64, null where it has none.

        ``made`` is applied to blocks of rows, on several threads: what it makes should be smaller.
        """
        if table not in self.tables:
            return
        selection, row_count = _Wanted(self.tables[table], tuple(ints), tuple(texts), tuple(reals)), 0
        try:
            for rows, block in self._fast(table, selection, made):
                row_count += rows
                yield block
        except Unusual:
            yield from self._plain(table, selection, made, row_count)

    def _columns(self, table: str) -> dict[str, int]:
        """Column → its position in a record; an INTEGER PRIMARY KEY is the row number (-1)."""
        rows = self._connection.execute(f"pragma table_info({_quoted(table)})").fetchall()
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

    def _fast(self, table: str, selection: _Wanted, derive: Made) -> Iterator[tuple[int, pl.DataFrame]]:
        """Blocks and the rows that each was made of, a few read ahead. Raises Unusual, between two blocks."""
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

    def _plain(self, table: str, selection: _Wanted, derive: Made, skip: int) -> Iterator[pl.DataFrame]:
        """The rows after the first ``skip`` through SQLite; of a damaged table those before the damage."""
        rest = f" limit -1 offset {skip}" if skip else ""
        for rows in self._until_damage(table, f"select {selection.expressions()} from {_quoted(table)}{rest}"):
            yield derive(pl.DataFrame(rows, schema=selection.schema(), orient="row", strict=False))
            self.on_block(0, len(rows))

    def _until_damage(self, table: str, query: str) -> Iterator[list[tuple[object, ...]]]:
        """The rows of a query of one table, many at a time, up to where that is damaged."""
        try:
            yield from sqlite_file.batches(self._connection.execute(query), 65536)
        except sqlite3.DatabaseError as error:
            reason = f"{table} could be read only in part ({' '.join(str(error).split())[:120]})"
            if reason not in self.faults:
                self.faults.append(reason)


class _Wanted:
    """The columns asked of one table, and where it has them."""

    def __init__(
        self, have: dict[str, int], ints: tuple[str, ...], texts: tuple[str, ...], reals: tuple[str, ...]
    ) -> None:
        self._have, self._ints, self._texts, self._reals = have, ints, texts, reals

    def numbers(self) -> list[int]:
        """Positions of the numbers in a record."""
        return [at for name in (*self._ints, *self._reals) if (at := self._have.get(name, -1)) >= 0]

    def strings(self) -> list[int]:
        """Positions of the texts in a record."""
        return [self._have[name] for name in self._texts if name in self._have]

    def schema(self) -> dict[str, type[pl.DataType]]:
        """Column → dtype of the frame."""
        return {
            **dict.fromkeys(self._ints, pl.Int64), **dict.fromkeys(self._texts, pl.String),
            **dict.fromkeys(self._reals, pl.Float64),
        }

    def expressions(self) -> str:
        """The same columns in SQL; what is stored in another type is converted, not refused."""
        kinds = {pl.Int64: "integer", pl.String: "text", pl.Float64: "real"}
        return ", ".join(
            f"cast({_quoted(name)} as {kinds[dtype]})" if name in self._have else "null"
            for name, dtype in self.schema().items()
        )

    def frame(self, block: RecordBlock) -> pl.DataFrame:
        """A decoded block as a frame. Raises Unusual where an integer column holds something else."""
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
                found = block.columns[at]
                values = pl.Series(name, found.floats() if name in self._reals else found.integers())
                columns.append(values if bool(found.valid.all()) else values.set(pl.Series(~found.valid), None))
        return pl.DataFrame(columns)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
