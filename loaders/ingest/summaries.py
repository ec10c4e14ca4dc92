"""Small summaries of many inputs, computed once and then stored with the cached tables.

The history needs the same small summary of hundreds of runs. If a run's tables are cached, the summary is stored with
their derived files and read without opening the tables: 200 runs in 0.2 s. The summary of a folder whose files have
separate entries is stored with the first of them. Runs without a summary are opened in several worker processes, so
that a run that is unreadable or crashes its reader does not affect the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import Unreadable
from ..private import blake2b
from ..trace import Trace
from . import cache, spill
from .cache import DERIVED
from .job import pool
from .opening import open_run
from .store import DerivedFiles

Summarise = Callable[[Trace], bytes]
"""Computes the summary of a run; must be a module-level function, because it is pickled by name."""
_MOST_KEPT = 4
"""Maximum summaries stored per input, for its workers and for other versions of the code."""
_ALONE = 2
"""Up to so many runs are read in this process, as another would not have started sooner."""


def summaries(
    paths: Mapping[int, str], name: str, summarise: Summarise, use_cache: bool = True, worker: int | None = None
) -> Iterator[tuple[int, bytes | Unreadable]]:
    """(number, summary or error) of each input, in any order. ``name`` is the name to store summaries under: lower-case
    letters, digits and dashes; it must change whenever ``summarise`` does. ``worker`` selects that run of each file."""
    left = []
    for number, path in paths.items():
        cached = _cached_summary(path, name, worker) if use_cache else None
        if cached is None:
            left.append(number)
        else:
            yield number, cached
    tasks = [(paths[number], name, summarise, use_cache, worker) for number in left]
    if len(left) <= _ALONE:
        for number, task in zip(left, tasks, strict=True):
            try:
                yield number, summary_of(task, lambda said: None)
            except Exception as error:
                yield number, _unreadable(task[0], error)
        return
    for outcome in pool.run(summary_of, tasks, pool.most_workers(len(left))):
        if outcome.ended:
            number, failed = left[outcome.number], outcome.error
            yield number, outcome.value if failed is None else _unreadable(paths[number], failed)


def _unreadable(path: str, error: Exception) -> Unreadable:
    if isinstance(error, Unreadable):
        return error
    reason = (str(error).splitlines() or [""])[0][:160]
    return Unreadable(path, f"cannot be analysed ({type(error).__name__}: {reason})", "The others are still analysed.")


def summary_of(task: tuple[str, str, Summarise, bool, int | None], tell: pool.Tell) -> bytes:
    """Open and summarise a run, storing the summary if its tables are cached. Raises Unreadable, and whatever
    ``summarise`` raises."""
    path, name, summarise, use_cache, worker = task
    with _held_for_now():
        runs = open_run(path, worker=worker, use_cache=use_cache)
        if len(runs) > 1:
            raise Unreadable(path, f"holds {len(runs)} runs", "Choose one with --worker 0 or --worker 1.")
        data = summarise(runs[0])
        if use_cache and (place := _place(path, name, worker)) is not None:
            place[0].write_bytes(place[1], data)
            place[0].only_last(name.partition("-")[0] + "-", _MOST_KEPT)
    return data


def _cached_summary(path: str, name: str, worker: int | None) -> bytes | None:
    """The stored summary of the current state of the input; None if there is none."""
    with _held_for_now():
        place = _place(path, name, worker)
        return None if place is None else place[0].read_bytes(place[1])


@contextmanager
def _held_for_now() -> Iterator[None]:
    """Release cache entries first held in the block: each is an open file, and with more than 1,024 of them ``select``
    can no longer read the terminal."""
    before = spill.held_directories()
    try:
        yield
    finally:
        for folder in spill.held_directories() - before:
            spill.release(folder)


def _place(path: str, name: str, worker: int | None) -> tuple[DerivedFiles, str] | None:
    """(store, name) for the summary of the current state of the input; None if its tables are not cached."""
    if worker is not None:
        name = f"{name}-{worker}"
    entry = cache.find(path)
    if entry is None and os.path.isdir(path):
        try:
            state = repr(cache.stamps([path])[0]).encode(errors="surrogateescape")
            files = sorted(file for file in Path(path).rglob("*") if file.is_file())
        except OSError:
            return None
        name = f"{name}-{blake2b(state, digest_size=8).hexdigest()}"
        entry = next((entry for file in files if (entry := cache.find(file)) is not None), None)
    return None if entry is None else (DerivedFiles(entry.directory / "0" / DERIVED), name)
