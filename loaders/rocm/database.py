"""SQLite databases of AMD's tools, opened as what they are: files of strangers.

A view may be any query, one that never ends among them, so views are read for the tables they name and never run.
Columns are asked for by type: text where a number should be is null and counted, and no single value may be longer
than a name can be.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from ..ingest import sqlite_file
from .values import Faults

_BLOCK_ROWS = 65_536
_LONGEST = 64 << 20
"""Bytes of one value or row; SQLite refuses the table that has a longer one."""
_LONGEST_NAME = 1 << 16
"""Characters of a text that are read."""
_STEPS = 200_000
"""Steps of SQLite's machine between two looks at whether the user wants to stop."""
_PLAIN_VIEW = re.compile(
    r"\s*create\s+(?:temp\s+|temporary\s+)?view\s+(?:if\s+not\s+exists\s+)?\S+\s+as\s+(.*)\Z", re.IGNORECASE | re.DOTALL
)
_BRANCH = re.compile(r"\s*select\s+\*\s+from\s+([`\"\[]?)([\w-]+)[`\"\]]?\s*;?\s*\Z", re.IGNORECASE)


class RocmDatabase:
    """The tables of one database. Raises sqlite3.Error where the file is none or is damaged."""

    def __init__(self, path: Path, faults: Faults, tick: Callable[[], None] = lambda: None) -> None:
        """``tick`` is called now and then while rows are read; what it raises ends the reading."""
        self._faults = faults
        self._stopped: BaseException | None = None
        self._connection = sqlite_file.connect(path)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)

        def look() -> int:
            try:
                tick()
            except BaseException as error:
                self._stopped = error
                return 1
            return 0

        self._connection.set_progress_handler(look, _STEPS)
        self.tables: dict[str, tuple[str, ...]] = {}
        self._views: dict[str, str] = {}
        self._counted: set[tuple[str, str]] = set()
        try:
            self._look_around()
        except BaseException:
            self.close()
            raise

    def _look_around(self) -> None:
        for kind, name, _, text in sqlite_file.schema(self._connection):
            if not isinstance(name, str):
                continue
            if kind == "view":
                self._views[str(name)] = str(text)
            elif kind == "table" and str(text).lstrip()[:13].lower().startswith("create table"):
                self.tables[str(name)] = self._columns(str(name))

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def sources(self, name: str) -> list[str]:
        """The tables that hold the rows of ``name``: those its view names, else itself, else those with a suffix."""
        if name in self._views:
            body = _PLAIN_VIEW.match(self._views[name])
            selects = re.split(r"\bunion\s+all\b", body[1], flags=re.IGNORECASE) if body else []
            branches = [_BRANCH.match(select) for select in selects]
            tables = [branch[2] for branch in branches if branch is not None and branch[2] in self.tables]
            if tables and len(tables) == len(branches):
                return tables
        if name in self.tables:
            return [name]
        suffixed = re.compile(re.escape(name) + r"_[0-9a-fA-F_-]{4,64}")
        return [table for table in self.tables if suffixed.fullmatch(table)]

    def read(
        self, name: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> pl.DataFrame:
        """All rows of a small table: ids and what they stand for."""
        frames = list(self.blocks(name, ints, texts, reals))
        empty = pl.DataFrame(schema={"source": pl.Int64, **_schema(ints, texts, reals)})
        return pl.concat([empty, *frames])

    def blocks(
        self, name: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> Iterator[pl.DataFrame]:
        """Blocks of rows: Int64, String and Float64 columns, and ``source``, the number of the table they come from.

        A column the table lacks is null. What is stored in another type is null and counted, the first time that the
        column is read. Of a damaged table the rows before the damage are given.
        """
        for number, table in enumerate(self.sources(name)):
            have = set(self.tables[table])
            columns = [
                *(_typed(column, "integer") if column in have else "null" for column in ints),
                *(_text(column) if column in have else "null" for column in texts),
                *(_real(column) if column in have else "null" for column in reals),
            ]
            new = {column for column in have if (table, column) not in self._counted}
            wrong = [f"(typeof({_quoted(c)}) not in ('integer', 'null'))" for c in ints if c in new]
            wrong += [f"(typeof({_quoted(c)}) not in ('integer', 'real', 'null'))" for c in reals if c in new]
            self._counted |= {(table, column) for column in (*ints, *reals)}
            query = f"select {', '.join([*columns, ' + '.join(wrong) or '0'])} from {_quoted(table)}"
            yield from self._rows(name, number, query, {**_schema(ints, texts, reals), "wrong": pl.Int64})

    def _rows(
        self, name: str, number: int, query: str, columns: Mapping[str, type[pl.DataType]]
    ) -> Iterator[pl.DataFrame]:
        try:
            for rows in sqlite_file.batches(self._connection.execute(query), _BLOCK_ROWS):
                frame = pl.DataFrame(rows, schema=dict(columns), orient="row")
                if wrong := int(frame["wrong"].sum()):
                    self._faults.values[name] += wrong
                yield frame.select(pl.lit(number, pl.Int64).alias("source"), *list(columns)[:-1])
        except sqlite3.DatabaseError as error:
            if self._stopped is not None:
                raise self._stopped from None
            reason = f"{name} could be read only in part ({' '.join(str(error).split())[:120]})"
            if reason not in self._faults.sentences:
                self._faults.sentences.append(reason)

    def _columns(self, table: str) -> tuple[str, ...]:
        """Stored columns only: a generated one is an expression of whoever made the file."""
        rows = self._connection.execute(f"pragma table_info({_quoted(table)})").fetchall()
        return tuple(str(row[1]) for row in rows)


def _schema(ints: Sequence[str], texts: Sequence[str], reals: Sequence[str]) -> dict[str, type[pl.DataType]]:
    return {
        **dict.fromkeys(ints, pl.Int64), **dict.fromkeys(texts, pl.String), **dict.fromkeys(reals, pl.Float64),
    }


def _typed(column: str, kind: str) -> str:
    return f"case when typeof({_quoted(column)}) = '{kind}' then {_quoted(column)} end"


def _text(column: str) -> str:
    name = _quoted(column)
    readable = f"typeof({name}) in ('text', 'integer', 'real')"
    return f"case when {readable} then substr(cast({name} as text), 1, {_LONGEST_NAME}) end"


def _real(column: str) -> str:
    name = _quoted(column)
    return f"case when typeof({name}) in ('integer', 'real') then cast({name} as real) end"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
