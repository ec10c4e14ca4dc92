"""Run summaries in one Parquet file that outlives the recordings: one row per run, in the order they were added.

Several processes may add runs at once: each updates the file under a lock file next to it and replaces it atomically,
so nobody reads a partial file and no run is lost. ``stamp`` is the state of the input (path, size, times), so that it
is not read again; ``digest`` is a hash of the summary, which identifies a run whose file was only touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from .. import files, parquet_check, private
from ..errors import Unreadable
from . import cache, spill

VERSION = 1
_MARK = "warplens_history"
_OTHER_FILE = "Name another file for --store."
_SCHEMA = {"stamp": pl.String, "digest": pl.String, "summary": pl.String}


def stamp_of(path: str) -> str:
    """The state of an input; its path if the state cannot be determined."""
    try:
        return repr(cache.stamps([path])[0])
    except (OSError, ValueError):
        return path


def _digest(data: str) -> str:
    return private.blake2b(data.encode(), digest_size=16).hexdigest()


def read(file: Path) -> pl.DataFrame:
    """``stamp digest summary`` of every run; no rows if the file does not exist yet. Raises Unreadable."""
    if not file.exists():
        return pl.DataFrame(schema=_SCHEMA)
    try:
        parquet_check.check(file)  # before polars allocates the sizes it declares
        version = pl.read_parquet_metadata(file).get(_MARK)
        frame = pl.read_parquet(file) if version == str(VERSION) else None
    except (OSError, parquet_check.Implausible, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise Unreadable(str(file), f"is not a history store ({_first(error)})", _OTHER_FILE) from None
    if version is None:
        raise Unreadable(str(file), "is a Parquet file, but no history store", _OTHER_FILE)
    if frame is None or dict(frame.schema) != _SCHEMA:
        raise Unreadable(
            str(file), f"is a history store of version {version}; this warplens reads version {VERSION}",
            "Use the warplens that wrote it, or name a new file for --store and give it the runs again.")
    return frame


def add(file: Path, rows: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Add the runs (stamp, summary) that are not stored yet; returns all stored runs, including those that other
    processes added. Raises Unreadable, OSError."""
    with _locked(file):
        before = read(file)
        digests = set(before["digest"])
        new = {digest: (stamp, digest, data) for stamp, data in rows if (digest := _digest(data)) not in digests}
        if not new and file.exists():
            return before
        frame = pl.concat([before, pl.DataFrame(list(new.values()), schema=_SCHEMA, orient="row")])
        with files.replacing(file) as out:
            frame.write_parquet(out, metadata={_MARK: str(VERSION)})
        return frame


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Lock the store through a separate lock file, because the store itself is replaced."""
    descriptor = os.open(file.with_name(f"{file.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        spill.exclusive(descriptor)
        yield
    finally:
        os.close(descriptor)


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:80]
