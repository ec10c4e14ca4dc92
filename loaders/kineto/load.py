"""One load from the first byte to the Trace: choosing the reader, then what needs the whole file."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..errors import Unreadable
from ..loader import Job
from ..stream import Source
from ..trace import Trace
from .aside import Aside
from .columns import Strings
from .document import Document, open_document
from .info import Tally, describe, rank_of
from .plain import BLOCK_BYTES, Plain
from .tables import Tables


def load(job: Job) -> Trace:
    """Read ``job.path``. Raises Unreadable where there is no list of events, OSError as ``open`` does."""
    tally = Tally()
    with Source(job.path) as source:
        document = open_document(source, BLOCK_BYTES)
        if not document.found:
            raise Unreadable(job.path, "it holds no list of trace events", "Give a trace, not its metadata.")
        tables = Tables(Strings(), job.workspace)
        aside = Aside(job.workspace)
        try:
            Plain(document, tables, aside, tally).run(
                source, lambda events: job.progress(source.position, source.size, events)
            )
            tally.given, tally.ended = source.given, source.ended
            aside.resolve(tables)
        finally:
            aside.close()
        size = source.size
    return _trace(job, size, document, tables, aside, tally)


def _trace(job: Job, size: int, document: Document, tables: Tables, aside: Aside, tally: Tally) -> Trace:
    rank = rank_of(document.values)
    tally.repaired += aside.repaired
    tally.dropped += tables.untimed
    tally.facts |= {"ignored": {"mirrors": tables.ignored, **aside.ignored}} if tables.ignored else {}
    frames = tables.finish(rank)
    ranks = [rank, *_distinct(frames["kernels"], "rank"), *_distinct(frames["host"], "rank")]
    info = describe(
        job.path, size, document.values, tally,
        devices=[name for name in _distinct(frames["kernels"], "device") if name is not None],
        ranks=[value for value in ranks if value is not None],
        origin=tables.earliest, word=tables.device_word, xla=aside.xla,
    )  # fmt: skip
    return Trace(info, **frames)


def _distinct(frame: pl.LazyFrame, column: str) -> list[Any]:
    return frame.select(pl.col(column).unique()).collect()[column].to_list()
