"""SQLite databases of AMD's tools (and Ascend's), opened as what they are: files of strangers.

A view may be any query, one that never ends among them, so views are read for the tables they name and never run.
Columns are asked for by type: text where a number should be is null and counted, and no single value may be longer
than a name can be.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from ..errors import Unreadable
from ..ingest import sqlite_file, stream
from ..loader import Job
from ..trace import Info, Trace
from .recording import Recording
from .values import Faults

_BLOCK_ROWS = 65_536
_LONGEST = 64 << 20
"""Bytes of one value or row; SQLite refuses the table that has a longer one."""
_LONGEST_NAME = 1 << 16
"""Characters of a text that are read."""
_SQL: dict[type[pl.DataType], str] = {
    pl.Int64: "case when typeof({0}) = 'integer' then {0} end",
    pl.String: "case when typeof({0}) in ('text', 'integer', 'real') "
               f"then substr(cast({{0}} as text), 1, {_LONGEST_NAME}) end",
    pl.Float64: "case when typeof({0}) in ('integer', 'real') then cast({0} as real) end",
}
"""A column as SQL by what it should be; what is stored as something else is null."""
_STEPS = 200_000
"""Steps of SQLite's machine between two looks at whether the user wants to stop."""
_TABLE = re.compile(r"\s*create table", re.IGNORECASE)
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
            for kind, name, _, text in sqlite_file.schema(self._connection):
                if kind == "view" and isinstance(name, str):
                    self._views[name] = str(text)
                elif kind == "table" and isinstance(name, str) and _TABLE.match(str(text)):
                    # stored columns only: a generated one is an expression of whoever made the file
                    rows = self._connection.execute(f"pragma table_info({_quoted(name)})").fetchall()
                    self.tables[name] = tuple(str(row[1]) for row in rows)
        except BaseException:
            self.close()
            raise

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
        schema = _schema(ints, texts, reals)
        for number, table in enumerate(self.sources(name)):
            have = {column: _quoted(column) for column in self.tables[table]}
            columns = [_SQL[schema[column]].format(have[column]) if column in have else "null" for column in schema]
            wrong = [
                f"(typeof({have[c]}) not in ({numbers}, 'null'))"
                for asked, numbers in ((ints, "'integer'"), (reals, "'integer', 'real'"))
                for c in asked if c in have and (table, c) not in self._counted
            ]
            self._counted |= {(table, column) for column in (*ints, *reals)}
            query = f"select {', '.join([*columns, ' + '.join(wrong) or '0'])} from {_quoted(table)}"
            try:
                for rows in sqlite_file.batches(self._connection.execute(query), _BLOCK_ROWS):
                    frame = pl.DataFrame(rows, schema={**schema, "wrong": pl.Int64}, orient="row")
                    if count := int(frame["wrong"].sum()):
                        self._faults.values[name] += count
                    yield frame.select(pl.lit(number, pl.Int64).alias("source"), *schema)
            except sqlite3.DatabaseError as error:
                if self._stopped is not None:
                    raise self._stopped from None
                reason = f"{name} could be read only in part ({_clause(error)})"
                if reason not in self._faults.sentences:
                    self._faults.sentences.append(reason)


def read_database(
    job: Job, format: str, tool: str, clock: str, read: Callable[[RocmDatabase, Recording], Trace]
) -> tuple[Trace, ...]:
    """What ``read`` makes of the database, which may be compressed. Raises Unreadable where SQLite cannot read it."""
    name = job.path.name
    for suffix in (".gz", ".zst", ".rpd", ".db", ".sqlite", ".sqlite3"):
        name = name.removesuffix(suffix) or name
    info = Info(str(job.path), name, format=format, tool=tool, bytes=job.path.stat().st_size, clock=clock)
    plain, fault = stream.plain_file(job.path, job.workspace, job.progress)
    path, cut = sqlite_file.whole_pages(plain, job.workspace)
    size = path.stat().st_size
    try:
        with ThreadPoolExecutor(1) as writer:
            recording = Recording(job, info, writer)
            # SQLite does not say how far it is: half of the way while it reads
            database = RocmDatabase(path, recording.faults, lambda: job.progress(size // 2, size, recording.rows))
            try:
                trace = read(database, recording)
            finally:
                database.close()
    except (sqlite3.Error, UnicodeError) as error:
        reason = f"is damaged: SQLite cannot read it ({_clause(error)})"
        raise Unreadable(job.path, reason, "Write or copy it again.") from None
    finally:
        if path != job.path:
            path.unlink()
    job.progress(size, size, recording.rows)
    return (trace.warn(*(reason for reason in (fault, cut) if reason)),)


def _clause(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def _schema(ints: Sequence[str], texts: Sequence[str], reals: Sequence[str]) -> dict[str, type[pl.DataType]]:
    return {
        **dict.fromkeys(ints, pl.Int64), **dict.fromkeys(texts, pl.String), **dict.fromkeys(reals, pl.Float64),
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
