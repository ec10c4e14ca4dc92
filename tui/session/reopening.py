"""Runs opened earlier in this session: reopening a path that has not changed needs no second load.

A path counts as unchanged while its size and mtime are the same; for a folder also those of every entry directly in
it. Runs read only in part, and inputs that cannot be checked (standard input), are read again. Tables are scans of
files on disk, so a cached run costs little memory; its answers stay cached as long, within their own limit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .opening import Run

if TYPE_CHECKING:
    from ...analysis.contract.view import Runs

MOST_RUNS = 8
"""Runs cached in addition to those that are open."""
_MOST_FILES = 4_096
"""Folders with more entries than this are not checked but read again."""
_Stamp = tuple[tuple[str, int, int], ...]


class Reopening:
    """The cached runs of this session, by path."""

    def __init__(self) -> None:
        self._known: list[tuple[str, _Stamp, Run]] = []

    def runs(self, paths: Sequence[str]) -> list[Run]:
        """One run per path: the cached one if the path has not changed since, else a new one to be loaded."""
        self._known = [entry for entry in self._known if entry[2].state in ("loaded", "loading")]
        result: list[Run] = []
        for path in paths:
            stamp = _stamp(path)
            trace = next(
                (run for name, then, run in self._known
                 if (name, then, run.state) == (path, stamp, "loaded") and not any(run is one for one in result)), None)
            run = trace or Run(path)
            result.append(run)
            self._known = [entry for entry in self._known if entry[2] is not run and entry[:2] != (path, stamp)]
            if stamp is not None:
                self._known.append((path, stamp, run))
        del self._known[: -MOST_RUNS - len(result)]
        return result

    @property
    def traces(self) -> Runs:
        """The recordings of all cached runs."""
        return tuple(trace for _, _, run in self._known for trace in run.traces)


def _stamp(path: str) -> _Stamp | None:
    """Name, size and mtime of the path and, for a folder, its entries; None where that cannot be determined."""
    try:
        if path == "-" or not (os.path.isdir(path) or os.path.isfile(path)):
            return None
        files = sorted(os.scandir(path), key=lambda entry: entry.name) if os.path.isdir(path) else []
        if len(files) > _MOST_FILES:
            return None
        states = [(path, os.stat(path)), *((entry.name, entry.stat()) for entry in files)]
    except OSError:
        return None
    return tuple((name, state.st_size, state.st_mtime_ns) for name, state in states)
