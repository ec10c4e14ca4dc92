"""Results shared by several views, stored beside the tables: the next process reads them instead of recomputing.

Small traces are recomputed as fast as they are read, so only results from big ones are stored. The file name of a
stored result contains a hash of our code: another version of warplens computes its own.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from msgspec import msgpack

from ...loaders.trace import Trace

LEAST_BYTES = 20_000_000  # Bytes of a recording from which on its derived results are stored.
_Value = TypeVar("_Value")


def derived(run: Trace, name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """The frame that ``find`` computes from the run's tables, stored if possible; ``name``: lowercase and dashes."""
    return run.derived(_file(name), find) if is_stored(run) else find()


def derived_rows(run: Trace, name: str, find: Callable[[], Iterable[pl.DataFrame]]) -> pl.LazyFrame:
    """Like ``derived``, for rows that ``find`` yields in one or more chunks; stored rows stay on disk."""
    return run.derived_rows(f"{name}-{code_hash()}", find) if is_stored(run) else pl.concat(find()).lazy()


def derived_value(run: Trace, name: str, kind: Any, find: Callable[[], _Value]) -> _Value:
    """The value of type ``kind`` that ``find`` computes from the run's tables, stored if possible (see ``packed``)."""
    if not is_stored(run):
        return find()
    result: list[_Value] = []

    def fresh() -> pl.DataFrame:
        result.append(find())
        return packed(result[0])

    frame = derived(run, name, fresh)
    return result[0] if result else unpacked(frame, kind)


def stored_frame(run: Trace, name: str) -> pl.DataFrame | None:
    """The frame that ``derived`` stored; None if it has not been computed yet."""
    return run.derived_store.read(_file(name)) if run.derived_store is not None and is_stored(run) else None


def stored_value(run: Trace, name: str, kind: type[_Value]) -> _Value | None:
    """The value that ``derived_value`` stored; None if it has not been computed yet."""
    frame = stored_frame(run, name)
    return None if frame is None else unpacked(frame, kind)


def packed(value: object) -> pl.DataFrame:
    """A one-cell table of a value: anything msgspec encodes, and frames. TypeError, ValueError, OverflowError."""
    return pl.DataFrame({"value": [msgpack.encode(value, enc_hook=_ipc)]})


def unpacked(frame: pl.DataFrame, kind: Any) -> Any:
    """The value given to ``packed``, as type ``kind``. Raises DecodeError, PolarsError and msgspec's if damaged."""
    return msgpack.decode(frame["value"][0], type=kind, dec_hook=_from_ipc)


def _ipc(value: object) -> bytes:
    if not isinstance(value, pl.DataFrame | pl.Series):
        raise TypeError(type(value))
    room = io.BytesIO()
    (value if isinstance(value, pl.DataFrame) else value.to_frame()).write_ipc(room, compression="lz4")
    return room.getvalue()


def _from_ipc(kind: type, data: bytes) -> pl.DataFrame | pl.Series:
    frame = pl.read_ipc(io.BytesIO(data))
    return frame if kind is pl.DataFrame else frame.to_series()


def is_stored(run: Trace) -> bool:
    """Whether derived results of the run are stored: it is big, and its cache holds exactly these tables."""
    return run.derived_store is not None and (run.info.bytes or 0) >= LEAST_BYTES and run.derived_store.is_of(run)


def _file(name: str) -> str:
    return f"{name}-{code_hash()}"


@cache
def code_hash() -> str:
    """A hash of the analysis code and the polars version."""
    here = os.fspath(Path(__file__).parents[1])
    folders, states = [here], []
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    state = entry.stat()
                    states.append((entry.path.removeprefix(here), state.st_size, state.st_mtime_ns))
    return f"{pl.Series([repr((pl.__version__, sorted(states)))]).hash()[0]:016x}"
