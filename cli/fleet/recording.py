"""Reduces one recording, on any machine: open it, compute the sums, write them beside the dataset, clean up.

This is the task of a local process or cluster worker. It returns only a summary; the tables go to the shared disk.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...loaders.dataset.layout import Part
from ...loaders.errors import Unreadable

if TYPE_CHECKING:
    from ...loaders.trace import Trace

MOST_RANKS = 10**9
"""Ranks must be below this; file names in a dataset have no room for more digits."""
_alone = threading.Lock()
"""A cluster worker may have several threads, but memoised results are for one run at a time."""
Stamp = tuple[str, int, int]


class Recording(Struct, frozen=True):
    """A recording to reduce: the files of one process, its rank if the files do not name one, and the dataset.

    ``session`` keeps the folders of this call apart from those of other calls that write into the same dataset.
    """

    files: tuple[str, ...]
    rank: int | None
    dataset: str
    session: str
    stamps: tuple[Stamp, ...]

    @property
    def name(self) -> str:
        """Name of the recording in messages."""
        return self.files[0] + (f" and {len(self.files) - 1} more windows" if len(self.files) > 1 else "")


class Reduced(Struct, frozen=True):
    """Result of a recording: the folder it was written to and its part, or the message why it is unreadable."""

    folder: str | None
    part: Part | None
    seconds: float
    unread: str = ""


def stamps(files: tuple[str, ...]) -> tuple[Stamp, ...]:
    """Real path, size and modification time (ns) of each file. Raises OSError."""
    result = []
    for file in files:
        state = os.stat(file)
        result.append((os.path.realpath(file), state.st_size, state.st_mtime_ns))
    return tuple(result)


def reduce_recording(work: Recording, tell: object = None) -> Reduced:
    """Reduce one recording. An unreadable recording is returned as a result; any other error is raised."""
    with _alone:
        began = time.monotonic()
        try:
            folder, part = _reduced(work)
            return Reduced(str(folder), part, time.monotonic() - began)
        except Unreadable as error:
            return Reduced(None, None, time.monotonic() - began, str(error))


def _reduced(work: Recording) -> tuple[Path, Part]:
    from ...analysis.fleet.reduce import VERSION, reduce
    from ...loaders.dataset.write import stage
    from ...loaders.native.allocator import give_back

    with _opened(work) as run:
        give_back()  # reading took more memory than most analyses need
        if not run.has("kernels") and not run.has("cycles"):
            raise Unreadable(work.name, "holds no device activity, so it is not a rank of the job")
        return stage(reduce(run), Path(work.dataset), work.session, work.stamps, VERSION)


@contextmanager
def _opened(work: Recording) -> Iterator[Trace]:
    """The recording as one run with a rank in every table; temporary files of the load are removed afterwards."""
    from ...loaders.ingest import cache, ranks, spill
    from ...loaders.ingest.job.files import Request
    from ...loaders.ingest.opening import ingest

    # reducing a thousand ranks must not evict the user's own traces from the cache
    cached = all(cache.find(file) is not None for file in work.files)
    result: list[Path] = []
    try:
        runs: list[Trace] = []
        for file in work.files:
            opened = ingest(file, Request(use_cache=cached, lasting=False))
            result += [] if cached else opened.directories
            traces = opened.traces()
            if len(traces) > 1:
                raise Unreadable(file, f"holds {len(traces)} runs", "Reduce recordings of one process each.")
            runs += traces
        run = runs[0] if len(runs) == 1 else ranks.joined(work.files[0], Path(work.files[0]).name, runs)
        if len(run.info.ranks) > 1:
            yield run
            return
        rank = run.info.ranks[0] if run.info.ranks else work.rank
        if rank is None:
            raise Unreadable(work.name, "records no rank, and neither does its file name",
                             "Name the files after their ranks: rank-0, rank-1.")
        if not 0 <= rank < MOST_RANKS:
            raise Unreadable(work.name, f"records rank {rank}, which is not a valid rank",
                             "Correct the rank in its distributedInfo.")
        merged = ranks.merge(run.info.source, run.info.label, [run], [rank])
        warnings = tuple(warning.removeprefix(f"rank {rank}: ") for warning in merged.info.warnings)
        yield replace(merged, info=replace(merged.info, warnings=warnings))
    finally:
        for directory in result:
            spill.remove(directory)
