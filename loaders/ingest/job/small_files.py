"""A job of many small files, read into the tables of one run.

What a question costs grows with the files that its tables lie in: one about 1,024 ranks of 100 kB each takes seconds
only to open them, and the cache has an entry for each. So such a job is put together when it is read, and is one entry,
whose tables lie in one file each. Nothing is lost by that but that one changed file has all of them read again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...loader import Job
from ...trace import Info, Trace
from .. import store
from .files import InputFile, Request

if TYPE_CHECKING:
    import polars as pl

FEWEST = 17
"""Files from which on a job is put together: with fewer the gain is small, and what is read grows on the screen."""
MOST_MEAN_BYTES = 1 << 20
"""Size of a file, in the mean, that is small; larger ones are worth keeping when one of them changes."""
_MOST_MEMORY = 192 << 20
"""Bytes of tables that are held in memory until all are put together; what comes then goes to the disk before."""


def are_many_and_small(files: Sequence[InputFile]) -> bool:
    """Whether the files of a job are put together as they are read."""
    return len(files) >= FEWEST and sum(file.size for file in files) <= MOST_MEAN_BYTES * len(files)


class SmallFiles:
    """The files of a job as they are read, and the run that is made of them in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._parts = directory / "parts"
        self._bytes = self._read = 0

    def read(self, file: InputFile, request: Request) -> tuple[Trace, ...]:
        """The traces of one file, without their call tree. Raises what the loader does."""
        if file.entry is not None:
            return self._collected(store.read(file.entry, with_call_tree=False))
        assert file.loader is not None
        self._read += 1
        folder = self._parts / str(self._read)
        loader, in_memory = file.loader, self._bytes < _MOST_MEMORY
        lasting = not (in_memory and loader.ready_tables)
        job = Job(file.path, store.workspace(folder), request.progress, None, request.compiled, lasting)
        traces = loader.load(job)
        if in_memory:
            traces = self._collected(traces)
            shutil.rmtree(folder)
            return traces
        store.write(traces, folder)
        return store.read(folder, with_call_tree=False)

    def put_together(self, run: Trace) -> None:
        """Write the run that was made of the traces, and remove what they lay in. Raises OSError."""
        store.write((run,), self.directory)
        shutil.rmtree(self._parts, ignore_errors=True)

    def _collected(self, traces: Sequence[Trace]) -> tuple[Trace, ...]:
        return tuple(self._in_memory(trace.info, trace) for trace in traces)

    def _in_memory(self, info: Info, trace: Trace) -> Trace:
        from ... import schema

        tables: dict[str, pl.LazyFrame] = {}
        for name in trace.filled_tables():
            rows = schema.conform(name, trace.table(name)).collect()
            self._bytes += int(rows.estimated_size())
            tables[name] = rows.lazy()
        return Trace(info).with_tables(**tables)
