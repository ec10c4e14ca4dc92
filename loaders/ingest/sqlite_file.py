"""Untrusted, possibly truncated SQLite databases: opened in place, never modified, read as far as their pages go.

They are opened read-only and immutable: nothing is locked, no journal appears next to the recording, and a read-only
disk is fine. SQLite refuses a file with fewer pages than its header declares, unless ``writable_schema`` is on
(``lockBtree`` in its btree.c); it then reads each table up to the first missing page and raises an error there. SQLite
treats a partial last page as zeros, whose rows are empty, so a partial page is cut off first. File format:
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

MAGIC = b"SQLite format 3\0"  # The first bytes of a database.


class _Pages(NamedTuple):
    """Page size in bytes, complete pages present, pages according to the header, bytes of a partial last page.

    ``expected`` is 0 if the header is out of date; SQLite then uses the file size, too.
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
    """A read-only connection that also reads truncated databases. Raises sqlite3.Error, OSError."""
    pages = _pages(path)
    connection = sqlite3.connect(f"{Path(os.path.abspath(path)).as_uri()}?mode=ro&immutable=1", uri=True)
    if pages is not None and pages.here < pages.expected:
        connection.execute("pragma writable_schema = on")
    return connection


def whole_pages(path: Path, workspace: Path) -> tuple[Path, str | None]:
    """The database as a file of whole pages, and a warning if it is truncated.

    Returns the file itself unless it ends within a page: then a file in the workspace is shortened in place, and any
    other file is copied to the workspace first; the caller deletes the copy. Raises OSError.
    """
    pages = _pages(path)
    if pages is None or (pages.here >= pages.expected and not pages.over):
        return path, None
    if pages.over:
        if path.parent != workspace:
            path = Path(shutil.copyfile(path, workspace / "whole"))
        os.truncate(path, pages.here * pages.size)
    of = f" of {pages.expected:,}" if pages.expected else " whole"
    return path, f"truncated: the file holds {pages.here:,}{of} database pages; rows on later pages are lost"


def batches(cursor: sqlite3.Cursor, size: int) -> Iterator[list[Any]]:
    """The rows of a cursor in batches of ``size``; rows before an error are yielded before it is raised."""
    failed: sqlite3.Error | None = None
    while failed is None:
        rows = list[Any]()
        try:
            rows.extend(islice(cursor, size))  # keeps the rows before an error, which ``fetchmany`` loses
        except sqlite3.Error as error:
            failed = error
        if rows:
            yield rows
        elif failed is None:
            return
    raise failed


def schema(connection: sqlite3.Connection) -> list[tuple[object, object, object, object]]:
    """(type, name, root page, ``create`` statement) of each readable schema entry.

    Raises sqlite3.Error if none is readable.
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
    """The names and ``create`` statements of the schema; b"" if the file cannot be read as a database."""
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
