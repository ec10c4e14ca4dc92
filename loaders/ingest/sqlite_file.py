"""SQLite databases as files of strangers: opened in place, changed by nobody, and read as far as their pages go.

Opened read-only and as immutable: nothing is locked, no journal appears beside somebody's recording, and a read-only
disk is no obstacle. SQLite refuses a file that has fewer pages than its header says, unless the schema is declared
writable (``lockBtree`` in its btree.c); then it reads each table up to the first page that is missing, and says so. It
takes half a page at the end for a page of zeros, whose rows are empty, so that one is cut off first. File format:
https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

MAGIC = b"SQLite format 3\0"  # What a database begins with.


class _Pages(NamedTuple):
    """The size of a page in bytes, the pages that are there, those the header tells of, bytes of one that is not whole.

    A header that was not kept up to date tells of none, and then SQLite goes by the size of the file too.
    """

    size: int
    here: int
    expected: int
    over: int


def _pages(path: str | os.PathLike[str]) -> _Pages | None:
    with open(path, "rb") as file:
        head, length = file.read(100), os.fstat(file.fileno()).st_size
    if len(head) < 100 or not head.startswith(MAGIC):
        return None
    number = int.from_bytes(head[16:18], "big")
    size = 65536 if number == 1 else number
    if size < 512 or size & (size - 1):
        return None
    expected = int.from_bytes(head[28:32], "big") if head[24:28] == head[92:96] else 0
    return _Pages(size, length // size, expected, length % size)


def connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection that can read only, of a database that was cut off to what is there. Raises sqlite3.Error, OSError.
    """
    pages = _pages(path)
    connection = sqlite3.connect(f"{Path(os.path.abspath(path)).as_uri()}?mode=ro&immutable=1", uri=True)
    if pages is not None and pages.here < pages.expected:
        connection.execute("pragma writable_schema = on")
    return connection


def whole_pages(path: Path, workspace: Path) -> tuple[Path, str | None]:
    """A database as a file of whole pages, and a warning where it was cut off.

    That is the file itself, which is shortened where it lies in the workspace, or of another that ends in the middle of
    a page a copy in the workspace, which whoever asks deletes. Raises OSError.
    """
    pages = _pages(path)
    if pages is None or (pages.here >= pages.expected and not pages.over):
        return path, None
    if pages.over:
        if path.parent != workspace:
            path = Path(shutil.copyfile(path, workspace / "whole"))
        os.truncate(path, pages.here * pages.size)
    of = f" of {pages.expected:,}" if pages.expected else " whole"
    return path, f"truncated: {pages.here:,}{of} pages of the database are there; rows on later ones are lost"


def batches(cursor: sqlite3.Cursor, size: int) -> Iterator[list[Any]]:
    """The rows of a cursor, so many at a time; those before an error come before it is raised. Raises sqlite3.Error."""
    failed: sqlite3.Error | None = None
    while failed is None:
        rows = list[Any]()
        try:
            rows.extend(islice(cursor, size))  # which has what came before an error; ``fetchmany`` loses it
        except sqlite3.Error as error:
            failed = error
        if rows:
            yield rows
        elif failed is None:
            return
    raise failed


def schema(connection: sqlite3.Connection) -> list[tuple[object, object, object, object]]:
    """Type, name, root page and ``create`` statement of what is in a database, as far as its pages go.

    Raises sqlite3.Error where nothing of it can be read.
    """
    rows = list[Any]()
    try:
        for batch in batches(connection.execute("select type, name, rootpage, sql from sqlite_master"), 1000):
            rows += batch
    except sqlite3.DatabaseError:
        if not rows:
            raise
    return rows


def schema_text(path: str | os.PathLike[str]) -> bytes:
    """The names and ``create`` statements of all tables of a database, b"" where it cannot be read as one."""
    try:
        connection = connect(path)
        try:
            rows = schema(connection)
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeError):
        return b""
    names, statements = (" ".join(str(row[1]) for row in rows if row[1]), (str(row[3]) for row in rows if row[3]))
    return "\n".join((names, *statements)).encode(errors="replace")
