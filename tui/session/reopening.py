"""Runs opened before in this session: whoever comes back to a path that has not changed does not wait for it again.

A path is known by what lies there: size and time of change, of a folder those of everything directly in it. What was
only half read, or cannot be looked at beforehand (standard input), is read again. Tables are scans of what lies on the
disk, so some runs cost little to remember; their answers are remembered as long as they are, within the same bounds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .opening import Run

if TYPE_CHECKING:
    from ...analysis.contract.view import Runs

MOST_RUNS = 4
"""Runs that are remembered, beside those that are open."""
_MOST_FILES = 4_096
"""Files of a folder that are looked at; a larger one is read again."""
_Stamp = tuple[tuple[str, int, int], ...]


class Reopening:
    """The runs of this session by their paths."""

    def __init__(self) -> None:
        self._known: list[tuple[str, _Stamp, Run]] = []

    def runs(self, paths: Sequence[str]) -> list[Run]:
        """A run for each path: the one that was read before where nothing changed since, else one to be read."""
        self._known = [entry for entry in self._known if entry[2].state in ("loaded", "loading")]
        made: list[Run] = []
        for path in paths:
            stamp = _stamp(path)
            found = next(
                (run for name, then, run in self._known
                 if (name, then, run.state) == (path, stamp, "loaded") and not any(run is one for one in made)), None)
            run = found or Run(path)
            made.append(run)
            self._known = [entry for entry in self._known if entry[2] is not run and entry[:2] != (path, stamp)]
            if stamp is not None:
                self._known.append((path, stamp, run))
        del self._known[: -MOST_RUNS - len(made)]
        return made

    @property
    def traces(self) -> Runs:
        """The recordings of all runs that are remembered."""
        return tuple(trace for _, _, run in self._known for trace in run.traces)


def _stamp(path: str) -> _Stamp | None:
    """What lies there; None where nobody can say."""
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
