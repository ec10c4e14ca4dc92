"""Pairing of processes: which process of run A is compared with which process of run B.

A process has the same pid in both runs only if the same recorder watched the same live process twice; after a restart
pids differ. So processes are paired by pid if both runs have it ("strict"), and every remaining process of A with every
remaining one of B ("cross"): one table per pair, never one over several processes.

The processes of a job are those of its ranks, and ranks are the same in both jobs: processes are paired within each
rank. Hosts assign the same pids, so several ranks may share one; such a process gets a stand-in key, a negative number
that is nobody's pid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from typing import NamedTuple

import polars as pl
from msgspec import Struct

from ..contract.options import Options
from ..contract.view import CannotAnswer


class Process(NamedTuple):
    """A process of a job, as recorded."""

    pid: int | None
    rank: int | None


Processes = Mapping[int | None, Process]  # Key → process of a job; empty for a run that is no job.


class ProcessPair(Struct, frozen=True):
    """The keys of one process of each run (see ``Processes``); None on both sides if the runs record no processes.
    ``rank``: of both, if they are jobs; ``pid_a`` and ``pid_b``: the recorded pids."""

    a: int | None
    b: int | None
    strict: bool
    rank: int | None = None
    pid_a: int | None = None
    pid_b: int | None = None


def processes_of(pids: pl.DataFrame) -> Processes:
    """The processes of a run from its pairs of ``pid`` and ``rank``; empty if it has fewer than two ranks."""
    pairs = pids.select("pid", "rank").unique().sort("rank", "pid", nulls_last=True).rows()
    if len({rank for _, rank in pairs if rank is not None}) < 2:
        return {}
    shared = Counter(pid for pid, _ in pairs)
    lowest = min((pid for pid, _ in pairs if pid is not None), default=0)
    stand_ins = count(min(lowest, 0) - 1, -1)
    return {pid if shared[pid] == 1 else next(stand_ins): Process(pid, rank) for pid, rank in pairs}


def job_pairs(a: Processes, b: Processes, options: Options) -> list[ProcessPair] | None:
    """The pairs of two jobs within each common rank; None if they are not jobs or share no rank.
    ``options.pid_a``/``pid_b`` keep only those processes. Raises CannotAnswer if there is no such process."""
    sides = [_by_rank(side, pid, name) for name, side, pid in zip("AB", (a, b), _wanted(options), strict=True)]
    common = sorted(sides[0].keys() & sides[1].keys())
    pairs = []
    for rank in common:
        own, theirs = sides[0][rank], sides[1][rank]
        both = own.keys() & theirs.keys()
        alone = len(own) == len(theirs) == 1
        pairs += [
            ProcessPair(own[x], theirs[y], x == y or alone, rank, x, y)
            for x in _ordered(own) for y in _ordered(theirs) if x == y or not ({x, y} & both)
        ]
    return pairs or None


def recorded(processes: Processes, called: int | None) -> int | None:
    """The recorded pid for a key."""
    process = processes.get(called)
    return called if process is None else process.pid


def _by_rank(side: Processes, wanted: int | None, name: str) -> dict[int, dict[int | None, int | None]]:
    """Per rank: pid → key."""
    result: dict[int, dict[int | None, int | None]] = {}
    for called, (pid, rank) in side.items():
        if rank is not None and wanted in (None, pid):
            result.setdefault(rank, {})[pid] = called
    if side and not result:
        pids = ", ".join(str(pid) for pid in _ordered(process.pid for process in side.values()) if pid is not None)
        raise CannotAnswer(f"Run {name} has no process {wanted}; it has {pids or 'none'}.")
    return result


def process_pairs(a: Iterable[int | None], b: Iterable[int | None], options: Options) -> list[ProcessPair]:
    """The pairs in ascending order, strict ones first; ``options.pid_a``/``pid_b`` pick one. Raises CannotAnswer."""
    left, right = _ordered(a), _ordered(b)
    wanted_a, wanted_b = _wanted(options)
    if wanted_a is not None:
        for name, wanted, have in (("A", wanted_a, left), ("B", wanted_b, right)):
            if wanted not in have:
                pids = ", ".join(str(pid) for pid in have if pid is not None) or "none"
                raise CannotAnswer(f"Run {name} has no process {wanted}; it has {pids}.")
        left, right = [wanted_a], [wanted_b]
    both = [pid for pid in left if pid in right]
    pairs = [(pid, pid) for pid in both] + [(x, y) for x in left if x not in both for y in right if y not in both]
    return [ProcessPair(x, y, x == y, None, x, y) for x, y in pairs]


def _wanted(options: Options) -> tuple[int | None, int | None]:
    """The pids requested in A and B; if only one is given, it applies to both."""
    a, b = options.pid_a, options.pid_b
    return (b if a is None else a), (a if b is None else b)


def _ordered(pids: Iterable[int | None]) -> list[int | None]:
    return sorted(set(pids), key=lambda pid: (pid is None, pid or 0))
