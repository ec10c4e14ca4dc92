"""A SQLite recording from its file to a Database and a Recording, and every failure of SQLite as one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import Unreadable
from ..ingest import sqlite_file, stream
from ..loader import Job
from ..trace import Info, Trace
from .database import RocmDatabase
from .recording import Recording

Read = Callable[[RocmDatabase, Recording], Trace]


def load(job: Job, info: Info, read: Read) -> Trace:
    """What ``read`` makes of the database, which may be compressed. Raises Unreadable where SQLite cannot read it."""
    plain, fault = stream.plain_file(job.path, job.workspace, job.progress)
    path, cut = sqlite_file.whole_pages(plain, job.workspace)
    size = path.stat().st_size
    try:
        with ThreadPoolExecutor(1) as writer:
            recording = Recording(job, info, writer)

            def tick() -> None:  # SQLite does not say how far it is: half of the way while it reads
                job.progress(size // 2, size, recording.rows)

            database = RocmDatabase(path, recording.faults, tick)
            try:
                trace = read(database, recording)
            finally:
                database.close()
    except (sqlite3.Error, UnicodeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise Unreadable(job.path, f"is damaged: SQLite cannot read it ({reason})", "Write or copy it again.") from None
    finally:
        if path != job.path:
            path.unlink()
    job.progress(size, size, recording.rows)
    return trace.warn(*(reason for reason in (fault, cut) if reason))


def label(path: Path) -> str:
    """The file's name without the endings of databases."""
    name = path.name
    for suffix in (".gz", ".zst", ".rpd", ".db", ".sqlite", ".sqlite3"):
        name = name.removesuffix(suffix) or name
    return name
