"""What several questions need and one of them found out, read from beside the tables by the next process that asks.

A small trace is asked anew as fast as it is read, so only what came from a big one is kept. What is kept says by its
name which state of our code found it: another version of warplens finds it out for itself.
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

LEAST_BYTES = 20_000_000  # Bytes of a recording from which answers about it are kept.
_Value = TypeVar("_Value")


def derived(run: Trace, name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """What ``find`` tells of the run's tables; ``name`` is of small letters and dashes."""
    return run.derived(_file(name), find) if is_stored(run) else find()


def derived_rows(run: Trace, name: str, find: Callable[[], Iterable[pl.DataFrame]]) -> pl.LazyFrame:
    """As ``derived``, of rows that come in at least one part, and stay on disk where they are kept."""
    return run.derived_rows(f"{name}-{code()}", find) if is_stored(run) else pl.concat(find()).lazy()


def derived_value(run: Trace, name: str, kind: Any, find: Callable[[], _Value]) -> _Value:
    """What ``find`` tells of the run's tables: a value of the type ``kind`` that ``packed`` takes."""
    if not is_stored(run):
        return find()
    made: list[_Value] = []

    def fresh() -> pl.DataFrame:
        made.append(find())
        return packed(made[0])

    frame = derived(run, name, fresh)
    return made[0] if made else unpacked(frame, kind)


def known(run: Trace, name: str) -> pl.DataFrame | None:
    """What ``derived`` kept; None where it was not asked yet."""
    return run.derived_store.read(_file(name)) if run.derived_store is not None and is_stored(run) else None


def known_value(run: Trace, name: str, kind: type[_Value]) -> _Value | None:
    """What ``derived_value`` kept; None where it was not asked yet."""
    frame = known(run, name)
    return None if frame is None else unpacked(frame, kind)


def packed(value: object) -> pl.DataFrame:
    """A table of one value, of what msgspec can write and frames. Raises TypeError, ValueError and OverflowError."""
    return pl.DataFrame({"value": [msgpack.encode(value, enc_hook=_ipc)]})


def unpacked(frame: pl.DataFrame, kind: Any) -> Any:
    """What ``packed`` took, of the type ``kind``. Raises DecodeError, PolarsError and what msgspec does for damage."""
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
    """Whether what is found out about the run is kept: where a cache holds these very tables, of a big recording."""
    return run.derived_store is not None and (run.info.bytes or 0) >= LEAST_BYTES and run.derived_store.is_of(run)


def _file(name: str) -> str:
    return f"{name}-{code()}"


@cache
def code() -> str:
    """Names the state of the code that answers questions."""
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
