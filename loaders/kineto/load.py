"""One load from the first byte to the Trace: choice of the reader, then the steps that need the whole file."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..errors import Unreadable
from ..ingest import limits
from ..ingest.stream import Source
from ..loader import Job
from ..native.allocator import keep_freed, without_collecting
from ..trace import Trace
from . import dialect
from .columns import Strings
from .deferred_events import DeferredEvents
from .dialect import ASCEND
from .document import HEADER_BYTES, Document, open_document
from .info import Tally, describe, rank_of
from .pipeline import Pipeline, block_for
from .plain import Plain, Progress
from .scan import SCANNER
from .tables import Tables

COMPILED_BYTES = 300_000
"""Decompressed size from which loading the compiled scanner pays; loading takes some milliseconds.

Measured in a process that has imported polars: 160 kB take 0.07 s either way, 1.4 MB 0.08 s compiled and 0.15 s plain,
the demo's 5.7 MB 0.09 s and 0.5 s.
"""
_PREPARED_BYTES = 12_000_000  # Size from which a missing scanner is compiled in the background for later loads.
_FIRST_ROWS = 20_000
_MOST = 200  # Categories that are listed by name.


class Scanned(Struct):
    """The scanned content of a file, before its tables are finished."""

    size: int
    document: dict[str, Any]
    tables: Tables
    tally: Tally
    xla: bool


def load(job: Job) -> Trace:
    """Read ``job.path``. Raises Unreadable if there is no list of events, OSError."""
    keep_freed()
    with without_collecting():
        scanned = _scan(job)
        with closing(scanned.tables):
            return _trace(job, scanned)


def _scan(job: Job) -> Scanned:
    tally = Tally()
    with Source(job.path) as source:
        try:
            document = open_document(source, HEADER_BYTES)
        except limits.Exceeded as error:
            raise error.unreadable(job.path) from None
        if not document.has_events:
            if source.ended:
                raise Unreadable(job.path, f"holds no complete event: {source.ended}", "Copy or record it again.")
            raise Unreadable(job.path, "holds no list of trace events", "Give a trace, not its metadata.")
        if (rank := job.options.get("rank")) is not None:  # some recorders write it to another file
            document.values.setdefault("distributedInfo", {"rank": rank})
        tables = Tables(Strings(), job.workspace, job.lasting)
        tables.rank = rank_of(document.values)
        previewed = job.first_rows is None

        def progress(events: int) -> None:
            nonlocal previewed
            job.progress(source.position, source.size, events)
            if not previewed and tables.spools["kernels"].rows and job.first_rows is not None:
                previewed = True
                job.first_rows(_first(job, source.size, document, tables))

        try:
            with closing(DeferredEvents(job.workspace, tables)) as deferred:
                _read(job, source, progress, document, tables, deferred, tally)
                tally.decompressed, tally.ended = source.decompressed, source.ended
                tally.fault = None if source.ended else source.fault
                deferred.resolve()
        except limits.Exceeded as error:
            tables.close()
            raise error.unreadable(job.path) from None
        except BaseException:
            tables.close()
            raise
        tally.repaired += deferred.repaired
        tally.skipped_stretches += deferred.broken
        tally.skipped_bytes += deferred.broken_bytes
        tally.dropped += tables.untimed
        tally.times = tables.time_warnings()
        tally.summed = tables.allocations.beyond
        ignored = {dialect.REPEATS: tables.ignored, **deferred.ignored}
        tally.facts |= {"graphless": not any("GraphLaunch" in text for text in tables.strings.texts)}
        repeats = {name: rows for name, rows, is_read in tables.read_categories() if not is_read}
        tally.facts |= {
            "repeats_of_others": [dialect.REPEATS, *repeats], "tables": _listed(tables, deferred, tally.flows),
            "ignored": {key: count for key, count in ignored.items() if count},
        }
        return Scanned(source.size, document.values, tables, tally, deferred.xla)


def _listed(tables: Tables, deferred: DeferredEvents, flows: int) -> list[tuple[str, int, bool]]:
    """(what, events, whether they are read) of every category and phase of the file, the most frequent ``_MOST``."""
    others = [("flows (ph s, t, f)", flows, True)] if flows else []
    others += [(name, rows, is_read) for (name, is_read), rows in deferred.others.items()]
    named = [*tables.read_categories(), *others]
    named.sort(key=lambda each: (-each[1], each[0]))
    rest = [("other categories", sum(rows for _, rows, one in named[_MOST:] if one == is_read), is_read)
            for is_read in (True, False)]
    return [*sorted(named[:_MOST]), *(one for one in rest if one[1])]


def _read(
    job: Job, source: Source, progress: Progress, document: Document, tables: Tables, deferred: DeferredEvents,
    tally: Tally,
) -> None:
    """Read the events: large files with the compiled scanner if available, others with ``Plain``."""
    size = (source.size - source.position) * (8 if source.compressed else 1)
    native = SCANNER.load() if job.compiled and size > COMPILED_BYTES else None
    if native is None:
        if job.compiled and size > _PREPARED_BYTES:
            SCANNER.prepare()
        Plain(document, tables, deferred, tally).run(source, progress)
        return
    seekable = not source.compressed and hasattr(os, "preadv")
    Pipeline(native, document, tables, deferred, tally, block_for(size)).run(source, progress, seekable)


def _first(job: Job, size: int, document: Document, tables: Tables) -> Trace:
    """A Trace of the first rows, to show while the rest loads."""
    frames = tables.preview(rank_of(document.values), _FIRST_ROWS)
    return _described(job, Scanned(size, document.values, tables, Tally(closed=True), False)).with_tables(**frames)


def _trace(job: Job, scanned: Scanned) -> Trace:
    frames = scanned.tables.finish(rank_of(scanned.document), job.lasting)
    trace = replace(_described(job, scanned).with_tables(**frames), held_host=scanned.tables.held_host())
    origin = scanned.tables.earliest or 0
    if scanned.tables.texts.device_word == ASCEND:
        from .flows import tie_launches

        trace = tie_launches(trace, job, origin)
    if scanned.xla:
        from .hlo import tie_hlo

        trace = tie_hlo(trace, job)
    if not scanned.xla and scanned.tables.texts.device_word != ASCEND:
        from .merged import untangled

        trace = untangled(trace, job, scanned.tables, origin)
    texts = scanned.tables.strings
    if dialect.BACKWARD_ARROW in texts and not scanned.tables.sequenced and any(map(dialect.is_backward, texts.texts)):
        from .flows import tie_backward

        trace = tie_backward(trace, job, origin)
    if scanned.tables.spools["metrics"].rows:
        from ..recording.quantities import with_checked

        trace = with_checked(trace, job)
    return trace


def _described(job: Job, scanned: Scanned) -> Trace:
    tables, rank = scanned.tables, rank_of(scanned.document)
    spools, word = tables.spools, tables.texts.device_word
    row_ranks = spools["kernels"].ranks | spools["host"].ranks
    return Trace(describe(
        job.path, scanned.size, scanned.document, scanned.tally,
        devices=[f"{word} {number}" for number in spools["kernels"].devices if number >= 0],
        ranks=list(row_ranks if rank is None else {rank, *row_ranks}),
        origin=tables.earliest, word=word, xla=scanned.xla,
    ))  # fmt: skip
