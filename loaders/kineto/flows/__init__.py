"""Arrows of a trace (flow events) that say what nothing else in the file does, found by a second reading of its text.

Few files need it: Ascend's, where nothing but arrows ties an operator to its activities, and those whose backward
operators have no sequence number. All others are read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ... import schema
from ...ingest.stream import Source
from ...loader import Job
from ..columns import NULL, integer, nanoseconds
from ..decode import decode

_BLOCK = 4 << 20
_LONGEST = 4096
"""Bytes of an arrow's text."""
_MOST = 50_000_000
_NESTED = 2
"""Objects an arrow may hold behind its name, its arguments among them."""


class Arrows(NamedTuple):
    """Arrows of one kind by their id: (thread, time in ns) where each begins, and where it ends."""

    begins: dict[Any, tuple[int, int]]
    ends: dict[Any, tuple[int, int]]

    def frame(self) -> pl.DataFrame:
        """One row an arrow that has both."""
        both = [(*begin, *self.ends[key]) for key, begin in self.begins.items() if key in self.ends]
        return pl.DataFrame(both, schema=dict.fromkeys(("tid", "from", "stream", "to"), pl.Int64), orient="row")


def read(path: Path, *words: str, per_process: bool = False) -> tuple[Arrows, ...]:
    """The arrows of each category or name; ids may be counted in each process anew. Raises OSError as ``open`` does."""
    arrows = {word: Arrows({}, {}) for word in words}
    for event in _events(path, [f'"{word}"'.encode() for word in words]):
        if sum(len(kind.begins) for kind in arrows.values()) > _MOST:
            break
        kind = arrows.get(str(event.get("cat"))) or arrows.get(str(event.get("name")))
        endpoint = integer(event.get("tid")), nanoseconds(event.get("ts"))
        key, phase = event.get("id"), event.get("ph")
        if kind is None or NULL in endpoint or not isinstance(key, (int, str)) or phase not in ("s", "f"):
            continue
        key = (integer(event.get("pid")), key) if per_process else key
        (kind.begins if phase == "s" else kind.ends).setdefault(key, endpoint)
    return tuple(arrows.values())


def _events(path: Path, words: list[bytes]) -> Iterator[dict[str, Any]]:
    """What may be arrows: the objects around one of the words, which may hold other objects behind it."""
    with Source(path) as source:
        rest = b""
        while block := source.read(_BLOCK):
            data = rest + block
            for word in words:
                at = data.find(word)
                while at >= 0:
                    begin = data.rfind(b"{", max(0, at - _LONGEST), at)
                    if begin >= 0 and (event := _object(data, begin, at)) is not None:
                        yield event
                    at = data.find(word, at + 1)
            rest = data[-_LONGEST:]  # an arrow on the border is met twice, and counts once


def _object(data: bytes, begin: int, end: int) -> dict[str, Any] | None:
    """The object that begins there and ends at one of the next few braces; None where that is none."""
    for _ in range(_NESTED + 1):
        end = data.find(b"}", end, begin + _LONGEST) + 1
        if not end:
            break
        try:
            event, _ = decode(data[begin:end])
        except ValueError:
            continue
        return event if isinstance(event, dict) else None
    return None


def changed(name: str, table: pl.LazyFrame, rows: pl.DataFrame, job: Job) -> pl.LazyFrame:
    """The table with some columns of some rows replaced, in the files of the workspace where it must last."""
    columns = [column for column in rows.columns if column != "row"]
    changes = rows.lazy().rename({column: f"{column}_new" for column in columns})
    merged = table.with_row_index("row").join(changes, on="row", how="left", maintain_order="left").with_columns(
        pl.coalesce(f"{column}_new", column).alias(column) for column in columns
    )
    merged = schema.conform(name, merged.drop("row", *(f"{column}_new" for column in columns)))
    if not job.lasting:
        return merged.collect().lazy()
    unfinished, path = job.workspace / f".{name}.arrow", job.workspace / f"{name}.arrow"
    merged.sink_ipc(unfinished, compression="lz4", maintain_order=True)
    for old in (*job.workspace.glob(f"{name}.arrow"), *job.workspace.glob(f"{name}-*.arrow")):
        old.unlink()
    unfinished.rename(path)
    return schema.conform(name, pl.scan_ipc(path))
