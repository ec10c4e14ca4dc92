"""What a question keeps of each of many inputs: read once, then found beside the cached tables.

A history asks the same small summary of hundreds of runs. Where the cache holds a run's tables, the summary lies with
what else was derived from them, and is read without opening these: of 200 runs in 0.2 s. The summary of a folder whose
files have an entry each lies with the first of them. Others are opened in processes of their own, several at once, so
that one that cannot be read, or kills its reader, costs itself only.
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
"""What is kept of a run; a function of a module, for it is sent to other processes by its name."""
_MOST_KEPT = 4
"""Summaries of one input that are kept: of its workers, and of another state of our code."""
_ALONE = 2
"""Runs that are read in this process, for they are read before another has started."""


def summaries(
    paths: Mapping[int, str], name: str, summarise: Summarise, use_cache: bool = True, worker: int | None = None
) -> Iterator[tuple[int, bytes | Unreadable]]:
    """The summary of each input by its number, or why it has none, in whatever order they come. ``name`` is what it is
    kept under: of small letters, digits and dashes, and another one when ``summarise`` changes. ``worker`` takes that
    run of each file."""
    left = []
    for number, path in paths.items():
        kept = _kept(path, name, worker) if use_cache else None
        if kept is None:
            left.append(number)
        else:
            yield number, kept
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
    said = (str(error).splitlines() or [""])[0][:160]
    return Unreadable(path, f"cannot be analysed ({type(error).__name__}: {said})", "The other runs go on.")


def summary_of(task: tuple[str, str, Summarise, bool, int | None], tell: pool.Tell) -> bytes:
    """Open the run and summarise it; kept where the cache holds its tables. Raises Unreadable, and what ``summarise``
    raises."""
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


def _kept(path: str, name: str, worker: int | None) -> bytes | None:
    """The summary of this state of the input, if there is one."""
    with _held_for_now():
        place = _place(path, name, worker)
        return None if place is None else place[0].read_bytes(place[1])


@contextmanager
def _held_for_now() -> Iterator[None]:
    """Let go of the cache entries that are only read here: each is an open file, and a terminal cannot be read through
    ``select`` by a process that has more than 1,024."""
    before = spill.held()
    try:
        yield
    finally:
        for folder in spill.held() - before:
            spill.release(folder)


def _place(path: str, name: str, worker: int | None) -> tuple[DerivedFiles, str] | None:
    """Where the summary of this state of the input lies, and under which name; None where no tables are cached."""
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
