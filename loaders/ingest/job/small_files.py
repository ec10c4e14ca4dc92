"""Jobs of small files, which are merged into one run with one file per table when they are read.

The cost of a query grows with the number of files behind its tables: opening those of 1,024 ranks of 100 kB each alone
takes seconds, and the cache would have an entry for each; the ranks of 16 such files cost 1.1 CPU s merged and 2.8
apart. A merged job is one cache entry with one file per table. The only drawback is that if one source file changes,
all are read again.
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

MOST_MEAN_BYTES = 1 << 20
"""Maximum mean file size of a merged job; larger files are worth caching separately in case one of them changes."""
_MOST_MEMORY = 192 << 20
"""Bytes of tables held in memory before merging; the tables of further files are written to disk first."""


def are_small(files: Sequence[InputFile]) -> bool:
    """Whether several files of a folder are merged when they are read."""
    return len(files) > 1 and sum(file.size for file in files) <= MOST_MEAN_BYTES * len(files)


class SmallFiles:
    """Reads the files of a job and writes the merged run to ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._parts = directory / "parts"
        self._bytes = self._read = 0

    def read(self, file: InputFile, request: Request) -> tuple[Trace, ...]:
        """The traces of one file, without call trees. Raises whatever the loader raises."""
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

    def write_merged(self, run: Trace) -> None:
        """Write the merged run and remove the files of its parts. Raises OSError."""
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
