"""SQLite databases of profilers, read as untrusted files.

A view may be any query, even one that never ends, so views are never executed, only parsed for the tables they name.
SQLite stores any value in any column: cells are read as stored and become numbers through ``values``; texts are
truncated to the maximum length of a name. From a damaged table the rows before the damage are read.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from msgspec.structs import replace

from ..errors import Unreadable
from ..ingest import sqlite_file, stream
from ..loader import Job
from ..schema_limits import LATEST_NS
from ..trace import RECORDINGS, Info, Trace
from . import values
from .faults import Faults
from .recording import Recording

_BLOCK_ROWS = 65_536
_LONGEST = 64 << 20  # Bytes of one value or row; SQLite raises an error for longer ones.
_LONGEST_NAME = 1 << 16  # Maximum characters read of a text.
_TEXT = f"case when typeof({{0}}) != 'blob' then substr(cast({{0}} as text), 1, {_LONGEST_NAME}) end"
"""SQL expression that reads a column of names; they may be stored as numbers."""
_TIMES = frozenset("start end timestamp rawTimestamp startNs endNs timestampNs allocationTime releaseTime".split())
_SIZES = frozenset("bytes size memorySize totalAllocated totalReserved totalActive allocationTotalAllocated".split())
_STEPS = 200_000  # SQLite virtual machine steps between two checks for cancellation.
_TABLE = re.compile(r"\s*create table", re.IGNORECASE)
_PLAIN_VIEW = re.compile(
    r"\s*create\s+(?:temp\s+|temporary\s+)?view\s+(?:if\s+not\s+exists\s+)?\S+\s+as\s+(.*)\Z", re.IGNORECASE | re.DOTALL
)
_BRANCH = re.compile(r"\s*select\s+\*\s+from\s+([`\"\[]?)([\w-]+)[`\"\]]?\s*;?\s*\Z", re.IGNORECASE)


class CountedOnce:
    """Where the wrong cells of a database are counted: in ``wrong`` at the first reading of a column, then nowhere."""

    wrong: Faults

    def __init__(self, wrong: Faults) -> None:
        self.wrong, self._read = wrong, set[tuple[str, str]]()
        self.read_rows: Counter[str] = Counter()
        """Table → rows that a reader took from it, for ``doctor``."""

    def faults_of(self, table: str, columns: Sequence[str]) -> dict[str, Faults]:
        """Column → where to count for this reading."""
        result = {column: Faults() if (table, column) in self._read else self.wrong for column in columns}
        self._read |= {(table, column) for column in columns}
        return result


class SqliteTables(CountedOnce):
    """An open database. A clause about each damaged table is appended to its faults. Raises sqlite3.Error."""

    def __init__(self, path: str | os.PathLike[str], wrong: Faults) -> None:
        super().__init__(wrong)
        self._connection = sqlite_file.connect(path)
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._stopped: BaseException | None = None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _until_damage(self, table: str, query: str) -> Iterator[list[tuple[object, ...]]]:
        """The rows of a query on one table in batches, up to the first damage."""
        try:
            yield from sqlite_file.batches(self._connection.execute(query), _BLOCK_ROWS)
        except sqlite3.DatabaseError as error:
            if self._stopped is not None:
                raise self._stopped from None
            reason = f"{table} could be read only in part ({clause(error)})"
            if reason not in self.wrong.sentences:
                self.wrong.sentences.append(reason)


class Database(SqliteTables):
    """The tables of one database, read with the expected column types."""

    def __init__(self, path: Path, faults: Faults, tick: Callable[[], None] = lambda: None) -> None:
        """``tick`` is called periodically while rows are read; an exception from it stops the reading."""
        super().__init__(path, faults)
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
        self.only = ""
        """Ending of the tables that are read, in a database with tables of several recordings."""
        try:
            for kind, name, _, text in sqlite_file.schema(self._connection):
                if kind == "view" and isinstance(name, str):
                    self._views[name] = str(text)
                elif kind == "table" and isinstance(name, str) and _TABLE.match(str(text)):
                    # stored columns only: a generated column is an expression from an untrusted file
                    rows = self._connection.execute(f"pragma table_info({quoted(name)})").fetchall()
                    self.tables[name] = tuple(str(row[1]) for row in rows)
        except BaseException:
            self.close()
            raise

    def begin(self, faults: Faults, ending: str) -> None:
        """Read only tables with this ending from here on, and count in these faults what is wrong."""
        self.wrong, self._read, self.only = faults, set(), ending

    def span(self, table: str, start: str, end: str) -> tuple[int, int] | None:
        """The first start and last end of a table, in whole numbers above 0; None without one."""
        number = f"typeof({{0}}) = 'integer' and {{0}} between 1 and {LATEST_NS}"
        places = [number.format(quoted(column)) for column in (start, end)]
        query = (f"select min({quoted(start)}), max({quoted(end)}) from {quoted(table)} "
                 f"where {' and '.join(places)}")
        try:
            first, last = self._connection.execute(query).fetchone()
        except sqlite3.DatabaseError:
            return None
        return None if first is None else (first, last)

    def sources(self, name: str) -> list[str]:
        """The tables with the rows of ``name``: those its view combines, else the table itself, else suffixed ones."""
        return [table for table in self._sources(name) if table.endswith(self.only)]

    def _sources(self, name: str) -> list[str]:
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
        """All rows of a small table, such as a mapping from ids to names; columns as in ``blocks``."""
        frames = list(self.blocks(name, ints, texts, reals))
        empty = pl.DataFrame(schema={"source": pl.Int64, **dtypes(ints, texts, reals)})
        return pl.concat([empty, *frames])

    def blocks(
        self, name: str, ints: Sequence[str], texts: Sequence[str] = (), reals: Sequence[str] = ()
    ) -> Iterator[pl.DataFrame]:
        """Blocks of rows: Int64, String and Float64 columns, and ``source``, the index of the table they come from.

        A column missing from the table is null. From a damaged table the rows before the damage are returned.
        """
        wanted = (*ints, *texts, *reals)
        faults = self.faults_of(name, wanted)
        for source, table in enumerate(self.sources(name)):
            again = self.read_rows.pop(table, 0)
            have = {column: quoted(column) for column in self.tables[table]}
            selection = [
                (_TEXT.format(have[column]) if column in texts else have[column]) if column in have else "null"
                for column in wanted
            ]
            for rows in self._until_damage(name, f"select {', '.join(selection) or '0'} from {quoted(table)}"):
                self.read_rows[table] += len(rows)
                yield frame_of(rows, ints, texts, reals, faults, name).select(
                    pl.lit(source, pl.Int64).alias("source"), *wanted)
            self.read_rows[table] = max(again, self.read_rows[table])

    def unread(self) -> dict[str, int]:
        """Table → rows of every other table of events, by the database's own list."""
        return {table: rows for table in self.tables if is_of_events(table) and table not in self.read_rows
                and (rows := self.count(table))}

    def count(self, table: str) -> int:
        """The number of rows; 0 if the table is damaged."""
        try:
            return int(self._connection.execute(f"select count(*) from {quoted(table)}").fetchone()[0])
        except sqlite3.DatabaseError:
            return 0


