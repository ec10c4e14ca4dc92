"""What a question keeps of each of many inputs: read once, then found beside the cached tables.

A history asks the same small summary of hundreds of runs. Where the cache holds a run's tables, the summary lies with
what else was derived from them, and is read without opening these: of 200 runs in 0.2 s. Others are opened in processes
of their own, several at once, so that one that cannot be read, or kills its reader, costs itself only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..errors import Unreadable
from ..trace import Trace
from . import cache
from .cache import DERIVED
from .job import pool
from .opening import open_run
from .store import DerivedFiles

Summarise = Callable[[Trace], bytes]
"""What is kept of a run; a function of a module, for it is sent to other processes by its name."""
_ALONE = 2
"""Runs that are read in this process, for they are read before another has started."""


def summaries(
    paths: Mapping[int, str], name: str, summarise: Summarise, use_cache: bool = True
) -> Iterator[tuple[int, bytes | Unreadable]]:
    """The summary of each input by its number, or why it has none, in whatever order they come. ``name`` is what it is
    kept under: of small letters, digits and dashes, and another one when ``summarise`` changes."""
    left = []
    for number, path in paths.items():
        kept = _kept(path, name) if use_cache else None
        if kept is None:
            left.append(number)
        else:
            yield number, kept
    tasks = [(paths[number], name, summarise, use_cache) for number in left]
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


def summary_of(task: tuple[str, str, Summarise, bool], tell: pool.Tell) -> bytes:
    """Open the run and summarise it; kept where the cache holds its tables. Raises Unreadable, and what ``summarise``
    raises."""
    path, name, summarise, use_cache = task
    runs = open_run(path, use_cache=use_cache)
    if len(runs) > 1:
        raise Unreadable(path, f"holds {len(runs)} runs", "A history takes files of one run each.")
    data = summarise(runs[0])
    files = runs[0].derived_store
    if isinstance(files, DerivedFiles) and files.is_of(runs[0]):
        files.write_bytes(name, data)
        files.only_last(name.partition("-")[0] + "-", 2)
    return data


def _kept(path: str, name: str) -> bytes | None:
    """The summary beside the tables of this state of the input."""
    if (entry := cache.find(path)) is None:
        return None
    return DerivedFiles(entry.directory / "0" / DERIVED).read_bytes(name)
