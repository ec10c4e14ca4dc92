"""SQLite databases of profilers, read as what they are: files of strangers.

A view may be any query, one that never ends among them, so views are read for the tables they name and never run.
Columns are asked for by type: text where a number should be is null and counted, and no single value may be longer
than a name can be. Of a damaged table the rows before the damage are read.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from ..errors import Unreadable
from ..ingest import sqlite_file, stream
from ..loader import Job
from ..trace import Info, Trace
from .recording import Faults, Recording

_BLOCK_ROWS = 65_536
_LONGEST = 64 << 20  # Bytes of one value or row; SQLite refuses the table that has a longer one.
_LONGEST_NAME = 1 << 16  # Characters of a text that are read.
_SQL: dict[type[pl.DataType], str] = {
    pl.Int64: "case when typeof({0}) = 'integer' then {0} end",
    pl.String: "case when typeof({0}) in ('text', 'integer', 'real') "
               f"then substr(cast({{0}} as text), 1, {_LONGEST_NAME}) end",
    pl.Float64: "case when typeof({0}) in ('integer', 'real') then cast({0} as real) end",
}
"""A column as SQL by its type; what is stored as another is null."""
_STEPS = 200_000  # Steps of SQLite's machine between two looks at whether the user wants to stop.
_TABLE = re.compile(r"\s*create table", re.IGNORECASE)
_PLAIN_VIEW = re.compile(
    r"\s*create\s+(?:temp\s+|temporary\s+)?view\s+(?:if\s+not\s+exists\s+)?\S+\s+as\s+(.*)\Z", re.IGNORECASE | re.DOTALL
)
_BRANCH = re.compile(r"\s*select\s+\*\s+from\s+([`\"\[]?)([\w-]+)[`\"\]]?\s*;?\s*\Z", re.IGNORECASE)


class SqliteTables:
    """An open database. ``faults`` gets a sentence for each table that is damaged. Raises sqlite3.Error."""

    def __init__(self, path: str | os.PathLike[str], faults: list[str]) -> None:
        self.faults = faults
        self._connection = sqlite_file.connect(path)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._stopped: BaseException | None = None

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _until_damage(self, table: str, query: str) -> Iterator[list[tuple[object, ...]]]:
        """The rows of a query of one table, many at a time, up to where that is damaged."""
        try:
            yield from sqlite_file.batches(self._connection.execute(query), _BLOCK_ROWS)
        except sqlite3.DatabaseError as error:
            if self._stopped is not None:
                raise self._stopped from None
            reason = f"{table} could be read only in part ({clause(error)})"
            if reason not in self.faults:
                self.faults.append(reason)


class Database(SqliteTables):
    """The tables of one database by the types their columns should have."""

    def __init__(self, path: Path, faults: Faults, tick: Callable[[], None] = lambda: None) -> None:
        """``tick`` is called now and then while rows are read; what it raises ends the reading."""
        super().__init__(path, faults.sentences)
        self._values = faults.values
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
                    rows = self._connection.execute(f"pragma table_info({quoted(name)})").fetchall()
                    self.tables[name] = tuple(str(row[1]) for row in rows)
        except BaseException:
            self.close()
            raise

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
        empty = pl.DataFrame(schema={"source": pl.Int64, **dtypes(ints, texts, reals)})
        return pl.concat([empty, *frames])

    def blocks(
        self, name: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> Iterator[pl.DataFrame]:
        """Blocks of rows: Int64, String and Float64 columns, and ``source``, the number of the table they come from.

        A column the table lacks is null. What is stored in another type is null and counted, the first time that the
        column is read. Of a damaged table the rows before the damage are given.
        """
        schema = dtypes(ints, texts, reals)
        for number, table in enumerate(self.sources(name)):
            have = {column: quoted(column) for column in self.tables[table]}
            columns = [_SQL[schema[column]].format(have[column]) if column in have else "null" for column in schema]
            wrong = [
                f"(typeof({have[c]}) not in ({numbers}, 'null'))"
                for columns_of_kind, numbers in ((ints, "'integer'"), (reals, "'integer', 'real'"))
                for c in columns_of_kind if c in have and (table, c) not in self._counted
            ]
            self._counted |= {(table, column) for column in (*ints, *reals)}
            query = f"select {', '.join([*columns, ' + '.join(wrong) or '0'])} from {quoted(table)}"
            for rows in self._until_damage(name, query):
                frame = pl.DataFrame(rows, schema={**schema, "wrong": pl.Int64}, orient="row")
                if count := int(frame["wrong"].sum()):
                    self._values[name] += count
                yield frame.select(pl.lit(number, pl.Int64).alias("source"), *schema)


@contextmanager
def unpacked(job: Job, advice: str) -> Iterator[tuple[Path, list[str]]]:
    """The job's database as a plain file of whole pages, and what is wrong with it in words. Raises Unreadable where
    SQLite cannot read it."""
    plain, fault = stream.plain_file(job.path, job.workspace, job.progress)
    path, cut = sqlite_file.whole_pages(plain, job.workspace)
    try:
        yield path, [reason for reason in (fault, cut) if reason]
    except (sqlite3.Error, UnicodeError) as error:  # names of columns may be damaged too
        raise Unreadable(job.path, f"is damaged: SQLite cannot read it ({clause(error)})", advice) from None
    finally:
        if path != job.path:
            path.unlink()


def read_database(
    job: Job, format: str, tool: str, clock: str, read: Callable[[Database, Recording], Trace]
) -> tuple[Trace, ...]:
    """What ``read`` makes of the database, which may be compressed. Raises Unreadable where SQLite cannot read it."""
    name = job.path.name
    for suffix in (".gz", ".zst", ".rpd", ".db", ".sqlite", ".sqlite3"):
        name = name.removesuffix(suffix) or name
    info = Info(str(job.path), name, format=format, tool=tool, bytes=job.path.stat().st_size, clock=clock)
    with unpacked(job, "Write or copy it again.") as (path, faults), ThreadPoolExecutor(1) as writer:
        size = path.stat().st_size
        recording = Recording(job, info, writer)
        # SQLite does not say how far it is: half of the way while it reads
        database = Database(path, recording.faults, lambda: job.progress(size // 2, size, recording.rows))
        try:
            trace = read(database, recording)
        finally:
            database.close()
    job.progress(size, size, recording.rows)
    return (trace.warn(*faults),)


def clause(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:120]


def dtypes(ints: Sequence[str], texts: Sequence[str], reals: Sequence[str]) -> dict[str, type[pl.DataType]]:
    """Column → dtype of a frame."""
    return {**dict.fromkeys(ints, pl.Int64), **dict.fromkeys(texts, pl.String), **dict.fromkeys(reals, pl.Float64)}


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