def frame_of(
    rows: Sequence[tuple[object, ...]], ints: Sequence[str], texts: Sequence[str], reals: Sequence[str],
    faults: Mapping[str, Faults], table: str,
) -> pl.DataFrame:
    """Rows as stored, in the order ints, texts, reals, as Int64, String and Float64 columns."""
    cells: list[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * (len(ints) + len(texts) + len(reals))
    kinds: list[values.Kind | None] = [*map(kind_of, ints), *[None] * len(texts), *_reals(len(reals))]
    return pl.DataFrame([
        pl.Series(name, column, dtype=pl.String) if kind is None
        else values.series(name, column, kind, faults[name], table)
        for name, column, kind in zip((*ints, *texts, *reals), cells, kinds, strict=True)
    ])


def _reals(count: int) -> list[values.Kind]:
    return ["real"] * count


_NO_EVENTS = re.compile(
    r"^(?:ENUM_|TARGET_INFO_|META_DATA|EXPORT_META|ANALYSIS_|StringIds$|STRING_IDS$|ThreadNames$|PROCESSES$|Process"
    r"|DIAGNOSTIC_EVENT$|GENERIC_EVENT_(?:SOURCES|TYPES|TYPE_FIELDS|DATA)$|sqlite_|rocpd_(?:string|metadata|info_)"
    r"|SESSION_|NPU_INFO|HOST_INFO|RANK_DEVICE_MAP|CANN_VERSION|.*_(?:INFO|IDS)$|TARGET_|.*CALLCHAINS$|ProfilerConfig)",
    re.IGNORECASE,
)


def is_of_events(table: str) -> bool:
    """Whether a table holds events: not names, enumerations, devices, or the export's own data."""
    return _NO_EVENTS.match(table) is None


def tables_of(read: Mapping[str, int], unread: Mapping[str, int]) -> list[tuple[str, int, bool]]:
    """(table, rows, whether they were read) of every table of events with rows, as ``doctor`` lists them."""
    rows = [(table, count, True) for table, count in read.items() if count and is_of_events(table)]
    return sorted([*rows, *((table, count, False) for table, count in unread.items())])


def kind_of(column: str) -> values.Kind:
    """What a whole-number column of a profiler's database holds: times, sizes, or else ids and counts."""
    return "ns" if column in _TIMES else "bytes" if column in _SIZES else "id"


@contextmanager
def unpacked(job: Job, advice: str) -> Iterator[tuple[Path, list[str]]]:
    """Yields the job's database as an uncompressed file of whole pages, and sentences about faults. Raises Unreadable
    if SQLite cannot read it."""
    plain, fault = stream.plain_file(job.path, job.workspace, job.progress)
    path, cut = sqlite_file.whole_pages(plain, job.workspace)
    try:
        yield path, [reason for reason in (fault, cut) if reason]
    except (sqlite3.Error, UnicodeError) as error:  # column names may be damaged too
        raise Unreadable(job.path, f"is damaged: SQLite cannot read it ({clause(error)})", advice) from None
    finally:
        if path != job.path:
            path.unlink()


def read_database(
    job: Job, format: str, tool: str, clock: str, read: Callable[[Database, Recording], Trace],
    endings_of: Callable[[Database], list[str]] = lambda database: [],
) -> tuple[Trace, ...]:
    """The traces that ``read`` makes of a possibly compressed database: one, or one for each recording of
    ``endings_of``, the endings of its tables. Raises Unreadable if SQLite cannot read it."""
    name = job.path.name
    for suffix in (".gz", ".zst", ".rpd", ".db", ".sqlite", ".sqlite3"):
        name = name.removesuffix(suffix) or name
    info = Info(str(job.path), name, format=format, tool=tool, bytes=job.path.stat().st_size, clock=clock)
    with unpacked(job, "Write or copy it again.") as (path, faults), ThreadPoolExecutor(1) as writer:
        size, rows, wrong = path.stat().st_size, 0, Faults()
        # SQLite reports no position, so progress stays at half while it reads
        database = Database(path, wrong, lambda: job.progress(size // 2, size, rows))
        traces = []
        try:
            endings = endings_of(database)
            for number, ending in enumerate(endings or [""]):
                # the workspace belongs to the first trace: the others write to folders of their own
                own = replace(job, workspace=_folder(job, number), first_rows=None) if number else job
                about = replace(info, label=f"{name} [{number}]", facts={RECORDINGS: len(endings)}) if endings else info
                recording = Recording(own, about, writer)
                database.begin(recording.faults, ending)
                traces.append(read(database, recording))
                rows += recording.rows
            tables = tables_of(database.read_rows, database.unread())
        finally:
            database.close()
    job.progress(size, size, rows)
    for trace in traces:
        trace.info.facts["tables"] = tables
    return tuple(trace.warn(*faults) for trace in traces)


def _folder(job: Job, number: int) -> Path:
    path = job.workspace.parent / str(number)
    path.mkdir(parents=True, exist_ok=True)
    return path


def clause(error: BaseException) -> str:
    """The message of an error on one line, at most 120 characters."""
    return " ".join(str(error).split())[:120]


def dtypes(ints: Sequence[str], texts: Sequence[str], reals: Sequence[str]) -> dict[str, type[pl.DataType]]:
    """Column → dtype of a frame."""
    return {**dict.fromkeys(ints, pl.Int64), **dict.fromkeys(texts, pl.String), **dict.fromkeys(reals, pl.Float64)}


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
