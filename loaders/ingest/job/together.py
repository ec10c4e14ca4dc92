"""The recordings of a folder as one run: windows of a process joined, ranks merged, what drives them left out.

Whose rank each is says the recording, else its name. Where several are of one rank they are windows of its process, one
after the other: they are joined first, if all know when they were recorded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ... import registry
from ...errors import Unreadable
from ...trace import Trace
from .. import ranks, windows
from ..advice import offers
from .layout import HELPER, recordings


def job_of(shown: str, singles: Sequence[Trace]) -> Trace:
    """All recordings as one run. Raises Unreadable where they are neither one job's ranks nor one process's windows."""
    runs, drivers = _without_drivers(singles)
    label = Path(os.path.abspath(shown)).name or shown
    made = _joined(shown, label, runs) if len(runs) > 1 else runs[0]
    return made.warn(*(
        f"{Path(trace.info.source).name} is of a process that drives the ranks, with nothing on a device: it was left "
        "out; open it alone to see it" for trace in drivers
    )) if drivers else made


def ranks_together(runs: Sequence[Trace]) -> Trace | None:
    """Recordings that say they are of different ranks, as one run; None where any does not say, or two say the same."""
    recorded = [run.info.ranks for run in runs]
    if len(runs) < 2 or any(len(said) != 1 for said in recorded) or len({said[0] for said in recorded}) < len(runs):
        return None
    if len({run.info.format for run in runs}) > 1:
        return None
    label = f"{runs[0].info.label} and {len(runs) - 1} more rank{'s' if len(runs) > 2 else ''}"
    return ranks.merge(runs[0].info.source, label, runs, [said[0] for said in recorded])


def _without_drivers(singles: Sequence[Trace]) -> tuple[list[Trace], list[Trace]]:
    """The recordings of ranks, and those of a serving engine's other processes; without any rank all are taken."""
    drivers = [
        trace for trace in singles
        if not trace.info.ranks and HELPER.search(Path(trace.info.source).name) and not trace.has("kernels")
    ]
    left = [trace for trace in singles if not any(trace is driver for driver in drivers)]
    return (left, drivers) if left else (list(singles), [])


def _joined(shown: str, label: str, singles: Sequence[Trace]) -> Trace:
    files = [Path(file) for file in dict.fromkeys(trace.info.source for trace in singles)]
    formats = {trace.info.format for trace in singles}
    if len(singles) == len(files) and len(formats) == 1:
        found = ranks.ranks_of(files, [trace.info.ranks for trace in singles])
        if found is None and _one_run(formats):
            found = list(range(len(files)))
        if found is not None:
            return ranks.merge(shown, label, singles, found)
        if (run := _windowed(shown, label, files, singles)) is not None:
            return run
    reason = f"holds {len(files)} recordings that are not the ranks of one job{_twice(files, singles)}"
    raise Unreadable(shown, reason, offers.runs_under(Path(shown), files))


def _twice(files: Sequence[Path], singles: Sequence[Trace]) -> str:
    """Which rank two of the files say they are of, as the end of a sentence; nothing where none is said twice."""
    said: dict[tuple[int, ...], str] = {}
    for file, trace in zip(files, singles, strict=False):
        ranks = trace.info.ranks
        if ranks and ranks in said:
            which = f"rank {ranks[0]}" if len(ranks) == 1 else "the same ranks"
            return f": {said[ranks]} and {file.name} both say that they are of {which}"
        said[ranks] = file.name
    if len({bool(ranks) for ranks in said}) > 1:
        return f": {said[()]} does not say whose it is, and the names of all do not fit what the others say"
    return ""


def _windowed(shown: str, label: str, files: list[Path], singles: Sequence[Trace]) -> Trace | None:
    """The windows of each process joined, and the processes merged; None where that makes no job of them."""
    of_file = dict(zip(files, singles, strict=True))
    groups = [[of_file[file] for file in group] for group in recordings(files)]
    if len(groups) == len(files) or not all(map(_of_one_process, groups)):
        return None
    if len(groups) == 1:
        return windows.joined(shown, label, groups[0])
    processes = [
        group[0] if len(group) == 1 else windows.joined(group[0].info.source, group[0].info.label, group)
        for group in groups
    ]
    named = [Path(run.info.source) for run in processes]
    found = ranks.ranks_of(named, [run.info.ranks for run in processes])
    return None if found is None else ranks.merge(shown, label, processes, found)


def _of_one_process(group: Sequence[Trace]) -> bool:
    """Whether recordings with names of one process are of one rank, and each knows when it was made."""
    if len(group) == 1:
        return True
    return len({trace.info.ranks for trace in group}) == 1 and all(trace.info.epoch_ns is not None for trace in group)


def _one_run(formats: set[str]) -> bool:
    """Whether files of the format that lie together are always one run's, whatever they are called."""
    return all(loader.folder_is_one_run for loader in registry.loaders() if loader.name in formats)
